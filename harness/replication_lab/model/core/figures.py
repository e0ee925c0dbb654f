"""Measured figures in messages."""

import math

DIGITS = 3


def three_digits(figure: float) -> str:
    """Return a figure with three significant digits and no exponent (12.8, 0.0123, 1230); a whole number as it is."""
    if float(figure).is_integer():
        return f"{figure:.0f}"
    rounded = float(f"{figure:.{DIGITS}g}")
    decimals = DIGITS - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:.{max(decimals, 0)}f}"
