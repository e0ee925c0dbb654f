"""A Compose project that the lab did not write: attached, proved, detached."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from replication_lab.attach import as_before, override
from replication_lab.attach.as_before import NotAsBefore
from replication_lab.attach.plan import AttachPlan
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.progress import Tell
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.attachment import LABEL, Attachment
from replication_lab.world import clock, folders, lab_files, lock, owners, signals
from replication_lab.world.docker import attachments, images, project
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.lab_files import LabState

# The longest time after which an application's pool is expected to have connected again, and a recreated container to
# be healthy.
FLOW_SECONDS, HEALTHY_SECONDS = 15, 180
NOTHING_FLOWS = "no connection has crossed it yet"


def attach(found: AttachPlan, condition: str, tell: Tell) -> tuple[AttachedLab, list[Proof]]:
    """Attach the links and prove them; on any failure restore the project."""
    attached = found.attached
    attachments.refuse_elsewhere(attached.compose.project)
    images.ensure(["toxiproxy"])
    with lock.lab_held(attached.compose.project, "lab attach"):
        path = override.write(attached, owners.owner(), found.kept, found.linked)
        tell(f"override file: {folders.from_here(path)}")
        try:
            override.start(attached)
            lab = project.find(attached.compose.project)
            if not isinstance(lab, AttachedLab):
                raise LabError(f"{lab.name} is not attached", "an attached project", attached.again)
            _wait_until_healthy(lab)
            as_before.wait(attached, attachments.accounts(lab.name), tell, is_over=False)
            proofs = prove(lab, condition, tell)
            toxics = {link.name: condition for link in attached.links}
            lab_files.save_state(lab.name, LabState(lab.topology.name, lab.engine, proofs, toxics))
        except BaseException as error:
            accounts = attachments.accounts(attached.compose.project)
            with signals.signals_held():
                tell(f"restoring {attached.compose.project}")
                attachments.restore(attached.compose.project)
            if isinstance(error, LabError) and not signals.interruption_within(error):
                raise as_before.after_restoring(attached, accounts, tell, error) from error
            raise
        return lab, proofs


def _wait_until_healthy(lab: AttachedLab) -> None:
    services = [*(each.service for each in lab.attached.consumers), *lab.attached.added]

    def all_healthy() -> bool:
        lab.refresh()
        found = [container for service in services for container in lab.all_containers.of(service)]
        for container in found:
            if container.status == "exited":
                raise LabError(as_before.ended(container), "a running container", f"docker logs {container.name}")
        return all(map(as_before.is_healthy, found))

    clock.wait_until(all_healthy, f"{', '.join(services)} to be healthy", HEALTHY_SECONDS, every=0.1)


def prove(lab: AttachedLab, condition: str, tell: Tell) -> list[Proof]:
    """Prove that each link leads through the lab, that its consumer uses it, and that it has its condition."""
    found = [_prove_alias(lab, link.name) for link in lab.attached.links]
    found += up.set_toxics(lab, {link.name: condition for link in lab.attached.links})
    found += [_prove_flow(lab, link.name) for link in lab.attached.links]
    for proof in found:
        said = "verified" if proof.ok else "NOT SEEN" if is_unseen(proof) else "FAILED"
        tell(f"  {said}: {proof.what}: {proof.found}")
    for proof in found:
        if not proof.ok and not is_unseen(proof):
            raise LabError(f"{proof.what}: {proof.found}", "a link that works", lab.attached.again)
    return found


def is_unseen(proof: Proof) -> bool:
    """Return whether a proof is missing only because nothing has crossed the link so far."""
    return not proof.ok and NOTHING_FLOWS in proof.found


def _prove_alias(lab: AttachedLab, name: str) -> Proof:
    """Prove that the name of a server is the lab's Toxiproxy in the consumer, by its own resolver if it has one."""
    link = lab.attached_link(name)
    proxy, found = lab.service(link.service).addresses(), lab.resolved(name)
    said = f"{link.consumer} resolves {link.server} to {', '.join(dict.fromkeys(found))}"
    if not found:
        said = "the alias is set, but the container has no getent to resolve it"
    ok = lab.leads_through(name) and set(found) <= proxy
    return Proof(f"{link.server} is the lab's Toxiproxy in {link.consumer}", said, ok)


def _prove_flow(lab: AttachedLab, name: str) -> Proof:
    link = lab.attached_link(name)
    what = f"{link.consumer} uses link {name}"
    try:
        many = clock.wait_until(partial(lab.crossed_by, name), f"a connection across {name}", FLOW_SECONDS, every=0.1)
    except LabError:
        return Proof(what, f"{NOTHING_FLOWS}: {link.consumer} has opened no connection in {FLOW_SECONDS} s", False)
    return Proof(what, f"{many} connection{'' if many == 1 else 's'} so far", True)


# --- detached ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Detached:
    """A project that was restored: how it differs from before, in words, and the volumes that Compose will not remove.

    `unnamed` are pairs of a service and the name of such a volume. `broken` is the error of servers that do not run or
    replicate as before.
    """

    project: str
    differences: list[str]
    unnamed: list[tuple[str, str]]
    broken: NotAsBefore | None = None


def detach(name: str | None, tell: Tell) -> Detached:
    """Restore an attached project, also one whose Toxiproxies were removed by other means."""
    docker_engine.client()
    if attached := _without_containers(name):
        restore: Callable[[], None] = partial(attachments.restore, attached.compose.project)
    else:
        up.tidy(tell)
        lab = find_attached(name)
        up.refuse_in_use(lab)
        attached, restore = lab.attached, lab.down
    broken, accounts = None, attachments.accounts(attached.compose.project)
    with lock.lab_held(attached.compose.project, "lab detach"):
        tell(f"recreating {', '.join(each.service for each in attached.consumers)}")
        with signals.signals_held():
            restore()
        try:
            as_before.wait(attached, accounts, tell, is_over=True)
        except NotAsBefore as error:
            broken = error
    left = [(each.service, volume) for each in attached.consumers for volume in attachments.unnamed_of(attached, each)]
    return Detached(attached.compose.project, attachments.differences(attached), left, broken)


def _without_containers(name: str | None) -> Attachment | None:
    """Return the attachment of this project, or the only one, if the containers that the lab added do not exist."""
    there, known = attachments.containers(), attachments.all_kept().items()
    lost = {each: kept.attached for each, kept in known if each not in there and owners.is_dead(kept.owner)}
    if name is None and len(lost) == 1 and not there:
        return next(iter(lost.values()))
    return lost.get(name or "")


def find_attached(name: str | None) -> AttachedLab:
    """Return the attached project of that name, or the only one; LabError if there is none."""
    known = {each: lab for each, lab in project.all_labs().items() if isinstance(lab, AttachedLab)}
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name in known:
        return known[name]
    if name:
        attachments.refuse_elsewhere(name)
    if name in attachments.containers():
        raise LabError(
            f"{name} was attached from another checkout or by another user, or its file in {lab_files.FOLDER} is lost",
            "the same checkout and user",
            "./lab detach there; without the file: docker compose up --detach --force-recreate for the consumers, then "
            f"docker rm --force the containers with the label {LABEL}={name}",
        )
    found = f"no project {name!r} is attached" if name else f"{len(known)} projects are attached"
    raise LabError(found, ", ".join(known) or "an attached project", "./lab status")
