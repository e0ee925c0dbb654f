"""Removal of labs for a user: one by its name, or all of this checkout that no command uses."""

from collections.abc import Callable, Collection, Sequence

from replication_lab.lab.up import in_use, refuse_other_user, tidy
from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.core.progress import Tell
from replication_lab.world import lock, owners, revisions
from replication_lab.world.disks import array
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import images, labels, leftovers, project, sites
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.docker.lab import Lab


def down(
    name: str | None,
    tell: Tell = print,
    agree: Callable[[str], None] = lambda _name: None,
    forget: Sequence[str] = (),
) -> list[str]:
    """Remove a lab with its data; without a name, the only idle lab of this checkout. It is no error if none runs.

    `agree` is called with the name before, and raises LabError if the user does not agree. `forget` names sites that
    are gone for good; a site that answers is refused. What the lab had there is named, and stays on that engine.

    With its name, also remove a lab whose owner is not known to have ended, or whose topology is not in this checkout.
    """
    docker_engine.client()
    tidy(tell)
    name = name or _only_one(tell)
    if not name:
        return []
    agree(name)
    with lock.lab_held(name, "lab down"):
        forgotten = sites.forgettable(name, forget)
        unseen = [f"{sites.services_at(name, endpoint)} at {endpoint}" for endpoint in forgotten]
        _remove(name, forgotten)
    where = " on the other sites" if forgotten else ""
    tell(f"{name} is stopped; its containers, networks and volumes{where} are removed")
    for each in unseen:
        tell(f"not seen to go: {each}. Once it answers, the next command that uses it removes the rest")
    return [name]


def _only_one(tell: Tell) -> str:
    """Return the name of the only lab that could be removed without a name; an empty string if none runs."""
    labs = project.all_labs()
    idle = [known for known, lab in labs.items() if lab.is_idle()]
    if not idle and not any(lab.is_in_use() for lab in labs.values()):
        others = project.others_shown()
        tell(f"no lab of yours is running; removed by name only: {others}" if others else "no lab is running")
        return ""
    return idle[0] if len(idle) == 1 else project.find(None).name


def _remove(name: str, forgotten: Collection[str]) -> None:
    lab, marks = project.all_labs().get(name), labels.owners().get(name, set())
    if not lab and not marks and not forgotten:
        project.find(name)
    if isinstance(lab, AttachedLab):
        raise LabError(
            f"{name} is an attached project, and `lab down` deletes a lab with its data",
            "`lab detach`, which restores the project",
            f"./lab detach --lab {name}",
        )
    refuse_other_user(name, marks)
    if any(map(owners.is_alive, marks)) and owners.owner() not in marks:
        raise in_use(name)
    leftovers.remove(name, forgotten)


def removable(with_images: bool, names: Collection[str] = ()) -> list[str]:
    """Return what `clean` would remove; change nothing. Raise LabError for a name that no lab of this checkout has."""
    docker_engine.client()
    left = leftovers.left_behind()
    for name in names:
        if name not in (known := {*project.all_labs(), *left, *_remains(None)}):
            raise unknown_name("lab of this checkout", name, known, "./lab status")
    # A lab that is removed frees its own devices.
    of_arrays = array.left_in_dev(sorted(labels.owners()))
    copies = [revisions.shown(copy) for copy in revisions.unused(labels.compose_files())]
    found = [
        *left,
        *_idle(names or None),
        *_remains(names or None),
        *of_arrays,
        *copies,
        *(images.all_tags() if with_images else []),
    ]
    return list(dict.fromkeys(found))


def _idle(names: Collection[str] | None) -> dict[str, Lab]:
    """Return the labs of this checkout that no command uses, of these names or of all."""
    labs = project.all_labs().items()
    return {name: lab for name, lab in labs if lab.is_idle() and (names is None or name in names)}


def _remains(names: Collection[str] | None) -> list[str]:
    """Return the labs of this checkout of which only networks or volumes are there: a removal did not finish."""
    with_containers = project.all_labs()
    return [
        name
        for name, marks in labels.owners().items()
        if (names is None or name in names) and name not in with_containers and all(map(owners.is_left, marks))
    ]


def clean(with_images: bool, tell: Tell = print, names: Collection[str] | None = None) -> list[str]:
    """Remove what killed commands of this checkout left behind, and its labs that no command uses; return the names.

    With names, such as `removable` has returned, remove only these labs.
    """
    # Keep this in step with `removable`.
    docker_engine.client()
    gone = leftovers.sweep(tell)
    for name, lab in _idle(names).items():
        with lock.lab_if_free(name, "lab clean") as by:
            # Another command may have used it, or replaced it, since it was looked for.
            if not by and name in _idle((name,)):
                tell(f"{'detaching' if isinstance(lab, AttachedLab) else 'removing'} {name}")
                lab.down()
                gone.append(name)
    for name in _remains(names):
        tell(f"removing what is left of {name}")
        leftovers.remove(name)
        gone.append(name)
    for name, why in project.others().items():
        tell(f"left {name}: {why}")
    gone += array.sweep(sorted(labels.owners()))
    gone += revisions.remove(revisions.unused(labels.compose_files()))
    if with_images:
        gone += images.remove_all()
    return gone
