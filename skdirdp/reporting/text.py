"""Numbers that are never shown too small, and texts of others that are safe to show."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from .._messages import format_exact

# Every float is a finite decimal of fewer digits, so nothing is rounded before it is shown.
_EXACT = Context(prec=1200, Emax=10**9, Emin=-(10**9))
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LARGEST_EXPONENT = 1e6  # of e, for a factor that is written out
_POSITIONAL = range(-7, 7)  # powers of ten that are written out
# Invisible, and harmless: needed to spell some languages, and to keep numbers together.
_JOINERS = "\u200c\u200d\u00a0\u2009"


def rounded_up(value: float) -> str:
    """A number in few digits, and not less than it is: a reader may repeat it as a claim."""
    return _shortened(value, ROUND_CEILING)


def rounded_down(value: float) -> str:
    """What is left, in few digits, and not more than it is."""
    return _shortened(value, ROUND_FLOOR)


def _shortened(value: float, rounding: str) -> str:
    if math.isinf(value):
        return "infinite"
    exact = Decimal(value)
    # Four decimals, as in the rest of the package, and four digits of what is below 0.1.
    return _show(exact, min(exact.adjusted() + 1, 0) - 4, rounding)


def factor_up(epsilon: float) -> str:
    """``e ** epsilon`` in three digits, rounded up."""
    if math.isinf(epsilon):
        return "infinite"
    if epsilon > _LARGEST_EXPONENT:
        return f"e^({rounded_up(epsilon)})"
    wide = Context(prec=40, Emax=10**12, Emin=-(10**12))
    factor = Decimal(epsilon).exp(wide)  # to the nearest
    factor = factor if epsilon == 0 else factor.next_plus(wide)
    return _show(factor, factor.adjusted() - 2, ROUND_CEILING)


def _show(exact: Decimal, last: int, rounding: str) -> str:
    """A number down to a power of ten; large and small ones with their power."""
    if exact == 0:
        return "0"
    shown = exact.quantize(Decimal(1).scaleb(last, _EXACT), rounding, _EXACT)
    if shown == 0 or shown.adjusted() in _POSITIONAL:
        text = f"{shown:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    size = shown.adjusted()
    leading = shown.scaleb(-size, _EXACT).quantize(Decimal("0.001"), rounding, _EXACT)
    power = f"10{str(size).translate(_SUPERSCRIPTS)}"
    return power if leading == 1 else f"{leading.normalize(_EXACT):f} × {power}"


def number(value: float) -> str:
    """A number that somebody chose, in all its digits."""
    if math.isinf(value):
        return "infinite"
    chosen = Decimal(repr(float(value)))
    if chosen == 0 or chosen.adjusted() in _POSITIONAL:
        text = f"{chosen:f}"
        return text.removesuffix(".0")
    return format_exact(value)


def visible(text: object) -> str:
    """A text of somebody else in which every character shows.

    Control characters can rewrite a terminal, and marks of direction the reading of a line.
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character in _JOINERS
        else character.encode("unicode_escape", "backslashreplace").decode("ascii")
        for character in text
    )


def shortened(text: str, most: int = 120) -> str:
    """The beginning of a text of somebody else, who may have written a page."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
