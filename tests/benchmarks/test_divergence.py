"""Expected divergences: tests against known values."""

import numpy as np
import pytest

from benchmarks.divergence import Divergence, expected_beside


def test_a_control_variate_reduces_the_error_of_a_mean():
    rng = np.random.default_rng(0)
    known = rng.gamma(2.0, 1.5, (2000, 12))  # of mean 3
    # Not in proportion: a slope that a pair has moved itself would bend their mean.
    values = 0.5 + 0.5 * known + known**2 / 27 + rng.normal(0, 0.1, known.shape)
    found = [expected_beside(x, y, Divergence(3.0)) for x, y in zip(values, known, strict=True)]
    means = np.array([each.value for each in found])
    assert means.mean() == pytest.approx(2.5, abs=5 * means.std() / np.sqrt(len(means)))
    # That of plain means of twelve is 0.52.
    assert means.std() < 0.5 * values.mean(axis=1).std()
    errors = np.array([each.error for each in found])
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(means.std(), rel=0.15)


def test_the_error_of_the_control_mean_is_added():
    known = np.arange(12.0)
    found = expected_beside(2 * known, known, Divergence(5.0, error=0.5))
    assert found.value == pytest.approx(10.0)
    assert found.error == pytest.approx(1.0)
