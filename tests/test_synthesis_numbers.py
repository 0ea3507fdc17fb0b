"""Numbers of synthetic records: frequent values, long tails, and the cost of their releases."""

from itertools import product
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from skdirdp import PrivateBayesNet, Schema
from skdirdp.bayes_net.columns import Tail, clipped_squares
from skdirdp.schema import Numbers
from skdirdp.schema.bins import BinCells, Refinement

from .transcripts import fit_beside, listening, squared_distance

ATOMS = [np.log(2.0), 3.14, -0.1, 57.0, 57.3]


def with_atoms(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(n) < 0.7, rng.choice(ATOMS, n), rng.uniform(-10, 100, n))
    return pd.DataFrame({"x": x, "k": 7 * rng.geometric(0.01, n).clip(0, 500)})


def long_tails(n=8000, seed=0):
    """Two columns of which a hundredth of the records has most of the variance."""
    rng = np.random.default_rng(seed)
    values = rng.pareto(1.8, (n, 2)).clip(0, 60)
    return pd.DataFrame(np.floor(values).astype(int), columns=["a", "b"])


def charge(model, adjacency):
    ((charged, _),) = model.privacy_.mechanisms
    return charged.contribution.squared_norm(adjacency) / charged.sigma**2


@pytest.mark.parametrize(
    "kind",
    [
        Numbers.from_bounds(-10.0, 100.0),
        Numbers.from_bounds(-1e300, 1e300),
        Numbers.from_bounds(0.0, 1.0),
        Numbers.from_bounds(-5, 10**9),
        Schema.dates("1900-01-01", "2025-12-31"),
    ],
)
def test_parts_of_bins_are_disjoint_and_contain_the_values(kind):
    """Without noise, each record is counted once in each bin that is divided."""
    domain = BinCells.from_kind(kind)
    low, high = kind.axis_bounds
    rng = np.random.default_rng(0)
    values = np.concatenate([np.full(50, low), np.full(50, high), rng.uniform(low, high / 2, 50)])
    if kind.is_discrete:
        values = np.rint(values)
    codes = kind.from_axis(values)
    ranks = domain.ranks(codes)
    cells = domain.from_codes(codes)
    counts = np.bincount(cells, minlength=domain.n_cells)[:-1].astype(float)
    search = Refinement(domain, counts, ranks, min_records=20.0)
    while not search.is_done:
        # Every divided piece contains whole records, and each is in one part.
        parts = search.count()
        assert parts.sum() == len(search._ranks)
        assert parts.sum(axis=1).max() <= len(values)
        search.update(parts, 0.0)
    refined = search.refined()
    pieces = refined.pieces
    np.testing.assert_allclose(np.bincount(pieces.bins, pieces.shares), 1.0)
    drawn = refined.draw(cells, None, rng)
    found = kind.to_axis(kind.encode("x", drawn))
    np.testing.assert_array_equal(refined.from_codes(kind.encode("x", drawn)), cells)
    if domain.n_refinements:
        assert np.isin(found[:100], [low, high]).mean() > 0.9


