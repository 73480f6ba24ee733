"""Numbers as texts: an interval, an effective number, one whose error is not known."""

from __future__ import annotations

import math


def few_digits(value: float) -> str:
    """A number whose error is not known: three digits, and all before the point.

    >>> few_digits(0.605202), few_digits(12345.6), few_digits(0.0), few_digits(1.5e-7)
    ('0.605', '12346', '0', '1.5e-07')
    """
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def worth(number: float) -> str:
    """An effective number: in four digits, never as a power of ten.

    >>> worth(11380.4), worth(325.44), worth(1.9991)
    ('11,380', '325.4', '1.999')
    """
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"


def between(low: float, high: float) -> str:
    """An interval in as many digits as its width has to say.

    >>> between(0.371012, 0.445281), between(1.0, 1.0), between(103.2, 2207.9), between(-math.inf, 1.0)
    ('0.371 to 0.445', '1 to 1', '103 to 2208', 'not known')
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return "not known"
    digits = 1 - math.floor(math.log10(high - low)) if high > low else 99
    if digits > 12:
        return f"{low:.6g} to {high:.6g}"
    return f"{low:.{max(digits, 0)}f} to {high:.{max(digits, 0)}f}"
