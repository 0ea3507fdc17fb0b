"""Releases of a fit in several steps, step by step, and those for other data."""

from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np

from skdirdp.bayes_net.structure_learning import ReleaseSchedule
from skdirdp.table_classifier.releases import Releases


@contextmanager
def listening(answers=None):
    """Collect (mechanism, exact values, noisy values) of every step of fits.

    With the answers of an earlier fit these are given instead of noise.
    """
    heard = []

    def overheard(noisy):
        def add_noise(self, mechanism, values):
            drawn = noisy(self, mechanism, values) if answers is None else answers[len(heard)]
            heard.append((mechanism, np.array(values), np.array(drawn)))
            return drawn

        return add_noise

    with ExitStack() as stack:
        for schedule in (ReleaseSchedule, Releases):
            noisy = overheard(schedule._add_noise)
            stack.enter_context(patch.object(schedule, "_add_noise", noisy))
        yield heard


def fit_beside(model, X, other, **options):
    """A fit on X, and steps that the same answers lead to on X and on other data.

    Returns
    -------
    tuple of (fitted model, model of the other data, steps, steps)
    """
    with listening() as steps:
        model.fit(X, **options)
    again = type(model)(**model.get_params())
    with listening([drawn for *_, drawn in steps]) as replayed:
        again.fit(other, **options)
    return model, again, steps, replayed


def squared_distance(steps, replayed):
    """The sum over all steps of the squared change of the exact values, in deviations."""
    return sum(
        float(((values - others) ** 2).sum()) / mechanism.sigma**2
        for (mechanism, values, _), (_, others, _) in zip(steps, replayed, strict=True)
    )


def log_likelihood_ratio(steps, replayed):
    """Return the log-likelihood ratio of all releases for the first and the second data set."""
    return sum(
        float(((drawn - others) ** 2 - (drawn - values) ** 2).sum()) / (2 * mechanism.sigma**2)
        for (mechanism, values, drawn), (_, others, _) in zip(steps, replayed, strict=True)
    )
