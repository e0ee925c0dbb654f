"""Measured figures in messages."""

DIGITS = 3


def three_digits(figure: float) -> str:
    """Return a figure with three significant digits and no exponent: 12.8, 0.0123, 85, 1230."""
    return f"{float(f'{figure:.{DIGITS}g}'):.10f}".rstrip("0").rstrip(".")
