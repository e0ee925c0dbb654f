"""The engines of labs whose nodes are on several sites, as their settings name them: asked together, found again."""

import sys
from collections.abc import Mapping
from urllib.parse import quote, unquote

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.site import Site
from replication_lab.world import clock, lab_files
from replication_lab.world.docker import engine
from replication_lab.world.docker.client import EngineClient

# In a lab's settings: the site of each service.
SITES = "LAB_SITES"
# A site that was silent is not asked again for this long: one command asks many times.
SILENT_SECONDS = 10
_silent: dict[str, tuple[float, LabError]] = {}
_warned: set[str] = set()


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
    """Return a client of the command's engine, and of each other one that answers; warn once of each that is silent."""
    found = [engine.client()]
    for endpoint in others(project):
        try:
            found.append(client(endpoint))
        except LabError as error:
            if endpoint not in _warned:
                _warned.add(endpoint)
                print(f"warning: {error.found}; what labs have there is not seen", file=sys.stderr, flush=True)
    return found


def silent(project: str) -> list[str]:
    """Return the endpoints of a lab's sites that do not answer."""
    found = []
    for endpoint in others(project):
        try:
            client(endpoint)
        except LabError:
            found.append(endpoint)
    return found


def refuse_silent(project: str) -> None:
    """Raise LabError if a site of a lab does not answer: what is not seen is not known to be gone."""
    for endpoint in others(project):
        try:
            client(endpoint)
        except LabError as error:
            nodes = ", ".join(name for name, site in of(project).items() if site.endpoint == endpoint)
            raise LabError(
                f"{error.found}: what {project} has there is not removed ({nodes})",
                "a site that answers",
                f"{error.next_step}; then ./lab down --lab {project}",
            ) from error


def refuse_missing(project: str, service: str) -> None:
    """Raise LabError if a service of a lab is on a site that does not answer."""
    if found := of(project).get(service):
        try:
            client(found.endpoint)
        except LabError as error:
            said = f"{service} of {project} is not seen: {error.found}"
            raise LabError(said, error.expected, error.next_step) from error
