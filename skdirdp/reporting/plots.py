"""Plots as SVG inside a page: no other program draws them, and nothing is loaded.

Colours are variables of the page, so that a plot follows it from light to dark and to paper.
"""

import math
from collections.abc import Sequence

import numpy as np

from .markup import Markup, tag
from .text import number, rounded_up

_WIDTH, _HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 18, 16, 46
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LEAST_DELTA = 1e-12  # the logarithmic axis ends here at the latest


class _Frame:
    """Where numbers lie on the page."""

    def __init__(self, x_end: float, y_low: float, y_high: float):
        self._x_end, self._y_low, self._y_high = x_end, y_low, y_high

    def x(self, value: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * value / self._x_end, 2)

    def y(self, value: float) -> float:
        share = (value - self._y_low) / (self._y_high - self._y_low)
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share, 2)

    def axes(
        self,
        x_ticks: Sequence[tuple[float, str]],
        y_ticks: Sequence[tuple[float, str]],
        x_name: str,
        y_name: str,
    ) -> list[Markup]:
        floor, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        parts = []
        for value, text in y_ticks:
            y = self.y(value)
            parts.append(tag("line", x1=_LEFT, x2=right, y1=y, y2=y, class_="grid"))
            parts.append(tag("text", text, x=_LEFT - 8, y=y + 4, class_="tick", text_anchor="end"))
        for value, text in x_ticks:
            x = self.x(value)
            parts.append(tag("line", x1=x, x2=x, y1=floor, y2=floor + 4, class_="axis"))
            parts.append(tag("text", text, x=x, y=floor + 18, class_="tick", text_anchor="middle"))
        parts.append(tag("line", x1=_LEFT, x2=right, y1=floor, y2=floor, class_="axis"))
        middle = (_LEFT + right) / 2
        parts.append(
            tag("text", x_name, x=middle, y=_HEIGHT - 6, class_="name", text_anchor="middle")
        )
        half = (_TOP + floor) / 2
        parts.append(
            tag(
                "text",
                y_name,
                x=16,
                y=half,
                class_="name",
                text_anchor="middle",
                transform=f"rotate(-90 16 {half})",
            )
        )
        return parts


def _drawing(title: str, parts: Sequence[Markup]) -> Markup:
    return tag(
        "svg",
        tag("title", title),
        *parts,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=title,
        class_="plot",
    )


def ledger_plot(
    numbers: Sequence[int],
    totals: Sequence[float],
    n_charges: int,
    limit: float | None,
    measure: str,
) -> Markup:
    """The total after some of the charges, and the limit.

    Between two of them the larger total is drawn, which is on the safe side.

    Parameters
    ----------
    numbers : sequence of int
        After how many charges each total was.
    totals : sequence of float
        They may be infinite.
    n_charges : int
        How many there are.
    limit : float or None
        In the same terms.
    measure : str
        What the totals are.
    """
    finite = [total for total in totals if math.isfinite(total)]
    highest = max([*finite, limit or 0.0, 1e-300]) * 1.08
    frame = _Frame(n_charges, 0.0, highest)
    x_ticks = [(tick, f"{tick:.0f}") for tick in _round_steps(n_charges) if tick == int(tick)]
    parts = frame.axes(
        x_ticks,
        [(tick, number(tick)) for tick in _round_steps(highest)],
        "number of charges",
        measure,
    )
    corners, before = [f"M{frame.x(0)} {frame.y(0)}"], 0
    for after, total in zip(numbers, totals, strict=True):
        # All charges in between cost at most what they cost together.
        level = total if math.isfinite(total) else highest
        corners.append(f"V{frame.y(level)}")
        corners.append(f"H{frame.x(after)}")
        if not math.isfinite(total):
            corners[-1] = f"H{frame.x(n_charges)}"
            half = before > n_charges / 2
            x = frame.x(n_charges if half else before) + (-6 if half else 6)
            anchor = "end" if half else "start"
            words = "infinite from here on"
            parts.append(tag("text", words, x=x, y=_TOP - 4, class_="note", text_anchor=anchor))
            break
        before = after
    area = f"{' '.join(corners)} V{frame.y(0)} Z"
    parts.append(tag("path", d=area, class_="area"))
    parts.append(tag("path", d=" ".join(corners), class_="curve"))
    if limit is not None:
        y = frame.y(limit)
        parts.append(tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="limit"))
        parts.append(
            tag(
                "text",
                f"limit {number(limit)}",
                x=_LEFT + 6,
                y=y - 5,
                class_="note",
                text_anchor="start",
            )
        )
    title = f"{measure}, after each charge; in the end {rounded_up(totals[-1])}"
    return _drawing(title, parts)


