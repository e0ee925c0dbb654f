"""Write dirty pages back before a load begins: otherwise it waits for pages that earlier loads have changed."""

from replication_lab.world import clock
from replication_lab.world.mysql.server import Server

# The default rate of writing dirty pages back, and settings that leave no dirty page when a measurement begins.
USUALLY = {"innodb_io_capacity": 200, "innodb_io_capacity_max": 2000, "innodb_max_dirty_pages_pct": 90}
AT_ONCE = {"innodb_io_capacity_max": 40_000, "innodb_io_capacity": 20_000, "innodb_max_dirty_pages_pct": 0}
# Set to ON, it makes MariaDB write all pages in 0.1 s. Its page cleaner works once a second, and takes 3 s.
CHECKPOINT = "innodb_log_checkpoint_now"
# The server dirties its last system pages again as soon as they are written.
DIRTY, FEW_PAGES = "Innodb_buffer_pool_pages_dirty", 50
LONGEST_SECONDS = 120


def write_pages(server: Server) -> None:
    """Wait until a server has written its dirty pages back; LabError if it does not."""
    server.set_global(**AT_ONCE)
    for name in server.settings(CHECKPOINT):
        # It is a command, and OFF again at once.
        server.execute(f"SET GLOBAL {name} = ON")
    try:
        clock.wait_until(
            lambda: server.counters(DIRTY)[DIRTY] <= FEW_PAGES,
            f"{server.name} to write its changed pages",
            LONGEST_SECONDS,
        )
    finally:
        server.set_global(**USUALLY)
