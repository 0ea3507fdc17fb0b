"""Decisions by ball arithmetic: the path that is taken where doubles do not decide.

A ball is an interval that holds the true value whatever the precision. So an answer that
all numbers of the balls agree on is the true one, and where they do not agree, more bits
of the uniforms and a higher precision follow until they do.

What a question holds beside its uniforms has to be exact: doubles, and rationals (`fmpq`),
which become balls at the precision of the moment. A ball made beforehand would stay as
wide as it is, and the question open for ever.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from flint import arb, ctx

from .bits import WORD, Uniform

Answer = TypeVar("Answer")

_MOST_BITS = 1 << 14


def decide(question: Callable[..., Answer | None], *uniforms: Uniform) -> Answer:
    """Ask until the answer is certain.

    Parameters
    ----------
    question : callable
        From the balls of the uniforms to an answer; None where they leave it open.
    *uniforms : Uniform
        They are extended in place, so that the next question finds the same reals.

    Returns
    -------
    object
        It ends with probability one: what is asked about are inequalities between
        continuous functions of the uniforms, and equality has probability zero.

    Raises
    ------
    RuntimeError
        If 2^14 bits do not decide. That happens to balls that do not become narrower,
        and to others with a probability of about 2^-8000.
    """
    # The context is one for all threads. A precision that another thread has set makes
    # balls wider or narrower, never wrong.
    before = ctx.prec
    precision = 2 * WORD
    try:
        while precision <= _MOST_BITS:
            ctx.prec = precision
            answer = question(*(uniform.ball() for uniform in uniforms))
            if answer is not None:
                return answer
            for uniform in uniforms:
                uniform.extend()
            precision += 2 * WORD
    finally:
        ctx.prec = before
    raise RuntimeError(f"{_MOST_BITS} bits do not decide; a ball does not become narrower")


def is_positive(ball: Any) -> bool | None:
    """Whether a number is above 0; None where its ball has both.

    Parameters
    ----------
    ball : arb

    Returns
    -------
    bool or None
    """
    if ball > 0:
        return True
    return False if ball < 0 else None


def floor(ball: Any) -> int | None:
    """The largest integer below; None where the ball has numbers of several.

    Parameters
    ----------
    ball : arb

    Returns
    -------
    int or None
    """
    integer = ball.floor().unique_fmpz()
    return None if integer is None else int(integer)


def leading_bits(ball: Any, bits: int) -> tuple[int, int] | None:
    """The first bits of a positive number, and their exponent.

    Parameters
    ----------
    ball : arb
    bits : int

    Returns
    -------
    (mantissa, exponent) or None
        ``mantissa * 2^exponent`` is the number rounded down, with mantissa in
        ``[2^(bits - 1), 2^bits)``; None where the ball has numbers of several such cells.
    """
    if not ball > 0:
        return None
    mantissa, exponent = ball.mid().man_exp()
    exponent = int(exponent) + int(mantissa).bit_length() - bits
    # A ball that reaches below the power of two beneath its middle has no unique floor.
    integer = floor(ball * arb(2) ** -exponent)
    return None if integer is None else (integer, exponent)
