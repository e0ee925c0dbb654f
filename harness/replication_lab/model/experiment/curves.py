"""A figure of many cases, drawn as lines over a number that differs between cases; summary.json has it as it is."""

from collections.abc import Collection, Mapping

import msgspec


class CurvePoint(msgspec.Struct, frozen=True):
    """A point of a line: its place on the x axis, and the case that has the figure."""

    x: float
    case: str


class CurveLine(msgspec.Struct, frozen=True):
    """One line of a panel, its points in the order of the x axis."""

    label: str
    points: list[CurvePoint]


class CurvesPanel(msgspec.Struct, frozen=True):
    """One panel of a chart of curves."""

    title: str
    lines: list[CurveLine]


class Curves(msgspec.Struct, frozen=True):
    """A chart of one figure, with a line through the cases of each panel; both axes are logarithmic."""

    title: str
    x: str
    figure: str
    panels: list[CurvesPanel]

    @classmethod
    def over(
        cls, title: str, x: str, panels: Mapping[str, Mapping[str, Mapping[float, str]]], figure: str = "throughput"
    ) -> "Curves":
        """Return the chart of `panels`: by title the lines, by label the points, by the place on the x axis the case.

        Lines and panels without a point are left out.
        """
        found = [
            CurvesPanel(title, [CurveLine(label, _in_order(points)) for label, points in lines.items() if points])
            for title, lines in panels.items()
        ]
        return cls(title, x, figure, [panel for panel in found if panel.lines])

    @property
    def cases(self) -> tuple[str, ...]:
        return tuple(point.case for panel in self.panels for line in panel.lines for point in line.points)

    def measured(self, cases: Collection[str]) -> "Curves":
        """Return the chart with the points of these cases only."""
        panels = {
            panel.title: {
                line.label: {point.x: point.case for point in line.points if point.case in cases}
                for line in panel.lines
            }
            for panel in self.panels
        }
        return Curves.over(self.title, self.x, panels, self.figure)


def _in_order(points: Mapping[float, str]) -> list[CurvePoint]:
    return [CurvePoint(x, case) for x, case in sorted(points.items())]
