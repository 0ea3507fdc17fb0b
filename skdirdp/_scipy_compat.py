"""Names that scipy does not promise to keep.

All of the package imports them from here, so that a new version of scipy is met in one place.
"""

import numpy as np

try:
    from scipy.sparse._sparsetools import csc_matvec
except ImportError:
    csc_matvec = None


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
