"""Charts as an SVG file that stands alone: with its own background and colours, in dark and in light."""

import re
from collections.abc import Sequence

from replication_lab.report import chart, svg, templates
from replication_lab.report.chart import Chart

CAPTION = 26
PAIR = re.compile(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)")
PLAIN = re.compile(r"--([\w-]+): ([^;]+);")


def standalone(charts: Sequence[Chart], told: str) -> str:
    """Return charts below each other as one file; their captions are in the picture."""
    parts, y = [], 0.0
    for one in charts:
        parts.append(svg.elements().text(one.told, 12, y + 18, "caption"))
        drawn = chart.drawn(one).replace("<svg ", f'<svg y="{svg.place(y + CAPTION)}" height="{one.height}" ', 1)
        parts.append(drawn)
        y += CAPTION + one.height
    return framed(chart.WIDTH, y, told, parts)


def framed(width: float, height: float, told: str, parts: Sequence[str], **more: str) -> str:
    """Return a picture that stands alone: these parts on a background, with their style sheet."""
    made = svg.elements()
    content = [f"<style>{style()}</style>", made.rect(0, 0, width, height, "back"), *parts]
    return f"{made.picture(width, height, told, caller=lambda: ''.join(content), **more)}\n"


def style() -> str:
    """Return the rules of the charts with the colours written out: no viewer has to know variables."""
    theme, rules = templates.asset("theme.css"), templates.asset("chart.css")
    rules = re.sub(r"/\*.*?\*/\s*", "", rules, flags=re.DOTALL)
    rules += ".back { fill: var(--surface); }\n.caption { font-size: 14px; font-weight: 600; }\n"
    plain = dict(PLAIN.findall(theme))
    light, dark = ({name: pair[at] for name, *pair in PAIR.findall(theme)} for at in (0, 1))
    coloured = [
        rule for rule in re.findall(r"[^{}]+\{[^}]*\}", rules) if any(f"var(--{name})" in rule for name in dark)
    ]
    in_dark = _with("\n".join(map(str.strip, coloured)), plain | dark)
    return f"{_with(rules, plain | light)}@media (prefers-color-scheme: dark) {{\n{in_dark}\n}}\n"


def _with(rules: str, values: dict[str, str]) -> str:
    return re.sub(r"var\(--([\w-]+)\)", lambda match: values[match[1]], rules)
