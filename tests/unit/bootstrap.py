"""The scripts that decide which node bootstraps, run in bash with the words of all nodes given."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

# What the nodes say, one look after another: node1's words, node2's, node3's. The last look stays.
ASKED = """
source {script}
LAB_NODE={node} LAB_MEMBERS="node1 node2 node3"
history() {{ echo {history}; }}
is_lost() {{ [[ " {lost} " == *" $1 "* ]]; }}
sleep() {{ :; }}
log() {{ echo "$1"; }}
LOOKS=({looks})
AT=0
look() {{
    local words
    IFS=/ read -r -a words <<<"${{LOOKS[$AT]}}"
    SAID=([node1]=${{words[0]:-}} [node2]=${{words[1]:-}} [node3]=${{words[2]:-}})
    if ((AT < ${{#LOOKS[@]}} - 1)); then AT=$((AT + 1)); fi
}}
decide
echo "$DECISION"
"""


def asked(script: Path, node: str, looks: Sequence[str], history: str, lost: str = "") -> str:
    """Return the commands by which a node decides."""
    listed = " ".join(f'"{look}"' for look in looks)
    return ASKED.format(script=script, node=node, history=history, lost=lost, looks=listed)


def bash(script: str) -> list[str]:
    """Return the lines that a script prints."""
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    return (ran.stdout + ran.stderr).strip().splitlines()