def test_frequent_values_are_drawn_exactly():
    X = with_atoms()
    bounds = {"x": (-10.0, 100.0), "k": (0, 600)}
    model = PrivateBayesNet(bounds=bounds, epsilon=3.0).fit(X)
    records = model.sample(20_000)
    for value in ATOMS:
        expected = (X["x"] == value).mean()
        assert (records["x"] == value).mean() == pytest.approx(expected, abs=0.02)
    # Conditions apply to parts of bins too.
    given = model.sample(2000, given={"x": (57.0, 57.2)})["x"]
    assert given.between(57.0, 57.2).all()
    assert (given == 57.0).mean() > 0.8
    assert (model.sample(50, given={"x": 57.0})["x"] == 57.0).all()


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_parts_of_bins_and_tails_use_nearly_the_charge(adjacency):
    """A record at one bound moves to another one: all steps change as much as they can."""
    X = long_tails(1500)
    X["c"] = 0.25
    X["d"] = 0.75
    bounds = {"a": (0, 60), "b": (0, 60), "c": (0.0, 1.0), "d": (0.0, 1.0)}
    X.loc[0] = [60, 0, 0.25, 0.75]
    other = X.drop(index=0)
    if adjacency == "replace":
        other = X.copy()
        other.loc[0] = [0, 60, 0.75, 0.25]
    X, other = (each.astype({"a": int, "b": int, "c": float, "d": float}) for each in (X, other))
    model = PrivateBayesNet(bounds=bounds, epsilon=50.0, adjacency=adjacency)
    fitted, _, steps, replayed = fit_beside(model, X, other)
    assert {"parts", "tails", "moments"} <= set(fitted.sigma_)
    ratio = squared_distance(steps, replayed) / charge(fitted, adjacency)
    assert 0.7 < ratio <= 1


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize("max_rows", [1, 2, 50])
def test_noisy_sums_reveal_no_bits_of_the_exact_ones(max_rows, adjacency):
    """The noise is on the grid of the sums, also if that of the bound for a person is coarser."""
    X = pd.DataFrame(np.random.default_rng(0).normal(5, 2, (500, 8)), columns=list("abcdefgh"))
    bounds = dict.fromkeys(X, (0.0, 10.0))
    model = PrivateBayesNet(bounds=bounds, adjacency=adjacency, max_rows=max_rows)
    always = patch("skdirdp.bayes_net.structure_learning._MAX_CORRELATION_NOISE", np.inf)
    with always, listening() as steps:
        model.fit(X, groups=np.arange(500))
    ((values, noisy),) = ((each, noisy) for _, each, noisy in steps if (each % 1).any())
    last_bits = (noisy - values) * 2.0**20 % 2
    assert values.size == 36
    assert set(last_bits) == {0.0, 1.0}  # with probability 1 - 2^-35


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_no_neighbours_exceed_the_charge_of_numbers(adjacency):
    rng = np.random.default_rng(0)
    bounds = {"a": (0, 60), "b": (0, 60), "x": (-10.0, 100.0)}
    X = long_tails(1500).assign(x=with_atoms(1500)["x"])
    released = set()
    for _ in range(8):
        row, other = rng.integers(len(X)), X.copy()
        if adjacency == "replace":
            values = [rng.choice([0, 1, 60]), rng.choice([0, 1, 60]), rng.choice(ATOMS)]
            other.loc[row] = values
            other = other.astype(X.dtypes)
        else:
            other = other.drop(index=row)
        epsilon = float(rng.choice([1.0, 5.0, 50.0]))
        model = PrivateBayesNet(bounds=bounds, epsilon=epsilon, adjacency=adjacency)
        fitted, _, steps, replayed = fit_beside(model, X, other)
        released |= set(fitted.sigma_)
        assert squared_distance(steps, replayed) <= charge(fitted, adjacency)
    assert {"parts", "tails", "moments"} <= released


def test_squares_of_two_records_have_no_negative_product():
    """All records on a grid: lengths are at most 1, and distances at most the root of 2."""
    squares = np.array([0.0, 0.3, 0.9, 1.0, 0.0])  # the last cell is for missing values
    tails = {name: Tail(squares) for name in "abc"}
    cells = np.array(list(product(range(5), repeat=3)))
    vectors = clipped_squares(tails, dict(zip("abc", cells.T, strict=True)))
    products = vectors @ vectors.T
    assert products.min() >= 0
    assert np.diag(products).max() <= 1 + 1e-12
    lengths = np.diag(products)
    distances = lengths[:, np.newaxis] + lengths - 2 * products
    assert 1.99 < distances.max() <= 2 + 1e-12


def test_deviations_of_long_tails_are_kept():
    X = long_tails(20_000)
    bounds = {"a": (0, 60), "b": (0, 60)}
    ratios = []
    for _ in range(3):
        model = PrivateBayesNet(bounds=bounds, epsilon=10.0).fit(X)
        assert "tails" in model.sigma_
        ratios.append(model.sample(50_000).std() / X.std())
    assert np.abs(np.mean(ratios, axis=0) - 1).max() < 0.1


def test_moments_that_noise_would_hide_are_left_out():
    X = long_tails(1000)
    bounds = {"a": (0, 60), "b": (0, 60)}
    few = PrivateBayesNet(bounds=bounds, epsilon=0.5).fit(X)
    assert not {"tails", "moments"} & set(few.sigma_)
    assert "second moments" not in str(few.privacy_)
    many = PrivateBayesNet(bounds=bounds, epsilon=20.0).fit(X)
    assert "moments" in many.sigma_
    assert "second moments" in str(many.privacy_)
