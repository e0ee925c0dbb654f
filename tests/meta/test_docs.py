"""Is what the documents say to type there to be typed, and is everything there mentioned?"""

import ast
import functools
import os
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from replication_lab import cli
from replication_lab.world import catalogue

HELP = ["-h", "--help"]
DEFERRED: dict[str, Any] = cli.cli.commands
ROOT = catalogue.ROOT
README = ROOT / "README.md"
DOCUMENTS = [path for path in (README, *sorted((ROOT / "docs").rglob("*.md"))) if path.is_file()]
LEFT_OUT = {".git", ".venv", "runs", "site", "__pycache__"} | {
    f".{tool}_cache" for tool in ("pytest", "ruff", "import_linter")
}
# Put together here, so that this file does not name what no file may name.
HOSTS = (
    *(f"{host}.debian.org" for host in ("deb", "security", "snapshot", "ftp")),
    *(f"{host}.maven.{domain}" for host in ("repo1", "repo") for domain in ("org", "apache.org")),
    *(".".join(parts) for parts in (("pypi", "org"), ("files", "pythonhosted", "org"), ("proxy", "golang", "org"))),
    *(
        ".".join(parts)
        for parts in (("archive", "ubuntu", "com"), ("registry-1", "docker", "io"), ("hub", "docker", "com"))
    ),
)
MACHINE_PATH = re.compile(r"(?<![\w.$}~-])/(?:work|tmp/w|home/\w+)/")
# The functions of the package whose last argument is a next step.
MAKE_ERRORS = ("LabError", "as_lab_error", "unknown_name", "refuse_unknown")
OLD_WORDS = re.compile(r"\b(?:master|slave)s?\b", re.I)
# Where servers are spoken to, the old words are explained, or a publication has them in its title or address.
DIALECTS = re.compile(
    r"harness/replication_lab/(world/(sources\.yaml|mysql/(dialects\.yaml|server\.py))|model/question/sql_text\.py|"
    r"drills/forbidden\.yaml|faults/new_replica\.yaml)|"
    r"compose/|images/|tests/|docs/(glossary|raid_replica)\.md|\.github/"
)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def code(text: str) -> list[str]:
    """Return the lines of fenced blocks and the text between single backticks."""
    fenced = re.findall(r"^```[^\n]*\n(.*?)^```", text, re.M | re.S)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    return [line.strip().removeprefix("$ ") for block in fenced for line in block.splitlines()] + inline


def commands(text: str, programs: tuple[str, ...]) -> list[list[str]]:
    """Return the commands of these programs, as words, without variables before them and what follows them."""
    found = []
    for line in code(text):
        for part in re.split(r"&&|;|\s\|\s", re.split(" #| > ", line)[0]):
            try:
                words = shlex.split(part)
            except ValueError:
                continue
            words = words[next((at for at, word in enumerate(words) if not re.match(r"[A-Z_]+=", word)), 0) :]
            # `lab up|down|…` lists names; it is not a line to type.
            if len(words) > 1 and words[0] in programs and not re.search(r"[|…]", " ".join(words[:2])):
                found.append([word for word in words[1:]])
    return found


def wrong_lab_commands(text: str, arguments: bool = True) -> list[str]:
    """Return the commands in a document that the command line does not have; or only by names and options."""
    wrong = []
    for name, *typed in commands(text, ("lab", "./lab")):
        if name.startswith("-") or not re.match(r"[a-z]", name):
            continue
        known = DEFERRED[name].load() if name in DEFERRED else None
        # `lab disk check`: the options are those of the command in the group.
        inner = getattr(known, "commands", {}).get(next(iter(typed), ""))
        known, words = (inner, typed[1:]) if inner else (known, typed)
        options = {*HELP} | {option for each in known.params for option in each.opts} if known else set()
        bad = [word for word in words if re.match(r"--?[a-z]", word) and word.split("=")[0] not in options]
        if not known or bad or (arguments and left_over(known, words)):
            wrong.append(" ".join(["lab", name, *typed]))
    return wrong


def left_over(command: click.Command, words: list[str]) -> list[str]:
    """Return the words that are neither options nor arguments of a command; none where words stand for others."""
    if any(re.search(r"[…\[]", word) for word in words):
        return []
    try:
        return command.make_parser(click.Context(command, help_option_names=HELP)).parse_args(list(words))[1]
    except click.UsageError:
        return []  # a value or an argument is left out, as a sentence does


def targets() -> set[str]:
    """Return the targets that `make help` lists."""
    return set(re.findall(r"^([a-z-]+):.*?## ", (ROOT / "Makefile").read_text(), re.M))


def wrong_make_commands(text: str) -> list[str]:
    named = [word for words in commands(text, ("make",)) for word in words if re.fullmatch(r"[a-z-]+", word)]
    return [word for word in named if word not in targets()]


def broken_links(path: Path) -> list[str]:
    """Return the links of a document to files or headings that do not exist."""
    text = path.read_text()
    links = re.findall(r"\]\((?!\w+:)([^)\s]+)\)", text)
    return [link for link in links if not resolves(path, link)]


