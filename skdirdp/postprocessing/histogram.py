"""A histogram by itself: one row, of which no pool tells what to expect.

Equal shares are where its cells are looked for first, and nothing more: a category that is never
seen may be one that does not occur, however many records there are for each. So an empty cell is
not as wide as a part of the equal share here, but as the noise allows.
"""

import numpy as np

from .margins import NoisyTable, reconcile
from .mixture import OF_HISTOGRAMS, Cells
from .posteriors import read_alike


def read_histogram(table: NoisyTable, total: float | None = None) -> np.ndarray:
    """The shares that the cells of a table of one variable most likely had.

    Parameters
    ----------
    table : NoisyTable
    total : float, optional
        The public number of records.

    Returns
    -------
    ndarray of shape (n_categories,)
        Positive; they sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.postprocessing import Noise, NoisyTable
    >>> from skdirdp.postprocessing.histogram import read_histogram
    >>> noisy = np.array([612.0, 377.0, -8.0, 11.0])
    >>> read_histogram(NoisyTable(noisy, Noise(100.0), ("ward",)), total=1000).round(2)
    array([0.61, 0.38, 0.  , 0.01])
    """
    (seen,) = reconcile([table], total)
    uncertain = 0.0
    if total is None:
        uncertain = float(seen.variance(()))
        # Of records that nothing is seen of, the noise is all that can be told.
        total = max(float(seen.counts.sum()), np.sqrt(uncertain))
    size = len(seen.counts)
    cells = Cells(
        seen.counts.reshape(1, -1),
        seen.variance(table.axes),
        table.noise.per_count,
        np.full((1, size), 1 / size),
        np.zeros((1, size)),
        np.array([total]),
        uncertain,
        np.zeros(1),
        np.zeros(1),
        size,
        is_last=True,
        in_order=False,
        nearest_zero=0.0,
    )
    return read_alike([cells], OF_HISTOGRAMS)[0].shares[0]
