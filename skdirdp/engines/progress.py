"""Progress of long counts, where somebody watches."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

# Nobody needs a bar for less, in seconds.
PATIENCE = 2.0


def is_watched() -> bool:
    """Whether errors and warnings go to a terminal, or to a notebook."""
    with suppress(Exception):
        if sys.stderr.isatty():
            return True
    return "ipykernel" in sys.modules


def shown(steps: Iterable[Any], total: int | None, unit: str) -> Iterator[Any]:
    """The steps, with a bar that counts them if there are many and somebody watches."""
    with suppress(ImportError):
        from tqdm.auto import tqdm

        hidden = not is_watched()
        return iter(
            tqdm(steps, "counting", total, unit=unit, disable=hidden, delay=PATIENCE, leave=False)
        )
    return iter(steps)
