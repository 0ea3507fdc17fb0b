"""Tables worked on in blocks of rows that stay in the processor's cache."""

from collections.abc import Iterator


def row_blocks(n_rows: int, n_columns: int, entries: int) -> Iterator[slice]:
    """Slices that cover all rows in order, of about so many entries and at least a row each.

    Parameters
    ----------
    n_rows, n_columns : int
        The size of the table.
    entries : int
        Entries per block.

    Yields
    ------
    slice
        With a stop of at most `n_rows`.
    """
    rows = max(1, entries // max(n_columns, 1))
    for start in range(0, n_rows, rows):
        yield slice(start, min(start + rows, n_rows))
