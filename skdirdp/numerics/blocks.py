"""Large tables in blocks of rows that stay in the processor's cache."""

from collections.abc import Iterator


def row_blocks(n_rows: int, n_columns: int, entries: int) -> Iterator[slice]:
    """Slices of rows that cover a table, of about so many entries each."""
    step = max(1, entries // max(n_columns, 1))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))
