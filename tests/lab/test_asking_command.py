"""A user's own load command runs in a container beside the servers, and what it prints wrongly is no measurement."""

import json

import pytest
from replication_lab.experiments.question.experiment import OWN_IMAGE
from replication_lab.model.core.errors import LabError
from replication_lab.workloads.own_command import SERVICE, OwnCommand
from replication_lab.world import catalogue

# A client as small as can be: a new connection for each row, and every other transaction reads.
CLIENT = r"""
now() { echo $(($(date +%s%N) / 1000)); }
sql() { mariadb -h "$LAB_HOST" -P "$LAB_PORT" -u "$LAB_USER" -p"$LAB_PASSWORD" "$LAB_DATABASE" -e "$1" >/dev/null; }
one() {
  if sql "$3"; then said=ok; else said=error; fi
  echo "$1 $(($(now) - $1)) $2 $said"
}
client() {
  while [ "$(now)" -lt "$end" ]; do
    one "$(now)" write "INSERT INTO own (client) VALUES ($1)"
    one "$(now)" read "SELECT COUNT(*) FROM own"
  done
}
end=$(($(now) + LAB_SECONDS * 1000000))
for number in $(seq "$LAB_CLIENTS"); do client "$number" & done
wait
"""
# The same by one client at a rate.
PACED = r"""
now() { echo $(($(date +%s%N) / 1000)); }
sql() { mariadb -h "$LAB_HOST" -u "$LAB_USER" -p"$LAB_PASSWORD" "$LAB_DATABASE" -e "$1" >/dev/null; }
began=$(now)
for number in $(seq 0 $((LAB_SECONDS * LAB_RATE - 1))); do
  at=$((began + number * 1000000 / LAB_RATE))
  late=$(($(now) - at))
  [ "$late" -ge 0 ] || sleep "$(printf '0.%06d' $((-late)))"
  if sql "INSERT INTO own (client) VALUES (1)"; then said=ok; else said=error; fi
  echo "$at $(($(now) - at)) write $said"
done
"""
# A client that ignores the rate, on any machine; a real one may have the rate by chance.
EVERY_10_MS = "for number in $(seq 0 99); do echo $((number * 10000)) 2 write ok; done"
TABLE = "CREATE TABLE IF NOT EXISTS lab.own (id INT AUTO_INCREMENT PRIMARY KEY, client INT NOT NULL) ENGINE=InnoDB"


@pytest.fixture(scope="module")
def beside(loaded):
    """Yield the lab with the command's container and its table."""
    loaded.node("source").server().execute(TABLE)
    OwnCommand("true", OWN_IMAGE).prepare(loaded)
    return loaded


@pytest.mark.long
def test_a_command_is_measured_with_its_commits_proved(command, tmp_path):
    """As a user types it: the command, with a schema, on semi-sync; its container goes with the lab."""
    (tmp_path / "own.sql").write_text(TABLE.replace("lab.own", "own") + ";\n")
    answer = command(
        *("ask", "semisync", "--rtt", "10ms", "--vary", "clients=1,2", "--load-command", CLIENT),
        *(
            "--schema",
            str(tmp_path / "own.sql"),
            "--claim",
            "errors[clients=2] <= 0.5",
            "--claim",
            "lag[clients=1] <= 9",
        ),
        *("--duration", "1", "--runs", "3", "--margin", "100%", "--noise", "accept", "--json"),
    )
    assert answer.stdout, answer.stderr
    assert json.loads(answer.stdout)["doubts"] == [], answer.stderr
    folder = answer.stderr.rpartition("record and report: ")[2].split()[0]
    lines = list(map(json.loads, (catalogue.ROOT / folder / "record.jsonl").read_text().splitlines()))
    found = [line for line in lines if line["event"] == "measurement"]

    assert found and [proof for line in found for proof in line["proofs"] if not proof["ok"]] == []
    for line in found:
        assert 0 < line["figures"]["commits"] < len(line["samples"]["latency_ms"])
        assert line["figures"]["errors"] == 0 and line["figures"]["lag_s"] > 0
    (lab,) = (line for line in lines if line["event"] == "lab")
    assert lab["images"][SERVICE].startswith("sha256:")


@pytest.mark.long
def test_a_command_that_keeps_a_rate_is_measured_from_its_times(beside):
    """Few a second, since each makes a connection."""
    found = OwnCommand(PACED, OWN_IMAGE, seconds=3, rate=4)
    found.try_out(beside)

    outcome = found.run(beside, 7)

    assert outcome.commits == 12 and [proof for proof in outcome.proofs if not proof.ok] == []


@pytest.mark.parametrize(
    ("text", "rate", "said"),
    [
        ("echo connected; echo 1 2 write ok", 0, "line 1 of the load command is 'connected'"),
        ("echo 1 2 write error", 0, "none of them ok"),
        ("echo no such driver >&2; exit 7", 0, "ended with status 7:\n  no such driver"),
        (EVERY_10_MS, 50, "the load command does not keep a rate"),
    ],
)
def test_a_command_that_does_not_do_as_it_should_is_refused(beside, text, rate, said):
    """The sabotage: it is tried once."""
    with pytest.raises(LabError) as refused:
        OwnCommand(text, OWN_IMAGE, rate=rate).try_out(beside)

    assert said in refused.value.found


def test_an_image_that_is_not_there_is_told(loaded):
    """Nor can it be pulled."""
    with pytest.raises(LabError) as refused:
        loaded.run_beside("load", "other", "replication-lab/no-such-image")

    assert "replication-lab/no-such-image is not on this machine" in refused.value.found
