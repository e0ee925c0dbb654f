"""A load of several containers: the Docker engine of each, and how those on other machines reach the servers."""

from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.site import Site, usable_address

# The service in which a load is prepared, and runs unless it is spread.
LOAD = "load"
LOAD_OPTION, ADDRESS_OPTION = "--load-sites", "--load-address"
EXAMPLE = f"{LOAD_OPTION} here,ssh://ops@db2 {ADDRESS_OPTION} 10.1.0.1"
# More would be a mistake: each container may run hundreds of clients.
MOST = 32


@dataclass(frozen=True)
class SpreadLoad:
    """The endpoint of the engine of each container of a load, empty for the command's own; several may have the same.

    Those on other engines reach the servers at `address`, of the machine of the command's engine. Raise LabError on
    creation for too many containers, or for an address that is missing, not needed, or reached by no other machine.
    """

    endpoints: tuple[str, ...]
    address: str = ""

    def __post_init__(self) -> None:
        if len(self.endpoints) > MOST:
            raise LabError(
                f"{LOAD_OPTION} names {len(self.endpoints)} engines", f"at most {MOST}", f"./lab ask semisync {EXAMPLE}"
            )
        if any(self.endpoints) != bool(self.address):
            lacks = (
                "names another engine, whose clients have no way to the servers"
                if not self.address
                else "names no other"
            )
            raise LabError(
                f"{LOAD_OPTION} {lacks}",
                f"for other engines {ADDRESS_OPTION}, at which they reach the servers, and for none no address",
                f"./lab ask semisync {EXAMPLE}",
            )
        if self.address:
            usable_address(
                self.address, f"{ADDRESS_OPTION} ADDRESS, at which the other machines reach that of the servers"
            )

    def services(self) -> dict[str, Site]:
        """Return the site of each container by its service; one on another engine has the servers' address."""
        return {
            f"{LOAD}-{number}": Site(endpoint, self.address if endpoint else "")
            for number, endpoint in enumerate(self.endpoints, 1)
        }
