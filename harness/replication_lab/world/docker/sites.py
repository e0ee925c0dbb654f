"""The engines of labs whose nodes are on several sites, as their settings name them: asked together, found again."""

import sys
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import quote, unquote

import msgspec

from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.lab.site import PROXY, Site
from replication_lab.world import clock, lab_files
from replication_lab.world.docker import engine
from replication_lab.world.docker.client import EngineClient

# In a lab's settings: the site of each service.
SITES = "LAB_SITES"
# A site that was silent is not asked again for this long: one command asks many times.
SILENT_SECONDS = 10
_silent: dict[str, tuple[float, LabError]] = {}
_warned: set[str] = set()
# The endpoints of other engines that this command was given: what a forgotten lab left there is a leftover.
_used: set[str] = set()


def setting(services: Mapping[str, Site]) -> dict[str, str]:
    """Return the line of a lab's settings that remembers the site of each service; none for a lab on one engine."""
    return {SITES: quote(msgspec.json.encode(services).decode())} if services else {}


def of(project: str) -> dict[str, Site]:
    """Return the site of each service of a lab that is on several; empty for every other project."""
    text = lab_files.settings(project).get(SITES, "")
    try:
        return msgspec.json.decode(unquote(text), type=dict[str, Site]) if text else {}
    except msgspec.DecodeError:
        return {}


def of_service(project: str, service: str) -> Site:
    """Return the site of a service of a lab; of a lab on one engine it is that engine, without an address."""
    return of(project).get(service, Site())


def use(endpoints: Iterable[str]) -> None:
    """Let this command look for labs and leftovers on these sites, too."""
    _used.update(filter(None, endpoints))


def proxies(project: str) -> dict[str, Site]:
    """Return the site of each Toxiproxy of a lab by its service: the topology's own first."""
    return {name: site for name, site in of(project).items() if name.startswith(PROXY)} or {PROXY: Site()}


def proxy_beside(project: str, node: str) -> str:
    """Return the service of the Toxiproxy on a node's site, which the node dials."""
    here = of_service(project, node)
    return next((name for name, site in proxies(project).items() if site == here), PROXY)


def others(project: str = "") -> list[str]:
    """Return the endpoints of other engines that have parts of a lab, or of any lab of this checkout."""
    projects = [project] if project else lab_files.names(lab_files.SETTINGS)
    found = {site.endpoint for each in projects for site in of(each).values()}
    return sorted(found - {""})


def client(endpoint: str) -> EngineClient:
    """Return a client of the engine of a site, empty for the command's own; LabError if the site is silent."""
    if not endpoint:
        return engine.client()
    since, error = _silent.get(endpoint, (0.0, None))
    if error and clock.timer() - since < SILENT_SECONDS:
        raise error
    try:
        return engine.of_site(endpoint)
    except LabError as silent:
        _silent[endpoint] = (clock.timer(), silent)
        raise


def clients(project: str = "") -> list[EngineClient]:
    """Return a client of the command's engine, and of each other one that answers; warn once of each that is silent.

    They are those of a project's sites. What has no settings here can be anywhere: a lab whose site was forgotten.
    """
    found = [engine.client()]
    is_known = project and lab_files.settings(project)
    for endpoint in others(project) if is_known else sorted({*others(), *_used}):
        try:
            found.append(client(endpoint))
        except LabError as error:
            if endpoint not in _warned:
                _warned.add(endpoint)
                print(f"warning: {error.found}; what labs have there is not seen", file=sys.stderr, flush=True)
    return found


def silent(project: str) -> dict[str, LabError]:
    """Return the endpoints of a lab's sites that do not answer, each with the error."""
    found = {}
    for endpoint in others(project):
        try:
            client(endpoint)
        except LabError as error:
            found[endpoint] = error
    return found


def services_at(project: str, endpoint: str) -> str:
    """Return the services of a lab that are on a site, as words."""
    return ", ".join(name for name, site in of(project).items() if site.endpoint == endpoint)


def refuse_silent(project: str, forgotten: Collection[str] = ()) -> None:
    """Raise LabError if a site of a lab does not answer: what is not seen is not known to be gone.

    Those that the user has `forgotten`, by their endpoints, are gone for good.
    """
    for endpoint, error in silent(project).items():
        if endpoint not in forgotten:
            raise LabError(
                f"{error.found}: what {project} has there is not removed ({services_at(project, endpoint)})",
                f"a site that answers; if it is lost for good: ./lab down --lab {project} --forget-site {endpoint}",
                f"{error.next_step}; then ./lab down --lab {project}",
            ) from error


def forgettable(project: str, named: Iterable[str]) -> list[str]:
    """Return the endpoints of a lab's sites that the user names, by an endpoint or a node, and wants to forget.

    Raise LabError for a name that is no other site of the lab, and for a site that answers.
    """
    known, found = others(project), []
    for name in named:
        endpoint = name if name in known else of(project).get(name, Site()).endpoint
        if not endpoint:
            raise unknown_name(f"site of {project} besides the command's own engine", name, known, "./lab status")
        if endpoint not in silent(project):
            raise LabError(
                f"the site {endpoint} answers", "a site that is lost for good", f"./lab down --lab {project}"
            )
        found.append(endpoint)
    return found


def refuse_missing(project: str, service: str) -> None:
    """Raise LabError if a service of a lab is on a site that does not answer."""
    if error := silent(project).get(of_service(project, service).endpoint):
        said = f"{service} of {project} is not seen: {error.found}"
        raise LabError(said, error.expected, error.next_step) from error
