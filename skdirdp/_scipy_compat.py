"""Names that scipy does not promise to keep.

All of the package imports them from here, so that a new version of scipy is met in one place.
"""

import numpy as np

try:
    from scipy.sparse._sparsetools import csc_matvec, csc_matvecs
except ImportError:
    csc_matvec = csc_matvecs = None


def add_columns(ends: np.ndarray, cells: np.ndarray, entries: np.ndarray, sums: np.ndarray) -> None:
    """Add the columns of a sparse matrix to a vector of sums, in place.

    numpy's `add.at` does the same, and takes half as long again.

    Parameters
    ----------
    ends : ndarray of int of shape (n_columns + 1,)
        From 0: where each column starts and the last one ends.
    cells : ndarray of int
        The place of each entry in the sums, of which each exists.
    entries, sums : ndarray of float
        Of one type.
    """
    if csc_matvec is None:
        np.add.at(sums, cells, entries)
    else:
        n_columns = len(ends) - 1
        ones = np.ones(n_columns, sums.dtype)
        csc_matvec(len(sums), n_columns, ends, cells, entries, ones, sums)


def add_rows(groups: np.ndarray, rows: np.ndarray, sums: np.ndarray) -> None:
    """Add rows to the rows of sums that their groups have, in place.

    That is a product with a sparse matrix of ones, which takes as long to make as to multiply.

    Parameters
    ----------
    groups : ndarray of int of shape (n_rows,)
        Each exists.
    rows : ndarray of shape (n_rows, n_columns)
    sums : ndarray of shape (n_groups, n_columns)
        In C order, and of the same type.
    """
    if csc_matvecs is None:
        np.add.at(sums, groups, rows)
    else:
        n_rows, n_columns = rows.shape
        ends, ones = np.arange(n_rows + 1, dtype=groups.dtype), np.ones(n_rows, sums.dtype)
        entries = np.ascontiguousarray(rows).reshape(-1)
        csc_matvecs(len(sums), n_rows, n_columns, ends, groups, ones, entries, sums.reshape(-1))
