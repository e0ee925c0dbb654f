"""Can another user of this host read what the lab writes: passwords, statements, settings?"""

import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import pytest
from replication_lab import experiments
from replication_lab import runs as running
from replication_lab.lab import migrate
from replication_lab.model.lab.storage import Storage
from replication_lab.replication import received
from replication_lab.world import files, folders, lab_files, lock


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def bits(path):
    return stat.S_IMODE(path.stat().st_mode)


def readable_by_others(folder):
    """Return everything under a folder, and itself, that has a bit for others than its owner."""
    found = [folder, *(each for each in folder.rglob("*") if not each.is_symlink())]
    return {str(each.relative_to(folder)): oct(bits(each)) for each in found if bits(each) & 0o077}


def test_a_file_with_a_secret_is_never_readable_by_others(tmp_path, monkeypatch):
    """It is made with its final bits: nothing changes them later, and the umask adds none."""

    def refuse(*_arguments, **_options):
        raise AssertionError("bits were changed after the file was made")

    for name in ("chmod", "fchmod", "lchmod"):
        monkeypatch.setattr(os, name, refuse, raising=False)
    file = tmp_path / "labs" / "of-a-user" / "lab-a.env"
    with umask(0):
        files.write_whole(file, b"LAB_PASSWORD=one\n")
        files.write_whole(file, b"LAB_PASSWORD=two\n")

    assert file.read_bytes() == b"LAB_PASSWORD=two\n"
    assert readable_by_others(tmp_path / "labs") == {}
    assert [each.name for each in file.parent.iterdir()] == ["lab-a.env"]


def test_a_file_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    """And nothing beside it."""
    file = tmp_path / "a"
    files.write_whole(file, b"before")
    with pytest.raises(TypeError):
        files.write_whole(file, "a text")

    assert file.read_bytes() == b"before" and [each.name for each in tmp_path.iterdir()] == ["a"]


def test_two_threads_write_the_same_file_without_meeting(tmp_path):
    """The second begins and ends while the first one writes."""
    file = tmp_path / "a"
    with files.replacing(file) as first:
        first.write(b"fir")
        with ThreadPoolExecutor() as pool:
            pool.submit(files.write_whole, file, b"second").result()
        assert file.read_bytes() == b"second"
        first.write(b"st")

    assert file.read_bytes() == b"first" and [each.name for each in tmp_path.iterdir()] == ["a"]


def test_what_others_may_have_written_about_a_lab_is_not_believed(tmp_path, monkeypatch):
    """A plan of a migration, and what replicas have not applied: they decide what is removed and what is lost."""
    monkeypatch.setattr(lab_files, "FOLDER", tmp_path)
    lab, plan = SimpleNamespace(name="lab-a"), migrate.Migration("replica", Storage(level="single"), "", None)
    written = {".migration.json": plan, ".received.json": {"replica": "0-1-7"}}
    for suffix, content in written.items():
        files.write_whole(lab_files.file_of("lab-a", suffix), msgspec.json.encode(content))
    assert (migrate.unfinished(lab), received._kept(lab)) == tuple(written.values())
    for path in tmp_path.iterdir():
        path.chmod(0o666)

    assert (migrate.unfinished(lab), received._kept(lab)) == (None, {})


def test_nobody_else_reads_a_run(ran, runs, brief):
    """Record, report, summary and page have the user's SQL and settings; the usual umask lets others read them."""
    short = replace(experiments.load("semisync_wan"), presets={"quick": brief, "full": brief})
    with umask(0o022):
        ran(short)
        running.write_index()
        running.report("latest")

    assert {each.name for each in runs.glob("*/*")} >= {"record.jsonl", "summary.json", "junit.xml", "report.html"}
    assert readable_by_others(runs) == {}


def test_nobody_else_reads_what_only_the_owner_of_a_lock_needs(tmp_path, monkeypatch):
    """A lock may be the first that makes the folder in which settings and passwords are kept."""
    monkeypatch.setattr(lock, "FOLDER", tmp_path / "runs" / "locks")
    with umask(0o022), lock.held("a"):
        pass

    assert readable_by_others(tmp_path / "runs") == {}


# What the user names, or what is not read by path: a baseline, a question, an archive of images.
NAMED_BY_THE_USER = {"world/files.py", "world/docker/archives.py"}


def test_every_file_is_written_by_the_functions_for_private_files():
    """Elsewhere the bits of a new file or folder are the umask's."""
    package = folders.PACKAGE
    writes = re.compile(r"\.write_(?:text|bytes)\(|\bopen\((?!fileobj)[^)]*[\"'][wax]b?[\"']|\.mkdir\((?!mode=0o700)")
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        for line in path.read_text().splitlines()
        if writes.search(line)
    }

    assert found == NAMED_BY_THE_USER
