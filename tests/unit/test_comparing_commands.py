"""Do the commands that compare runs end with the status of the comparison, and say what decides it?"""

import json

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from replication_lab import cli, runs
from replication_lab.model.comparing.digest import decode, encode
from replication_lab.model.core.errors import LabError

from tests.records import compared, golden
from tests.unit.synthetic_digests import compare

# They judge whole runs.
pytestmark = pytest.mark.whole


def lab(arguments):
    """Run a command as `lab` does, for its output and exit status; a LabError is raised."""
    ended = CliRunner().invoke(cli.cli, arguments, prog_name="lab")
    if isinstance(ended.exception, LabError):
        raise ended.exception
    return ended


@pytest.fixture
def recorded(tmp_path):
    """Return the folder of a kept record."""
    return golden.unpack("semisync_wan", tmp_path)


def test_an_equal_run_is_not_worse_where_its_rounds_suffice(recorded, tmp_path):
    """The commands write a baseline, check it, and compare; the status is that of the comparison."""
    file = tmp_path / "baseline.json"
    saved = lab(["report", str(recorded), "--format", "baseline"])
    file.write_text(saved.stdout)
    file.write_bytes(encode(_almost(decode(file.read_bytes(), "baseline"))))
    checked = lab(["compare", str(file), str(recorded), "--margin", "60%", "--json"])
    shown = lab(["compare", str(file), str(recorded), "--margin", "60%"])

    assert saved.exit_code == 0
    assert (checked.exit_code, shown.exit_code) == (0, 0)
    assert json.loads(checked.stdout)["exit_code"] == 0
    assert "no figure is worse by more than 60%" in shown.stdout
    assert "throughput" in shown.stdout


def _almost(found):
    """Return a run that measured almost the same."""
    (name, engine), *others = found.engines.items()
    cases = {
        case: replace(each, figures={figure: [v * 1.001 for v in values] for figure, values in each.figures.items()})
        for case, each in engine.cases.items()
    }
    return replace(found, started="2026-11-24", engines={name: replace(engine, cases=cases), **dict(others)})


def test_a_run_compared_with_itself_shows_nothing(recorded, tmp_path):
    """`latest` is still the run of the baseline if the new one never began."""
    file = tmp_path / "baseline.json"
    file.write_text(lab(["report", str(recorded), "--format", "baseline"]).stdout)
    found = lab(["compare", str(file), str(recorded), "--margin", "60%"])

    assert found.exit_code == 3
    assert "both are the same run" in found.stdout


def test_a_figure_that_no_case_has_decides_nothing_and_the_text_names_those_there_are(recorded, tmp_path):
    """drbd_cost, for one, has no median of latencies."""
    file = tmp_path / "baseline.json"
    file.write_text(lab(["report", str(recorded), "--format", "baseline"]).stdout)
    file.write_bytes(encode(_almost(decode(file.read_bytes(), "baseline"))))
    found = lab(["compare", str(file), str(recorded), "--figure", "average_ms"])

    assert found.exit_code == 3
    assert "no figure is judged; --figure names others, measured: throughput" in found.stdout


def test_an_experiment_is_compared_by_its_own_figure(tmp_path):
    """temporary_tables has no throughput; its queries' time decides."""
    folder = golden.unpack("temporary_tables", tmp_path)
    found = runs.digest_of(str(folder))
    slower = {
        engine: replace(
            each,
            cases={
                case: replace(one, figures={"average_ms": [value * 2 for value in one.figures["average_ms"]]})
                for case, one in each.cases.items()
                if "average_ms" in one.figures
            },
        )
        for engine, each in found.engines.items()
    }
    judged = {change.figure for change in compare(found, found, 0.1).changes if change.judged}

    assert judged == {"average_ms"}
    assert compare(found, replace(found, engines=slower), 0.1).exit_code == 1


def test_a_small_margin_cannot_be_told_and_the_text_names_the_figure(recorded):
    """Few rounds do not show one per cent."""
    found = lab(["compare", str(recorded), str(recorded), "--margin", "1%"])

    assert found.exit_code == 3
    assert "unknown: throughput of" in found.stdout
    assert "runs on each side would decide it" in " ".join(found.stdout.split())


def test_a_folder_of_baselines_is_one_side(tmp_path):
    """As a pipeline keeps them: a file for each run."""
    folder, latest = tmp_path / "baselines", tmp_path / "latest.json"
    folder.mkdir()
    *earlier, last = compared.history()[:10]
    for found in earlier:
        (folder / f"{found.run}.json").write_bytes(encode(found))
    latest.write_bytes(encode(last))
    found = lab(["compare", str(folder), str(latest)])

    assert found.exit_code == 0
    assert f"before: {earlier[-1].run}" in found.stdout and "and 8 earlier runs" in found.stdout
    assert json.loads(lab(["compare", str(folder), str(latest), "--json"]).stdout)["runs"] == [
        [each.run for each in earlier],
        [last.run],
    ]


@pytest.mark.parametrize("margin", ["0%", "95%", "-5%", "much"])
def test_a_margin_that_makes_no_sense_is_refused(recorded, margin):
    """It lies between 0 and 90 %."""
    with pytest.raises(LabError, match="--margin"):
        lab(["compare", str(recorded), str(recorded), f"--margin={margin}"])