def profile_plot(
    epsilons: Sequence[float], deltas: Sequence[float], claim: tuple[float, float] | None, name: str
) -> Markup:
    """The smallest delta at each epsilon, on a logarithmic axis.

    Parameters
    ----------
    epsilons, deltas : sequences of float
        The points of the profile.
    claim : tuple of (epsilon, delta) or None
        A point to mark; a delta of 0 is a line.
    name : str
        What the mark is called.
    """
    positive = [delta for delta in deltas if delta > 0]
    if claim is not None and claim[1] > 0:
        positive.append(claim[1])
    least = max(min(positive, default=1e-3), _LEAST_DELTA)
    low, high = (
        math.floor(math.log10(least)),
        max(math.ceil(math.log10(max(positive, default=1.0))), -1),
    )
    low = min(low, high - 1)
    frame = _Frame(max(epsilons), low, high)
    step = max(1, math.ceil((high - low) / 6))
    y_ticks = [
        (power, "1" if power == 0 else f"10{str(power).translate(_SUPERSCRIPTS)}")
        for power in range(high, low - 1, -step)
    ]
    parts = frame.axes(
        [(tick, number(tick)) for tick in _round_steps(max(epsilons))], y_ticks, "ε", "δ"
    )
    points, last = [], (0.0, 0.0)
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        height = math.log10(delta) if delta > 0 else -math.inf
        if height < low:
            # The line leaves the plot where the two points' does.
            slope = (height - last[1]) / (epsilon - last[0]) if epsilon > last[0] else -math.inf
            points.append(f"{frame.x(last[0] + (low - last[1]) / slope)},{frame.y(low)}")
            break
        points.append(f"{frame.x(epsilon)},{frame.y(height)}")
        last = (epsilon, height)
    parts.append(tag("polyline", points=" ".join(points), class_="curve"))
    if claim is not None:
        x = frame.x(claim[0])
        # A profile falls: what is above it to the right and below it to the left is free.
        right = x > (_LEFT + _WIDTH) / 2
        anchor, shift, lift = ("end", -9, 18) if right else ("start", 9, -6)
        if claim[1] > 0:
            y = frame.y(math.log10(max(claim[1], 10.0**low)))
            parts.append(tag("circle", cx=x, cy=y, r=4.5, class_="mark"))
            text = f"{name} ({number(claim[0])}, {number(claim[1])})"
        else:
            y, lift = _TOP + 14, 0
            parts.append(tag("line", x1=x, x2=x, y1=_TOP, y2=_HEIGHT - _BOTTOM, class_="limit"))
            text = f"{name} {number(claim[0])}"
        parts.append(tag("text", text, x=x + shift, y=y + lift, class_="note", text_anchor=anchor))
    return _drawing("The smallest delta that holds at each epsilon", parts)


def _round_steps(end: float, most: int = 6) -> list[float]:
    """Round numbers from 0 up to an end."""
    size = 10.0 ** math.floor(math.log10(end / most))
    step = next(
        size * factor for factor in (1, 2, 5, 10) if size * factor * most >= end * (1 - 1e-9)
    )
    return [float(f"{step * i:.12g}") for i in range(int(end / step * (1 + 1e-9)) + 1)]


def spread(size: int, most: int) -> list[int]:
    """At most that many of the numbers from 1 on, evenly spaced and with the last."""
    return np.unique(np.linspace(size, 1, min(size, most)).round().astype(int)).tolist()
