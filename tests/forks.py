"""Run tests in processes that are forked after one collection: `pytest tests/unit --processes auto`.

Tests of a millisecond each need little else than Python. pytest-xdist imports and collects everything again in each of
its processes, and sends each result as a message: 13 s of CPU time beside 24 s for the tests themselves.

Each process takes file after file from a pipe. One of them is the process that prints; it reads what the others
reported from a file of each, after the last test, and hands it to pytest as if it had run the tests itself.
"""

import os
import pickle
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

NUMBER_BYTES = 2
FAILED = 1


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", default="1", help="how many processes run the tests, or `auto`: one for each CPU")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in several processes, if that is asked for and possible; otherwise leave them to pytest."""
    option = session.config.option
    count = len(os.sched_getaffinity(0)) if option.processes == "auto" else int(option.processes)
    if count < 2 or session.testsfailed or option.collectonly or option.usepdb or option.capture == "no":
        return None
    _run(session, count - 1)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True


class Files:
    """The tests of each file, which every process takes from one pipe until it is empty."""

    def __init__(self, items: list[pytest.Item]) -> None:
        self._items = [list(of_file) for _, of_file in groupby(items, key=lambda item: item.path)]
        self._pipe, end = os.pipe()
        os.write(end, b"".join(number.to_bytes(NUMBER_BYTES, "big") for number in range(len(self._items))))
        os.close(end)

    def taken(self) -> Iterator[pytest.Item]:
        while number := os.read(self._pipe, NUMBER_BYTES):
            yield from self._items[int.from_bytes(number, "big")]

    def leave(self) -> None:
        """Let no process take another file."""
        while os.read(self._pipe, 1 << 16):
            pass


class Reports:
    """What a forked process reports: it writes each report at once, so that none is lost if the process dies."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        # In memory, which a forked process shares as long as one of the two has it open.
        self._file = os.fdopen(os.memfd_create("reports"), "w+b")

    def _write(self, hook: str, **arguments: Any) -> None:
        pickle.dump((hook, arguments), self._file)

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._write("pytest_runtest_logstart", nodeid=nodeid, location=location)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._write("pytest_runtest_logreport", report=data)

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._write("pytest_runtest_logfinish", nodeid=nodeid, location=location)
        self._file.flush()

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: tuple[str, int, str] | None
    ) -> None:
        said = warning_message
        plain = warnings.WarningMessage(str(said.message), said.category, said.filename, said.lineno)
        self._write("pytest_warning_recorded", warning_message=plain, when=when, nodeid=nodeid, location=location)

    def replay(self) -> None:
        """Hand everything to pytest, in the process that prints."""
        self._file.seek(0)
        while True:
            try:
                hook, arguments = pickle.load(self._file)
            except (EOFError, pickle.UnpicklingError):
                return  # the end, or where the process died
            if "report" in arguments:
                arguments["report"] = self._config.hook.pytest_report_from_serializable(
                    config=self._config, data=arguments["report"]
                )
            called = getattr(self._config.hook, hook)
            # Plugins that come later are told of warnings, too.
            called.call_historic(kwargs=arguments) if called.is_historic() else called(**arguments)


def _run(session: pytest.Session, forked: int) -> None:
    files, books, children = Files(session.items), [Reports(session.config) for _ in range(forked)], []
    capture = session.config.pluginmanager.getplugin("capturemanager")
    # All tests share its folder, and this process removes it.
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    # Processes that shared the files of captured output would read each other's.
    capture.stop_global_capturing()
    sys.stdout.flush()
    try:
        for book in books:
            if not (child := os.fork()):
                _run_as_child(session, files, book)
            children.append(child)
        capture.start_global_capturing()
        capture.suspend_global_capture()
        _run_tests(session, files)
    except BaseException:
        files.leave()
        for child in children:
            os.kill(child, signal.SIGTERM)
        raise
    finally:
        ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    for book, end in zip(books, ends, strict=True):
        book.replay()
        if end:
            session.shouldfail = f"a process of the tests ended with status {end}: some of its tests may not have run"


def _run_tests(session: pytest.Session, files: Files) -> None:
    items = files.taken()
    item = next(items, None)
    while item:
        following = next(items, None)
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail or session.shouldstop:
            files.leave()
            return
        item = following


def _run_as_child(session: pytest.Session, files: Files, book: Reports) -> None:
    status = FAILED
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        capture = session.config.pluginmanager.getplugin("capturemanager")
        capture.start_global_capturing()
        capture.suspend_global_capture()
        session.config.pluginmanager.register(book)
        _run_tests(session, files)
        # Exceptions that nothing could catch, as of an object that the garbage collector finds, are raised here.
        session.config._ensure_unconfigure()
        status = 0
    except KeyboardInterrupt:
        pass  # the process that prints says so
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
