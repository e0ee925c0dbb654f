"""Every text that a user sees, with the file that it comes from: help, messages, YAML sentences, templates, pages.

A message is any literal of the package that has two words, wherever it is built: an error's parts, a proof, a word of
`lab status`, a reason, a label in a script. Docstrings, SQL, shell commands and names of classes are left out.
"""

import ast
import functools
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import click
import yaml
from replication_lab import cli, experiments, faults
from replication_lab.model.lab.topology import LOADER
from replication_lab.world import catalogue

PACKAGE = Path(cli.__file__).parent.parent
YAML_TEXTS = {"about", "says", "because", "lacks"}
TWO_WORDS = re.compile(r"[a-z]{2,},? [a-z(]", re.I)
# SQL, shell commands, client options and assignments: text for programs.
FOR_PROGRAMS = re.compile(
    r"^(SELECT|SHOW|SET|CREATE|INSERT|UPDATE|DELETE|ALTER|DROP|FLUSH|CHANGE|START|STOP|RESET|GRANT|KILL|LOCK|UNLOCK|COMMIT"
    r"|ANALYZE|PURGE|XA|CALL|REPLACE|TRUNCATE|WITH|AND|WHERE|UNION|FROM|LIMIT|PRIMARY KEY) "
    r"|^(if|while|until|for|trap|exec|sh|cat|echo|printf|mount|umount|test|command -v|pidof|sleep|dd|kill|drbdadm|pcs) "
    r"|/dev/null|\$\(|; done|&& |\|\| |>&2|<svg|<path|<text |<line |<rect "
)
# What stands before a literal of a script that is a name for the browser: classes, selectors, headers, events.
FOR_BROWSERS = re.compile(
    r'(?:class: |"class", |Selector(?:All)?\(|FONT = |matchMedia\(|rootMargin: |from |throw new \w+\()$'
)
STYLE = re.compile(r"^says |system-ui|^use strict$")
# A comment, or a literal without a value that is put in; a template literal with values is read by `scripted`.
SCRIPT = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`""", re.S)
# Literals that have two words and are not messages, each with the reason.
NO_MESSAGES = Path(__file__).with_name("no_messages.yaml")
# The parts of an error, of a proof and of a wait in the order of their arguments, and what is shown before each part.
SHOWN_TOGETHER = {
    "LabError": (
        ("found", "expected", "next_step"),
        {"found": "", "expected": "; expected: ", "next_step": "; next: "},
    ),
    "Proof": (("what", "found", "ok", "expected"), {"what": "", "expected": ": expected ", "found": ", found "}),
    "wait_until": (("condition", "what"), {"what": "timed out waiting for "}),
}
SHOWN_ATTRIBUTES = {"title", "aria-label", "alt", "placeholder"}
Texts = Iterator[tuple[str, str]]


def commands(
    command: click.Command = cli.cli, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield each command with the words that call it, groups before their commands."""
    command = command.load() if isinstance(command, cli.Deferred) else command
    yield words, command
    for name, each in sorted(getattr(command, "commands", {}).items()):
        yield from commands(each, (*words, name))


COMMANDS = {" ".join(words): command for words, command in commands()}


def helps() -> Texts:
    """Yield the help of each command and of each option, with where it is shown."""
    for words, command in COMMANDS.items():
        yield f"lab {words} --help", command.help or ""
        for option in command.params:
            yield f"lab {words} {option.opts[0]}", getattr(option, "help", "") or ""


@functools.cache
def messages() -> tuple[tuple[str, str], ...]:
    """Return the literals of the package that are sentences or parts of one, in the order of the files."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return tuple((str(path.relative_to(PACKAGE)), text) for path in paths for text in literals(path.read_text()))


def literals(code: str) -> Iterator[str]:
    """Yield the texts of a module: adjacent parts and f-strings as one, with {…} where a value is put in."""
    for text, words in candidates(code):
        if TWO_WORDS.search(words) and not FOR_PROGRAMS.search(text) and not why_no_message(text):
            yield text


@functools.cache
def candidates(code: str) -> list[tuple[str, str]]:
    """Return each literal of a module as one line, and the same without the code of its values."""
    found = sorted(built(ast.parse(code)), key=lambda each: (each.lineno, each.col_offset))
    return [(" ".join(text_of(node).split()), words_of(node)) for node in found]


def why_no_message(text: str) -> str:
    """Return why a literal with two words is not a message; an empty string if it is one."""
    return next((why for pattern, why in no_messages() if pattern.search(text)), "")


@functools.cache
def no_messages() -> list[tuple[re.Pattern[str], str]]:
    """Return what finds the literals that only look like messages, each with the reason."""
    return [(re.compile(each["text"]), each["reason"]) for each in yaml.load(NO_MESSAGES.read_text(), LOADER)]


def built(node: ast.AST, inside: bool = False) -> Iterator[ast.JoinedStr | ast.Constant]:
    """Yield the texts below a node, without docstrings; inside an f-string only f-strings, since it has its parts.

    An error or a proof is one text, as its parts are shown together.
    """
    for child in ast.iter_child_nodes(node):
        if is_searched_for(node, child):
            continue
        if isinstance(child, ast.Constant):
            if isinstance(child.value, str) and not inside and not isinstance(node, ast.Expr):
                yield child
        elif isinstance(child, ast.JoinedStr):
            yield child
            yield from built(child, inside=True)
        elif isinstance(child, ast.Call) and called(child) in SHOWN_TOGETHER and not inside:
            yield whole(child)
            for part in (*child.args, *(keyword.value for keyword in child.keywords)):
                yield from built(part, inside=isinstance(part, ast.JoinedStr))
        else:
            yield from built(child, inside)


def called(call: ast.Call) -> str:
    """Return the name of a function that is called, also that of a module's one."""
    return getattr(call.func, "id", "") or getattr(call.func, "attr", "")


def whole(call: ast.Call) -> ast.JoinedStr:
    """Return an error, a proof or a wait as one text, with a value that is put in for each part that is no literal."""
    names, shown = SHOWN_TOGETHER[called(call)]
    parts = dict(zip(names, call.args, strict=False)) | {str(each.arg): each.value for each in call.keywords}
    if "expected" not in parts:
        shown = shown | {name: ": " for name in ("found",) if shown.get(name)}
    values: list[ast.expr] = []
    for name, before in shown.items():
        part = parts.get(name)
        if part is None or (isinstance(part, ast.Constant) and not part.value):
            continue
        own = part.values if isinstance(part, ast.JoinedStr) else [part]
        own = own if isinstance(own[0], ast.Constant | ast.FormattedValue) else [ast.FormattedValue(part, -1)]
        values += [ast.Constant(before), *own]
    return ast.JoinedStr(values, lineno=call.lineno, col_offset=call.col_offset)


def is_searched_for(node: ast.AST, child: ast.AST) -> bool:
    """Return whether the child of a node is searched for in another text, or is a key: no user sees it.

    That are the arguments of re.FUNCTION and of startswith, what stands before `in`, and what stands in brackets.
    """
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(called, ast.Attribute) and child is not called:
        return called.attr in ("startswith", "endswith") or getattr(called.value, "id", "") == "re"
    if isinstance(node, ast.Compare):
        return child is node.left and isinstance(node.ops[0], ast.In | ast.NotIn)
    return isinstance(node, ast.Subscript) and child is node.slice


def text_of(node: ast.JoinedStr | ast.Constant) -> str:
    """Return the text of a literal, with {EXPRESSION} for each value that an f-string puts in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(
        f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else str(getattr(part, "value", ""))
        for part in node.values
    )


def words_of(node: ast.AST) -> str:
    """Return the text of a literal without the code of its values, but with the texts in that code."""
    if isinstance(node, ast.Constant):
        return " ".join(text_of(node).split())
    found = [words_of(child) for child in ast.iter_child_nodes(node) if not is_searched_for(node, child)]
    return " ".join(filter(None, found))


def yaml_texts() -> Texts:
    """Yield what the YAML files of drills, experiments, engines, disks and their backends say in words."""
    for path in sorted([*PACKAGE.rglob("*.yaml"), *catalogue.STORAGE.glob("*.yaml")]):
        where = path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else catalogue.ROOT)
        for text in dict.fromkeys(texts_of(yaml.load(path.read_text(), LOADER))):
            yield str(where), text


def texts_of(data: object, wanted: bool = False) -> Iterator[str]:
    """Yield the values of the keys that are texts, at any depth."""
    if isinstance(data, list):
        for each in data:
            yield from texts_of(each, wanted)
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from texts_of(value, wanted or key in YAML_TEXTS)
    elif wanted and isinstance(data, str):
        yield " ".join(data.split())


def claims() -> Texts:
    """Yield the questions of all experiments, and the sentences of their claims and cases."""
    for name in experiments.names():
        experiment = experiments.load(name)
        yield name, experiment.question
        for claim in experiment.claims:
            yield f"{name}, claim {claim.id}", claim.sentence


def descriptions() -> Texts:
    """Yield the descriptions of all topologies, toxics and faults."""
    for name in catalogue.topologies():
        yield f"compose/{name}.yaml", catalogue.topology(name).about
    for name in catalogue.toxics():
        yield f"toxics/{name}.json", catalogue.toxic(name).about
    for name, kind in faults.kinds().items():
        yield f"fault {name}", f"{kind.does}; proof: {kind.proof}"


def templates() -> Texts:
    """Yield the lines of the reports' templates as text, with {…} where a value is put in."""
    for path in sorted(PACKAGE.rglob("*.j2")):
        text = re.sub(r"<style>.*?</style>|\{#.*?#\}", "", path.read_text(), flags=re.S)
        for line in text.splitlines():
            tags = re.findall(r"\{[{%].*?[%}]\}", line)
            said = [
                re.sub(r"<[^>]+>", " ", re.sub(r"\{\{.*?\}\}", "{…}", re.sub(r"\{%.*?%\}", "", line))),
                *(text for tag in tags for text in re.findall(r'"([^"]*)"', tag) if TWO_WORDS.search(text)),
            ]
            for each in said:
                if re.search(r"[a-z]{2,}", bare := " ".join(each.split()), re.I):
                    yield f"report/{path.name}", bare


class Shown(HTMLParser):
    """The texts of a page, and of those of its attributes that a reader sees or hears."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.texts += [value for name, value in attrs if name in SHOWN_ATTRIBUTES and value]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def pages() -> Texts:
    """Yield the texts of the pages and scripts that a browser gets, without those of other projects."""
    assets = PACKAGE / "assets"
    for path in sorted(assets.rglob("*")):
        if path.suffix == ".html":
            texts = [text for text in map(str.strip, Shown(path.read_text()).texts) if text]
        elif path.suffix == ".js" and ".min." not in path.name:
            literals_of = scripted(path.read_text())[0]
            texts = [text for text in literals_of if TWO_WORDS.search(text) and not STYLE.search(text)]
        else:
            continue
        yield from ((f"assets/{path.relative_to(assets)}", text) for text in texts)


def scripted(code: str, at: int = 0, closed_by: str = "") -> tuple[list[str], int]:
    """Return the literals of a script from `at` to `closed_by`, or to its end, and where that is.

    A template literal is one text, with {…} for each value; the literals inside of a value are texts of their own.
    """
    found: list[str] = []
    depth = 0
    while at < len(code):
        if literal := SCRIPT.match(code, at):
            shown = not FOR_BROWSERS.search(code[code.rfind("\n", 0, at) + 1 : at].lstrip())
            text, at = literal[0], literal.end()
            if text == "`":
                text, inside, at = templated(code, at)
                found += inside
            if text[0] in "\"'`" and shown:
                found.append(text[1:-1])
            continue
        depth += (code[at] == "{") - (code[at] == "}")
        at += 1
        if depth < 0 and closed_by:
            return found, at
    return found, at


def templated(code: str, at: int) -> tuple[str, list[str], int]:
    """Return a template literal whose first character is at `at`, the literals of its values, and where it ends."""
    text, inside = "`", []
    while code[at] != "`":
        if code.startswith("${", at):
            more, at = scripted(code, at + 2, "}")
            text, inside = f"{text}{{…}}", [*inside, *more]
        else:
            text, at = text + code[at], at + 1
    return f"{text}`", inside, at + 1


ALL = {
    "Messages": messages,
    "Templates of reports": templates,
    "Pages and scripts": pages,
    "Claims": claims,
    "Topologies, toxics and faults": descriptions,
    "YAML files": yaml_texts,
}
