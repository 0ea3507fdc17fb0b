"""The first release of a posterior, its exponent calibrated."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from scipy.special import gammaln

from skdirdp import PrivateDirichletPosterior

from ...timing import alternate, processor_seconds
from .promise import Timing


def time_posterior(quick: bool) -> Iterator[Timing]:
    PrivateDirichletPosterior().fit_counts([2, 3])  # imports
    sizes = (
        ((2, 1500, 0.2), (3, 60, 2.0))
        if quick
        else ((2, 15_000, 0.2), (3, 600, 2.0), (4, 100, 2.0))
    )
    for k, n, promised in sizes:
        # Three sizes that differ by one record: each has to be calibrated anew.
        tables = [_balanced(n - fewer, k) for fewer in range(3)]
        posterior = PrivateDirichletPosterior()
        first = min(processor_seconds(partial(posterior.fit_counts, counts)) for counts in tables)
        candidates = round(np.exp(gammaln(n + k) - gammaln(n + 1) - gammaln(k)))
        parameters = np.random.default_rng(0).integers(1, n, (candidates, k)).astype(float)
        (plain,) = alternate(lambda p=parameters: gammaln(p).sum(axis=1), repeats=3)
        yield Timing(
            f"PrivateDirichletPosterior.fit, the first, {k} categories",
            f"{n} records, {candidates} candidates",
            first,
            plain=plain,
            plain_is="log-gamma of all candidates",
            at_most_seconds=promised,
            difference=float(posterior.concentration_.sum() - tables[-1].sum() - k),
        )


def _balanced(n: int, k: int) -> np.ndarray:
    """Counts of n records in k categories, as equal as can be."""
    return n // k + (np.arange(k) < n % k)
