"""Containers and Compose projects that Testcontainers starts: a proved link to them, and drills on them.

    from replication_lab.testcontainers import lab_from, proved_link

    with MySqlContainer("mysql:8.4") as mysql, proved_link(mysql, 3306, "85ms") as link:
        connection = pymysql.connect(host=link.host, port=link.port, ...)

They need the extra [testcontainers] of the package; nothing else of the lab imports it.
"""

from replication_lab.world import folders

try:
    import testcontainers.core.container  # noqa: F401 - whether it is there
except ModuleNotFoundError as error:
    raise ImportError(f"Testcontainers is not installed; next: {folders.installing('testcontainers')}") from error

from replication_lab.testcontainers.compose import AttachedProject, lab_from
from replication_lab.testcontainers.link import ProvedLink, proved_link

__all__ = ["AttachedProject", "ProvedLink", "lab_from", "proved_link"]
