"""The ten minutes of docs/attach.md: an application with a Compose file and a suite of tests gets the lab.

`make transcript` types the commands outside the checkout, and writes them with their output and times into the page.
"""

import secrets
import sys
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import replication_lab
from replication_lab.lab import up
from replication_lab.world import catalogue
from replication_lab.world.docker import engine, images

from tests.lab import attaching
from tests.lab.outside import Outside, Typed

PAGE = catalogue.ROOT / "docs" / "attach.md"
BEGIN, END = "<!-- written by make transcript -->\n", "<!-- end of what make transcript writes -->\n"
WHEEL = f"replication_lab-{replication_lab.VERSION}-py3-none-any.whl"
TIMED = "docker compose exec -T app curl -fsS -w ' in %{time_total} s\\n' localhost:8080/health"
# Each with what it is for, in the order in which they are typed; the shop runs all the time.
STEPS = (
    ("the shop as it is", "docker compose --progress quiet up --detach --wait"),
    ("", TIMED),
    ("the lab beside pytest, in an environment of the project's own", "python3 -m venv .venv"),
    ("", f".venv/bin/pip install -q pytest {WHEEL}"),
    ("", "lab --version"),
    ("the link from the application to its database gets 40 ms", "lab attach --link app:db --rtt 40ms --yes"),
    ("", TIMED),
    ("", "lab status --lab shop"),
    ("", 'lab sql --lab shop -e "SELECT COUNT(*) FROM orders"'),
    (
        "the database is cut off for four seconds, and the application is probed all the time",
        "lab drill --lab shop --drill cut-link --probe 'curl -fsS localhost:8080/health'",
    ),
    ("the project as it was", "lab detach --lab shop"),
    ("", TIMED),
    ("a lost replica, in a test", "cat suite/test_replica.py"),
    ("", "python -m pytest -q suite"),
)
# An answer may be unknown on a busy machine.
ENDS = {"lab drill": (0, 3), "lab attach": (0, 3)}


def lines() -> list[str]:
    return [line for _, line in STEPS]


def type_all(user: Outside) -> list[Typed]:
    """Type each command in a copy of the shop, and remove the shop; return what was typed, with the usual name."""
    name = f"shop-{secrets.token_hex(3)}"
    folder = user.copy(attaching.PROJECTS / "shop", name)
    (folder / WHEEL).symlink_to(user.wheel)
    already, path = len(user.all_typed), user.environment.get("PATH")
    user.environment["PATH"] = f"{folder / '.venv' / 'bin'}:{user.variables()['PATH']}"
    try:
        for line in lines():
            ends = next((codes for begin, codes in ENDS.items() if line.startswith(begin)), (0,))
            user.type(line.replace("--lab shop", f"--lab {name}"), name, ends)
    finally:
        user.environment.pop("PATH") if path is None else user.environment.update(PATH=path)
        attaching.remove(name, folder)
    return [_called_shop(typed, name) for typed in user.all_typed[already:]]


def _called_shop(typed: Typed, name: str) -> Typed:
    return Typed(typed.line.replace(name, "shop"), typed.said.replace(name, "shop"), typed.status, typed.seconds)


def page_with(typed: list[Typed], figures: list[tuple[str, str]]) -> str:
    """Return the page with this transcript and these figures in place of what it has."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    table = "\n".join(["| figure | measured |", "|---|---|", *(f"| {what} | {value} |" for what, value in figures)])
    text = "\n".join(_transcript(typed)).rstrip()
    return f"{before}{BEGIN}\n```text\n{text}\n```\n\n{table}\n\n{_machine(typed)}\n\n{END}{after}"


def _transcript(typed: list[Typed]) -> Iterator[str]:
    for (what, line), each in zip(STEPS, typed, strict=True):
        if what:
            yield f"# {what}"
        yield f"$ {line}"
        yield from (shown.rstrip() for shown in each.said.strip().splitlines())
        status = f", exit status {each.status}" if each.status else ""
        yield f"[{each.seconds:.1f} s{status}]"
        yield ""


def _machine(typed: list[Typed]) -> str:
    whole = sum(each.seconds for each in typed)
    version, info = engine.client().version()["Version"], engine.client().info()
    return textwrap.fill(
        f"All commands together took {whole:.0f} s, on {datetime.now(UTC):%Y-%m-%d}, with {info['NCPU']} CPUs and "
        f"Docker Engine {version}. The images were built before. `DB_IMAGE` and `SHOP_IMAGE` named images in place of "
        "the vendor's `mariadb:11.8` and of the build of the application.",
        100,
    )


def figures(user: Outside) -> list[tuple[str, str]]:
    """Return the size of an environment with the package's core, what its import takes, what a session pays."""
    sizes = user.megabytes()
    largest = ", ".join(f"{name} {sizes[name]:.0f} MB" for name in sorted(sizes, key=sizes.__getitem__)[:-4:-1])
    python = user.seconds_of("-c", "pass")
    found = [
        ("an environment with the core and nothing else", f"{sum(sizes.values()):.0f} MB, of which {largest}"),
        ("`import replication_lab`", f"{(user.seconds_of('-c', 'import replication_lab') - python) * 1000:.0f} ms"),
        ("`lab --version`", f"{user.seconds_of(str(user.python.parent / 'lab'), '--version'):.2f} s"),
    ]
    user.type("pip install -q pytest")
    (user.work / "plain").mkdir()
    (user.work / "plain" / "test_plain.py").write_text("def test_nothing():\n    pass\n")
    session = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "plain")
    used, bare = user.seconds_of(*session), user.seconds_of(*session, "-p", "no:replication_lab.pytest_plugin")
    paid = f"{used:.2f} s; {bare:.2f} s without the plugin; no call of Docker, no import of scipy"
    return [*found, ("a session of pytest that uses no fixture of the lab", paid)]


def main() -> None:
    """Type the ten minutes and write them into the page."""
    images.ensure(up.image_names("mariadb"))
    attaching.build()
    with TemporaryDirectory() as root:
        user = Outside(Path(root), dict(attaching.ENVIRONMENT))
        user.install()
        measured = figures(user)
        PAGE.write_text(page_with(type_all(user), measured))
    print(f"written: {PAGE}", file=sys.stderr)


if __name__ == "__main__":
    main()
