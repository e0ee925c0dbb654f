"""Measure the runs that docs/comparing.md compares, and keep what is compared of them.

`python -m tests.records.compared` writes them; `make figures` then prints the comparisons.
"""

import secrets
from pathlib import Path
from tempfile import TemporaryDirectory

from replication_lab import runs
from replication_lab.lab import up
from replication_lab.model.digest import Digest, decode, encode
from replication_lab.model.lab_request import LabRequest
from replication_lab.world import catalogue
from replication_lab.world.disks import overlay
from replication_lab.world.docker import images, project

HERE = Path(__file__).parent
# The server's variables of each run, in the order in which they are measured.
RUNS = {
    "before": {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 0},
    "again": {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 0},
    "slower": {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1},
}


def is_kept(name: str) -> bool:
    """Return whether the run was measured."""
    return _file(name).is_file()


def kept(name: str) -> Digest:
    """Return what is compared of a run."""
    return decode(_file(name).read_bytes(), name)


def _file(name: str) -> Path:
    return HERE / f"compared-{name}.json"


def main() -> None:
    """Measure all of them on one server, after a first run that is not kept: a new server has another level."""
    from tests.lab.test_comparing import DISK, measured

    topology, name = catalogue.topology("single"), f"test-{secrets.token_hex(4)}"
    storage = up.storage_of("single", ["server=single"], disk=DISK, disks=0, mib=1024, backend="auto")
    images.ensure(up.image_names("mariadb", load=True, topology=topology, storage=storage))
    lab = project.start(LabRequest(topology, "mariadb", name, load=True, storage=overlay.with_backend(storage)))
    try:
        with TemporaryDirectory() as folder:
            catalogue.RUNS = Path(folder)
            measured(lab, RUNS["before"])
            for each, variables in RUNS.items():
                _file(each).write_bytes(encode(runs.digest_of(str(measured(lab, variables)))))
    finally:
        lab.down()


if __name__ == "__main__":
    main()
