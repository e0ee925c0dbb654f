"""Keep a recorded run, and compare what is judged of it today with what was judged when it was kept.

`python -m tests.records.golden RUN NAME [DRILL…]` keeps a run under a name, without the drills that are named.
"""

import json
import lzma
import math
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from replication_lab import runs
from replication_lab.report import Summary
from replication_lab.report.summary import encode

HERE = Path(__file__).parent
RECORD, EXPECTED = "record.jsonl", "expected.json"
# Prose may be reworded; what these keys hold may not change.
OF_RUN = ("experiment", "verdict", "exit_code", "ended", "interrupted", "crashed", "torn")
OF_CASE = ("engine", "name", "rounds", "noisy", "figures")
OF_CLAIM = (
    *("id", "engine", "relation", "unit", "verdict", "expected", "changed"),
    *("published", "predicted", "measured", "interval", "rounds"),
)
# The estimate is also `measured`.
OF_INTERVAL = ("low", "high", "level", "n")
OF_VERDICT = {
    **{"found": "measured"},
    **{key: key for key in ("verdict", "expected", "bound")},
}
# A sum may be taken in another order.
SAME = 1e-9


def names() -> list[str]:
    return sorted(path.parent.name for path in HERE.glob(f"*/{EXPECTED}"))


def expected(name: str) -> dict | list:
    return json.loads((HERE / name / EXPECTED).read_bytes())


def unpack(name: str, folder: Path) -> Path:
    """Unpack the run as it was recorded, below `folder`; return its folder."""
    run = folder / name
    run.mkdir(parents=True)
    for packed in (HERE / name).rglob("*.jsonl.xz"):
        path = run / packed.relative_to(HERE / name).with_suffix("")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(lzma.decompress(packed.read_bytes()))
    return run


def judged(run: Path) -> dict | list:
    """Return every verdict, figure and interval of a recorded run as the current code computes them."""
    return unworded(runs.judge(run))


def unworded(judged: Summary) -> dict | list:
    """Return the verdicts, figures and intervals of a summary."""
    summary = json.loads(encode(judged))
    return of_drills(summary) if summary["kind"] == "drills" else of_experiment(summary)


def of_experiment(summary: dict) -> dict:
    """Return what must not change in the output of `lab report --json`."""
    return {
        **_picked(OF_RUN, summary),
        "noisy": summary["environment"]["noise"]["noisy"],
        "faults_seen": sum(fault["seen"] for fault in summary["faults"]),
        "cases": [_known(_picked(OF_CASE, case)) for case in summary["cases"]],
        "claims": [_claim(claim) for claim in summary["claims"]],
        "not_judged": [_picked(("claim", "engine", "case"), left) for left in summary["not_judged"]],
        "comparison": summary["comparison"] and _picked(("unit", "columns", "rows"), summary["comparison"]),
    }


def of_drills(summary: dict) -> list[dict]:
    """Return what must not change in the output of `lab report --json` of drills."""
    return [
        {
            "drill": drill["name"],
            "exit_code": drill["exit_code"],
            "figures": drill["figures"],
            "verdicts": [
                {
                    "says": each["sentence"],
                    "figure": each["figure"],
                    **{kept: each[key] for kept, key in OF_VERDICT.items()},
                }
                for each in drill["expectations"]
            ],
            "doubts": len(drill["doubts"]),
        }
        for drill in summary["drills"]
    ]


def _picked(keys: tuple[str, ...], found: dict) -> dict:
    return {key: found[key] for key in keys}


def _claim(claim: dict) -> dict:
    interval = claim["interval"] and _picked(OF_INTERVAL, claim["interval"])
    return {**_picked(OF_CLAIM, claim), "interval": interval}


def _known(case: dict) -> dict:
    """Return a case without the values of figures that are unknown, most of their lines."""
    figures = {
        name: {key: value for key, value in figure.items() if value is not None}
        for name, figure in case["figures"].items()
    }
    return {**case, "figures": figures}


def differences(before: object, today: object, where: str = "") -> list[str]:
    """Return where two judgements of a record differ, one line each; none when they agree."""
    if isinstance(before, dict) and isinstance(today, dict):
        keys = dict.fromkeys([*before, *today])
        pairs = [(f"{where}.{key}", before.get(key), today.get(key)) for key in keys]
    elif isinstance(before, list) and isinstance(today, list) and len(before) == len(today):
        pairs = [(f"{where}[{at}]", *pair) for at, pair in enumerate(zip(before, today, strict=True))]
    else:
        return [] if _same(before, today) else [f"{where}: {before!r} became {today!r}"]
    return [line for place, one, other in pairs for line in differences(one, other, place)]


def _same(before: object, today: object) -> bool:
    if isinstance(before, float) and isinstance(today, int | float) and not isinstance(today, bool):
        return math.isclose(before, today, rel_tol=SAME)
    return before == today and type(before) is type(today)


def keep(run: Path, name: str, left_out: list[str]) -> None:
    """Pack the record of a run in place of the one that had the name, and write beside it what is judged of it now."""
    kept = HERE / name
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    unwanted = {f"ledger-{drill}.jsonl" for drill in left_out}
    for path in sorted(run.rglob("*.jsonl")):
        if path.name not in unwanted:
            content = without(path.read_bytes(), left_out) if left_out and path.name == RECORD else path.read_bytes()
            packed = kept / f"{path.relative_to(run)}.xz"
            packed.parent.mkdir(exist_ok=True)
            packed.write_bytes(lzma.compress(content, preset=lzma.PRESET_EXTREME))
    with TemporaryDirectory() as folder:
        write_expected(name, judged(unpack(name, Path(folder))))


def without(record: bytes, left_out: list[str]) -> bytes:
    """Return a record of drills as if some had not been requested."""
    events = [json.loads(line) for line in record.splitlines()]
    kept = [event for event in events if event.get("drill", {}).get("name") not in left_out]
    kept[0]["drills"] = [drill for drill in kept[0]["drills"] if drill["name"] not in left_out]
    return b"".join(json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for event in kept)


def write_expected(name: str, found: dict | list) -> None:
    (HERE / name / EXPECTED).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    keep(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
