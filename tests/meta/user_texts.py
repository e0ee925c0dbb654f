"""Every text that a user sees, with the file that it comes from: help, messages, YAML, templates, pages, scripts.

A message may be any literal of the package, wherever it is built: an error's parts, a proof, a word of `lab status`, a
reason, a heading, a label in a script. Only docstrings, keys and what is searched for are left out: a literal for
programs does no harm here, because it has no word that is forbidden.
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
TWO_WORDS = re.compile(r"[a-z]{2,},? [a-z(]", re.I)
WORD = re.compile(r"[a-z]{2,}", re.I)
# A comment, or a literal without a value that is put in; a template literal with values is read by `scripted`.
SCRIPT = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`""", re.S)
# Literals with a forbidden word that are no messages, each with the reason.
NO_MESSAGES = {"gone": "the name of an event that the live page's script listens to"}
# The parts of an error, of a proof and of a wait in the order of their arguments, and what is shown before each part.
SHOWN_TOGETHER = {
    "LabError": (
        ("found", "expected", "next_step"),
        {"found": "", "expected": "; expected: ", "next_step": "; next: "},
    ),
    "as_lab_error": (
        ("kinds", "found", "expected", "next_step"),
        {"found": "", "expected": ": …; expected: ", "next_step": "; next: "},
    ),
    "Proof": (("what", "found", "ok", "expected"), {"what": "", "expected": ": expected ", "found": ", found "}),
    "wait_until": (
        ("condition", "what", "seconds", "every", "hint"),
        {"what": "timed out waiting for ", "hint": "; next: "},
    ),
}
# A comment of a shell's script, what it quotes, and a value that is put in there.
SHELL_COMMENT, QUOTED = re.compile(r"(^|\s)#.*"), re.compile(r"\"((?:\\.|[^\"\\])*)\"|'([^']*)'")
SHELL_VALUE = re.compile(r"\$\{[^}]*\}|\$\([^)]*\)+|\$\w+")
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
    """Yield the texts of a module as lines: adjacent parts and f-strings as one, with {…} where a value is put in."""
    for node in sorted(built(ast.parse(code)), key=lambda each: (each.lineno, each.col_offset)):
        text = " ".join(text_of(node).split())
        if WORD.search(text) and text not in NO_MESSAGES:
            yield text


def built(node: ast.AST) -> Iterator[ast.JoinedStr | ast.Constant]:
    """Yield the texts below a node, without docstrings; an error, a proof or a wait is one text, as it is shown."""
    for child in ast.iter_child_nodes(node):
        if is_searched_for(node, child):
            continue
        if isinstance(child, ast.Constant):
            if isinstance(child.value, str) and not isinstance(node, ast.Expr):
                yield child
        elif isinstance(child, ast.JoinedStr):
            yield child
        elif isinstance(child, ast.Call) and called(child) in SHOWN_TOGETHER:
            yield whole(child)
            shown = SHOWN_TOGETHER[called(child)][1]
            for part in (part for name, part in parts_of(child).items() if name not in shown):
                yield from built(ast.Expression(part))
        else:
            yield from built(child)


def called(call: ast.Call) -> str:
    """Return the name of a function that is called, also that of a module's one."""
    return getattr(call.func, "id", "") or getattr(call.func, "attr", "")


def parts_of(call: ast.Call) -> dict[str, ast.expr]:
    """Return the arguments of such a call by their names."""
    names = SHOWN_TOGETHER[called(call)][0]
    return dict(zip(names, call.args, strict=False)) | {str(each.arg): each.value for each in call.keywords}


def whole(call: ast.Call) -> ast.JoinedStr:
    """Return an error, a proof or a wait as one text, with a value that is put in for each part that is no literal."""
    shown, parts = SHOWN_TOGETHER[called(call)][1], parts_of(call)
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

    That is the first argument of re.FUNCTION and of startswith, what stands before `in`, and what stands in brackets.
    """
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        of_texts = node.func.attr in ("startswith", "endswith") or getattr(node.func.value, "id", "") == "re"
        return of_texts and child is node.args[0]
    if isinstance(node, ast.Compare):
        return child is node.left and isinstance(node.ops[0], ast.In | ast.NotIn)
    return isinstance(node, ast.Subscript) and child is node.slice


def text_of(node: ast.AST) -> str:
    """Return the text of a literal, with {…} for each value that is put in, and the texts in the code of that value."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    assert isinstance(node, ast.FormattedValue)
    inside = [text for each in built(ast.Expression(node.value)) if WORD.search(text := text_of(each))]
    return " ".join(["{…}", *inside, ""]) if inside else "{…}"


def yaml_texts() -> Texts:
    """Yield what the YAML files of drills, experiments, engines, disks and their backends say."""
    for path in sorted([*PACKAGE.rglob("*.yaml"), *catalogue.STORAGE.glob("*.yaml")]):
        where = path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else catalogue.ROOT)
        for text in dict.fromkeys(texts_of(yaml.load(path.read_text(), LOADER))):
            yield str(where), text


def texts_of(data: object) -> Iterator[str]:
    """Yield the values that are texts, at any depth."""
    if isinstance(data, list | dict):
        for each in data.values() if isinstance(data, dict) else data:
            yield from texts_of(each)
    elif isinstance(data, str):
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
                *(text for tag in tags for text in re.findall(r'"([^"]*)"', tag) if WORD.search(text)),
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
            texts = [text for text in scripted(path.read_text())[0] if WORD.search(text) and text not in NO_MESSAGES]
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
            text, at = literal[0], literal.end()
            if text == "`":
                text, inside, at = templated(code, at)
                found += inside
            if text[0] in "\"'`":
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


def shell_scripts() -> Texts:
    """Yield the sentences that the launcher, the pipeline's script and those of Compose files and images quote."""
    paths = [catalogue.ROOT / "lab", catalogue.ROOT / "docs" / "ci" / "pipeline.sh"]
    folders = (catalogue.COMPOSE, catalogue.IMAGES)
    for path in (*paths, *(path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file())):
        code = path.read_text()
        for line in code.splitlines() if re.match(r"#!.*sh\b", code) else ():
            for pair in QUOTED.findall(SHELL_COMMENT.sub("", line)):
                if TWO_WORDS.search(text := SHELL_VALUE.sub("{…}", "".join(pair))):
                    yield path.relative_to(catalogue.ROOT).as_posix(), text


ALL = {
    "Messages": messages,
    "Templates of reports": templates,
    "Pages and scripts": pages,
    "Claims": claims,
    "Topologies, toxics and faults": descriptions,
    "YAML files": yaml_texts,
    "Shell scripts": shell_scripts,
}
