"""Blocks of rows."""

import pytest

from skdirdp.numerics.rows import row_blocks


@pytest.mark.parametrize("n_rows", [0, 1, 7, 100])
@pytest.mark.parametrize("n_columns", [0, 1, 3, 1000])
@pytest.mark.parametrize("entries", [1, 10, 10_000])
def test_blocks_cover_all_rows_once(n_rows, n_columns, entries):
    blocks = list(row_blocks(n_rows, n_columns, entries))
    rows = [row for block in blocks for row in range(n_rows)[block]]
    assert rows == list(range(n_rows))
    for block in blocks:
        assert block.stop <= n_rows
        assert block.stop - block.start == 1 or (block.stop - block.start) * n_columns <= entries
