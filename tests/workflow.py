"""Run the scripts of a composite action or a workflow of GitHub, and of a GitLab job, as far as that is possible here.

A step with `uses:` is not run: it is another project's action. Every expression that occurs must be known, so a new
kind of expression fails a test instead of being ignored.
"""

import os
import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

EXPRESSION = re.compile(r"\$\{\{ (.+?) \}\}")
OUTPUT = re.compile(r"steps\.([\w-]+)\.outputs\.([\w-]+)")
COMPARED = re.compile(r"(\S+) (==|!=) '([^']*)'")


@dataclass
class Ended:
    """What the steps of an action left: the job's exit code, what was printed, and the job's files."""

    code: int = 0
    printed: str = ""
    summary: str = ""
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    # The steps of other actions that would have run, with their settings.
    used: dict[str, dict[str, str]] = field(default_factory=dict)


class Action:
    """A composite action in a checkout."""

    def __init__(self, file: Path) -> None:
        self.folder = file.parent
        found: dict[str, Any] = msgspec.yaml.decode(file.read_bytes())
        self.inputs, self.declared, self.steps = found["inputs"], found["outputs"], found["runs"]["steps"]

    def run(
        self, workspace: Path, inputs: Mapping[str, str], restored: bool = False, last: bool = False, **environment: str
    ) -> Ended:
        """Run the steps in a folder; `restored` is what the step that restores the cache says.

        With `last` only the last step is run, after steps that ended with the codes CODE and COMPARED_CODE.
        """
        unknown = set(inputs) - set(self.inputs)
        assert not unknown, f"the action has no input {unknown}"
        given = {name: inputs.get(name, each["default"]) for name, each in self.inputs.items()}
        temporary = workspace / "temp"
        temporary.mkdir(exist_ok=True)
        known = {f"inputs.{name}": value for name, value in given.items()}
        known |= {"github.action_path": str(self.folder), "runner.temp": str(temporary)}
        ended = Ended(outputs={"cache": {"cache-hit": "true" if restored else ""}})
        if last:
            ended.outputs |= {
                "measure": {"code": environment["CODE"]},
                "baseline": {"code": environment["COMPARED_CODE"]},
            }
        _run(self.steps[-1:] if last else self.steps, Values(known, ended), workspace, environment)
        return ended


class Job:
    """A job of a workflow in a checkout."""

    def __init__(self, file: Path, name: str) -> None:
        self.found: dict[str, Any] = msgspec.yaml.decode(file.read_bytes())["jobs"][name]
        self.steps = self.found["steps"]

    def run(self, workspace: Path, known: Mapping[str, str], only: Collection[str] = (), **environment: str) -> Ended:
        """Run the steps in a folder, all or those of these names; `known` are the values of expressions."""
        (workspace / "temp").mkdir(exist_ok=True)
        ended = Ended()
        steps = [step for step in self.steps if not only or step.get("name") in only]
        assert len(steps) == len(only) or not only, f"the job has not all of the steps {only}"
        _run(steps, Values(dict(known), ended), workspace, environment)
        return ended


def _run(steps: Sequence[dict[str, Any]], values: "Values", workspace: Path, environment: dict[str, str]) -> None:
    for step in steps:
        if not values.allow(step.get("if", "")):
            continue
        if "uses" in step:
            given = {name: values.filled(str(value)) for name, value in step.get("with", {}).items()}
            values.ended.used[step["uses"]] = given
        else:
            _script(step, values, workspace, values.ended, environment)


class Values:
    """The values of expressions at a step."""

    def __init__(self, known: dict[str, str], ended: Ended) -> None:
        self.known, self.ended = known, ended

    def filled(self, text: str) -> str:
        return EXPRESSION.sub(lambda found: self.value(found[1]), text)

    def value(self, expression: str) -> str:
        """Return the value of an expression; KeyError for one that is not known here."""
        if output := OUTPUT.fullmatch(expression):
            return self.ended.outputs.get(output[1], {}).get(output[2], "")
        return self.known[expression]

    def allow(self, condition: str) -> bool:
        """Return whether a step runs: after a failure only those with always()."""
        terms = condition.split(" && ") if condition else []
        if self.ended.code and "always()" not in terms:
            return False
        return all(self._is_true(term) for term in terms if term != "always()")

    def _is_true(self, term: str) -> bool:
        found = COMPARED.fullmatch(term)
        assert found, f"the condition {term} is of an unknown form"
        return (self.value(found[1]) == found[3]) == (found[2] == "==")


def _script(step: dict[str, Any], values: Values, workspace: Path, ended: Ended, environment: dict[str, str]) -> None:
    assert step["shell"] == "bash" and not EXPRESSION.search(step["run"]), "an expression in a script is an injection"
    files = {name: workspace / "temp" / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV")}
    for path in files.values():
        path.write_text("")
    own = {name: values.filled(text) for name, text in step.get("env", {}).items()}
    done = subprocess.run(
        # As GitHub runs `shell: bash`.
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=workspace,
        env={**os.environ, **environment, **own, **{name: str(path) for name, path in files.items()}},
        capture_output=True,
        text=True,
        check=False,
    )
    ended.ran.append(step["name"])
    ended.printed += done.stdout + done.stderr
    ended.summary += files["GITHUB_STEP_SUMMARY"].read_text()
    ended.code = ended.code or done.returncode
    assert not files["GITHUB_ENV"].read_text(), "variables for later steps are outputs"
    lines = files["GITHUB_OUTPUT"].read_text().splitlines()
    ended.outputs.setdefault(step.get("id", step["name"]), {}).update(line.split("=", 1) for line in lines)


def gitlab_job(file: Path, job: str, workspace: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the scripts of a GitLab job in a folder, one after another in one shell, as a runner does."""
    found = msgspec.yaml.decode(file.read_bytes())[job]
    assert set(found) <= {"variables", "cache", "before_script", "script", "artifacts"}, "a key that nobody has tried"
    script = "\n".join([*found["before_script"], *found["script"]])
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=workspace,
        env={**os.environ, **found["variables"], **variables},
        capture_output=True,
        text=True,
        check=False,
    )