def resolves(path: Path, link: str) -> bool:
    file, _, anchor = link.partition("#")
    target = (path.parent / file).resolve() if file else path
    return target.exists() and (not anchor or anchor in anchors(target.read_text()))


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@functools.cache
def documented(*programs: str) -> list[list[str]]:
    """Return the commands of these programs in all documents."""
    return [words for path in DOCUMENTS for words in commands(path.read_text(), programs)]


# --- the documents ----------------------------------------------------------------------------------------------------


def test_the_readme_and_the_book_are_there():
    """README, architecture, glossary, the guides and a page for each experiment."""
    assert README.is_file(), "README.md is missing"
    names = {path.stem for path in DOCUMENTS}

    assert {"architecture", "glossary", "semisync_wan", "statistics", "summary"} <= names


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_what_a_document_says_to_type_exists(path):
    """Commands, their options, and make's targets."""
    text = path.read_text()

    assert wrong_lab_commands(text) == []
    assert wrong_make_commands(text) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_links_lead_somewhere(path):
    """Files and headings that a document links to are there."""
    assert broken_links(path) == []


def next_steps() -> list[str]:
    """Return what the errors in the source say to type next, with a word in place of each value."""
    found = []
    for path in sorted((ROOT / "harness" / "replication_lab").rglob("*.py")):
        text = path.read_text()
        # Most modules raise no error of the lab's, and need no walk through every expression.
        for call in ast.walk(ast.parse(text)) if any(f"{name}(" in text for name in MAKE_ERRORS) else ():
            if isinstance(call, ast.Call) and (name := getattr(call.func, "id", "")) in MAKE_ERRORS:
                last = call.args[3 if name == "as_lab_error" else 2 :]
                found += [text for text in map(literal, [*last, *(each.value for each in call.keywords)]) if text]
    return found


def literal(argument: ast.expr) -> str:
    """Return a text as it is written, with "x" for each value in it; an empty string for anything else."""
    parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
    texts = [part.value if isinstance(part, ast.Constant) else "x" for part in parts]
    return "".join(map(str, texts)) if isinstance(argument, ast.JoinedStr | ast.Constant) else ""


def test_what_an_error_says_to_type_next_exists():
    """The lab's commands and options in the last line of each error, as in a document."""
    found = [each.split(", ")[0] for each in next_steps() if each.startswith("./lab ")]

    assert len(found) > 50
    assert [wrong for each in found if "./lab x" not in each for wrong in wrong_lab_commands(f"`{each}`", False)] == []


@pytest.mark.parametrize("name", sorted(DEFERRED))
def test_every_command_is_documented(name):
    """README or the book has a line with it."""
    assert name in {words[0] for words in documented("lab", "./lab")}


@pytest.mark.parametrize("name", sorted(targets()))
def test_every_make_target_is_documented(name):
    """README or the book has a line with it."""
    assert name in {word for words in documented("make") for word in words}


def test_the_tests_of_this_file_see_mistakes(tmp_path):
    """Each check finds the mistake that it is there for."""
    text = (
        "```sh\n$ X=1 ./lab upp && lab up --nmae a   # see\nmake lab-upp\n```\n"
        "`lab toxic --check a` and `lab up|down`, `lab drill semisync kill`"
    )
    (tmp_path / "page.md").write_text("# A title\n[a](#a-title) [b](#no-title) [c](gone.md) [d](https://x/gone.md)")

    assert wrong_lab_commands(text) == ["lab upp", "lab up --nmae a", "lab drill semisync kill"]
    assert wrong_make_commands(text) == ["lab-upp"]
    assert broken_links(tmp_path / "page.md") == ["#no-title", "gone.md"]
    assert OLD_WORDS.search("the Slave's lag") and not OLD_WORDS.search("webmaster")
    assert MACHINE_PATH.search("/".join(["see ", "work", "x"])) and not MACHINE_PATH.search("/usr/network/x ~/work/")


# --- all files --------------------------------------------------------------------------------------------------------


@functools.cache
def files() -> list[Path]:
    """Return every file of the project, without files that other programs put there."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        found += [path for name in names if name not in LEFT_OUT and (path := Path(folder, name)).is_file()]
    return found


def offenders(pattern: re.Pattern, paths: list[Path]) -> list[str]:
    """Return FILE:LINE of every match, text files only."""
    found = []
    for path in paths:
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        found += [f"{relative(path)}:{number}" for number, line in enumerate(lines, 1) if pattern.search(line)]
    return found


def test_users_read_source_and_replica():
    """The old words appear only where servers are spoken to."""
    assert offenders(OLD_WORDS, [path for path in files() if not DIALECTS.match(relative(path))]) == []


def test_no_file_names_a_registry_or_a_path_of_one_machine():
    """The lab takes packages from where its machine takes them."""
    assert offenders(re.compile("|".join(map(re.escape, HOSTS))), files()) == []
    assert offenders(MACHINE_PATH, files()) == []
