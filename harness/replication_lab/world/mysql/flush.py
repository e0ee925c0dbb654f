"""Pages on the disk before a load begins: else it waits for those that earlier loads have changed."""

from replication_lab.world import clock
from replication_lab.world.mysql.server import Server

# How fast dirty pages are written back when nothing else asks for it, and so that a measurement begins without any.
USUALLY = {"innodb_io_capacity": 200, "innodb_io_capacity_max": 2000, "innodb_max_dirty_pages_pct": 90}
AT_ONCE = {"innodb_io_capacity_max": 40_000, "innodb_io_capacity": 20_000, "innodb_max_dirty_pages_pct": 0}
# The last pages of the system's own are made dirty again as soon as they are written.
FEW_PAGES = 50
LONGEST_SECONDS = 120


def write_pages(server: Server) -> None:
    """Wait until a server has written its dirty pages back; LabError where it does not."""
    server.set_global(**AT_ONCE)
    try:
        clock.wait_until(
            lambda: _dirty_pages(server) <= FEW_PAGES, f"the pages of {server.name} to be written", LONGEST_SECONDS
        )
    finally:
        server.set_global(**USUALLY)


def _dirty_pages(server: Server) -> int:
    return int(server.rows("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")[0]["Value"])
