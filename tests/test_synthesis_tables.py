"""Several synthetic tables for inference, and the expected and measured errors of networks."""

import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skdirdp import PrivacyAccountant, PrivateBayesNet, PrivateBayesNetMLE, Schema
from skdirdp.bayes_net.clique_tree import choose_margins, expected_distance
from skdirdp.exceptions import BudgetExceededError, PrivacyLeakWarning
from skdirdp.inference import combine
from skdirdp.postprocessing import Noise, NoisyTable
from skdirdp.postprocessing.estimates import Scores, draw_counts

from .test_reporting import assert_loads_nothing

STATES = {"a": [0, 1], "b": [0, 1], "c": [0, 1, 2]}
EDGES = {"a": [], "b": ["a"], "c": ["b"]}
ODDS = 1.2  # log odds ratio of a and b


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    a = (rng.random(n) < 0.4).astype(int)
    b = (rng.random(n) < 1 / (1 + np.exp(0.5 - ODDS * a))).astype(int)
    c = (rng.random(n) < 0.3 + 0.4 * b).astype(int) + (rng.random(n) < 0.4)
    return pd.DataFrame({"a": a, "b": b, "c": c.astype(int)})


def networks(epsilon, **parameters):
    given = {"required": [(parent, node) for node, above in EDGES.items() for parent in above]}
    yield PrivateBayesNetMLE(EDGES, states=STATES, epsilon=epsilon, **parameters)
    yield PrivateBayesNet(states=STATES, epsilon=epsilon, constraints=given, **parameters)


def log_odds(table):
    counts = np.bincount(2 * table["a"] + table["b"], minlength=4).astype(float)
    value = np.log(counts[0] * counts[3] / counts[1] / counts[2])
    return value, np.sum(1 / counts)


def quietly(function, *arguments, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **more)


# Draws of counts --------------------------------------------------------------------


@pytest.mark.parametrize("noise", [Noise(9.0), Noise(9.0, is_laplace=True), Noise(8.0, 2.0)])
def test_true_counts_are_uniform_quantiles_of_their_draws(noise):
    rng = np.random.default_rng(1)
    truth = 60.0
    if noise.per_count:
        r, alpha = 0.5, 2.0  # variance alpha / r^2 in an empty cell, and 1 / r for each count
        noisy = (rng.gamma(r * truth + alpha, size=1000) - alpha) / r
    elif noise.is_laplace:
        noisy = truth + rng.laplace(scale=3 / np.sqrt(2), size=1000)
    else:
        noisy = truth + rng.normal(scale=3, size=1000)
    # One table with many cells of the same count: cells do not influence each other.
    (drawn,) = draw_counts([NoisyTable(noisy, noise, ("x",))], None, 200, rng)
    below = np.mean(drawn < truth, axis=0)
    assert stats.kstest(below, "uniform").statistic < 0.05


def test_drawn_tables_agree_on_margins_and_have_the_total():
    rng = np.random.default_rng(2)
    tables = [
        NoisyTable(np.array([610.0, 385.0]), Noise(100.0), ("a",)),
        NoisyTable(np.array([[490.0, 110.0], [85.0, 300.0]]), Noise(400.0), ("a", "b")),
        NoisyTable(np.array([[300.0, 260.0], [200.0, 215.0]]), Noise(400.0), ("b", "c")),
    ]
    one, two, three = draw_counts(tables, 1000.0, 500, rng)
    assert one.sum(axis=1) == pytest.approx(1000.0)
    assert two.sum(axis=2) == pytest.approx(one)
    assert two.sum(axis=1) == pytest.approx(three.sum(axis=2))
    # The average of two measurements of a margin: 1 / (1 / 100 + 1 / 800), and half of it with
    # the known total.
    assert one[:, 0].std() == pytest.approx(np.sqrt(1 / (1 / 100 + 1 / 800) / 2), rel=0.1)


def test_drawn_counts_are_not_negative():
    rng = np.random.default_rng(3)
    noisy = NoisyTable(rng.normal(0, 30, (4, 5)), Noise(900.0), ("a", "b"))
    (drawn,) = draw_counts([noisy], 50.0, 100, rng)
    assert (drawn >= 0).all()
    assert drawn.sum(axis=(1, 2)) == pytest.approx(50.0)


def covariance(counts, x, y):
    shares = counts / counts.sum(axis=(1, 2), keepdims=True)
    first, second = shares.sum(axis=2), shares.sum(axis=1)
    products = np.einsum("tij,i,j->t", shares, x, y)
    return products - (first @ x) * (second @ y)


NOISES = [Noise(16.0), Noise(16.0, is_laplace=True), Noise(16.0, 2.0)]


@pytest.mark.parametrize("noise", NOISES)
def test_scores_keep_the_covariances_of_tables_with_many_small_counts(noise):
    rng = np.random.default_rng(0)
    x, y = np.arange(21.0), np.arange(11.0)
    p = np.exp(
        -(((x[:, np.newaxis] - 10) / 4) ** 2) / 2 - (y - 2.5 - 0.25 * x[:, np.newaxis]) ** 2 / 6
    )
    truth = 1000 * p / p.sum()
    if noise.per_count:
        r, alpha = 0.5, 4.0
        noisy = (rng.gamma(r * truth + alpha) - alpha) / r
    elif noise.is_laplace:
        noisy = truth + rng.laplace(scale=4 / np.sqrt(2), size=truth.shape)
    else:
        noisy = truth + rng.normal(scale=4, size=truth.shape)
    table = NoisyTable(noisy, noise, ("x", "y"))
    scores = {"x": Scores(x), "y": Scores(y)}
    (drawn,) = draw_counts([table], 1000.0, 100, np.random.default_rng(1), scores)
    (without,) = draw_counts([table], 1000.0, 100, np.random.default_rng(1))
    assert (drawn >= 0).all()
    assert drawn.sum(axis=(1, 2)) == pytest.approx(1000.0)
    found, expected = covariance(drawn, x, y), covariance(truth[np.newaxis], x, y)[0]
    assert abs(found.mean() - expected) < 2.5 * found.std()
    # Without scores, all associations are closer to 0.
    assert covariance(without, x, y).mean() < 0.7 * expected


def test_draws_are_finite_if_nearly_all_records_have_one_of_very_different_numbers():
    scores = {"x": Scores(np.array([0.0, 1.0, 2.0, 3.0, 1e6]))}
    counts = np.zeros((5, 4))
    counts[0] = 8.0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        table = NoisyTable(counts + rng.normal(0, 2, counts.shape), Noise(4.0), ("x", "y"))
        (drawn,) = draw_counts([table], 32.0, 20, rng, scores)
        assert (drawn >= 0).all()
        assert drawn.sum(axis=(1, 2)) == pytest.approx(32.0)


def test_draws_of_merged_numbers_have_larger_covariances():
    rng = np.random.default_rng(0)
    values = np.array([0.0, 2.0, 3.0, 5.0, 8.0])
    scores = Scores.from_ranges(values, np.full(5, 0.7), np.full(5, 0.2))
    assert scores.inflation == pytest.approx(1 + 0.7 / np.var(values))
    counts = 5000 * np.outer(np.full(5, 0.2), np.full(3, 1 / 3))
    counts += 100 * np.outer(values - values.mean(), [-1, 0, 1])
    table = NoisyTable(counts, Noise(1e-6), ("x", "y"))
    (drawn,) = draw_counts([table], 5000.0, 2, rng, {"x": scores})
    found = covariance(drawn, values, np.array([-1.0, 0.0, 1.0]))
    before = covariance(counts[np.newaxis], values, np.array([-1.0, 0.0, 1.0]))
    assert found == pytest.approx(scores.inflation * before[0], rel=0.01)


def test_tables_with_too_many_cells_for_covariances_are_warned_of():
    table = NoisyTable(np.ones((200, 200)), Noise(1.0), ("x", "y"))
    scores = {"x": Scores(np.arange(200.0))}
    with pytest.warns(UserWarning, match="table of x, y has too many cells"):
        (drawn,) = draw_counts([table], None, 2, np.random.default_rng(0), scores)
    assert (drawn >= 0).all()


def test_draws_keep_means_of_numbers_by_category_and_missing_values():
    rng = np.random.default_rng(0)
    # Numbers 0 to 6 and missing ones, for four groups with different means and missing values.
    numbers = np.append(np.arange(7.0), np.nan)
    truth = np.exp(-((numbers[:-1] - np.array([[2.0], [3.0], [3.5], [4.0]])) ** 2))
    truth = np.column_stack([30 * truth, [5.0, 10.0, 20.0, 40.0]])
    table = NoisyTable(truth + rng.normal(scale=3, size=truth.shape), Noise(9.0), ("g", "x"))
    (drawn,) = draw_counts([table], truth.sum(), 400, rng, {"x": Scores(numbers)})
    for found, expected in (
        (drawn[:, :, -1], truth[:, -1]),
        (drawn[:, :, :-1] @ numbers[:-1], truth[:, :-1] @ numbers[:-1]),
    ):
        # The draws have the noise of the table and their own noise.
        assert np.abs((found.mean(axis=0) - expected) / found.std(axis=0)).max() < 3


# Several tables ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0, 1])
def test_intervals_from_several_tables_cover(kind):
    covered = []
    for run in range(60):
        model = list(networks(1.0))[kind].fit(records(1000, run))
        tables = quietly(model.sample_tables, 10, n=5000, random_state=run)
        values, variances = zip(*map(log_odds, tables), strict=True)
        found = quietly(combine, values, variances)
        covered.append(found.low <= ODDS <= found.high)
    assert np.mean(covered) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / 60)


def numbers(n, seed):
    rng = np.random.default_rng(seed)
    x = np.clip(np.rint(rng.normal(10, 4, n)), 0, 20).astype(int)
    y = np.clip(np.rint(2.5 + 0.25 * x + rng.normal(0, 1.7, n)), 0, 10).astype(int)
    return pd.DataFrame({"x": x, "y": y})


def slope(table):
    found = stats.linregress(table["x"], table["y"])
    return found.slope, found.stderr**2


def number_networks(epsilon):
    states = {"x": list(range(21)), "y": list(range(11))}
    given = {"required": [("x", "y")]}
    yield PrivateBayesNetMLE({"x": [], "y": ["x"]}, states=states, epsilon=epsilon)
    yield PrivateBayesNet(bounds={"x": (0, 20), "y": (0, 10)}, epsilon=epsilon, constraints=given)
    yield PrivateBayesNet(states=states, epsilon=epsilon, constraints=given)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_intervals_of_slopes_of_numbers_cover(kind):
    truth = slope(numbers(1_000_000, 0))[0]
    covered, off = [], []
    for run in range(40):
        model = list(number_networks(10.0))[kind].fit(numbers(1000, run + 1))
        tables = quietly(model.sample_tables, 10, n=5000, random_state=run)
        found = quietly(combine, *zip(*map(slope, tables), strict=True))
        covered.append(found.low <= truth <= found.high)
        off.append(found.value - truth)
    assert np.mean(covered) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / 40)
    assert abs(np.mean(off)) < 4 * np.std(off) / np.sqrt(40)


def test_merged_values_are_warned_of():
    X = numbers(1000, 0)
    for model in list(number_networks(0.1))[1:]:
        with pytest.warns(UserWarning, match="network merges many values"):
            model.fit(X).sample_tables(2, n=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in number_networks(10.0):
            model.fit(numbers(20_000, 0)).sample_tables(2, n=10)


def test_one_table_as_if_it_were_real_does_not_cover():
    covered = []
    for run in range(60):
        model = next(networks(0.3)).fit(records(1000, run))
        value, variance = log_odds(model.sample(1000, random_state=run))
        covered.append(abs(value - ODDS) < 1.96 * np.sqrt(variance))
    assert np.mean(covered) < 0.85


@pytest.mark.parametrize("kind", [0, 1])
def test_records_of_a_table_are_independent_given_its_parameters(kind):
    model = list(networks(1.0))[kind].fit(records(2000))
    (drawn, _) = model._draw_models(2, np.random.default_rng(0))
    shares = [drawn.sample(100, random_state=seed)["a"].mean() for seed in range(400)]
    p = drawn.probabilities_["a"][0, 1] if kind == 0 else np.mean(shares)
    assert np.mean(shares) == pytest.approx(p, abs=0.02)
    assert np.var(shares) == pytest.approx(p * (1 - p) / 100, rel=0.3)


def test_tables_with_a_target_are_drawn_from_the_network_alone():
    given = {"required": [("a", "b"), ("b", "c")]}
    model = PrivateBayesNet(states=STATES, target="b", epsilon=10.0, constraints=given)
    model.fit(records(5000))
    assert model._target_model_ is not None
    (drawn, _) = model._draw_models(2, np.random.default_rng(0))
    assert drawn._target_model_ is None
    assert model._target_model_ is not None
    # Independent draws of the target, too: an even sample would have nearly no variance.
    shares = [drawn.sample(100, random_state=seed)["b"].mean() for seed in range(400)]
    p = drawn.marginal("b")[1]
    assert np.mean(shares) == pytest.approx(p, abs=0.02)
    assert np.var(shares) == pytest.approx(p * (1 - p) / 100, rel=0.3)
    tables = model.sample_tables(10, random_state=0)
    values, variances = zip(*map(log_odds, tables), strict=True)
    found = combine(values, variances)
    assert found.low < ODDS < found.high


@pytest.mark.parametrize("kind", [0, 1])
def test_without_much_noise_parameters_vary_as_samples_do(kind):
    model = list(networks(1e4))[kind].fit(records(4000))
    drawn = model._draw_models(400, np.random.default_rng(0))
    deviation = np.std([each.probabilities_["a"][0, -1] for each in drawn])
    assert deviation == pytest.approx(np.sqrt(0.4 * 0.6 / 4000), rel=0.15)


def test_records_of_one_person_count_once():
    """The records of a person may be equal: three of them are one observation."""
    many, one = (
        PrivateBayesNetMLE(
            EDGES, states=STATES, epsilon=1e4, max_rows=rows, n_samples=4000 if rows > 1 else None
        ).fit(records(4000))
        for rows in (3, 1)
    )
    deviations = [
        np.std([each.probabilities_["a"][0, 1] for each in model._draw_models(400, rng)])
        for model, rng in ((many, np.random.default_rng(0)), (one, np.random.default_rng(0)))
    ]
    assert deviations[0] / deviations[1] == pytest.approx(np.sqrt(3), rel=0.2)


def test_tables_have_the_declared_types_and_sizes():
    X = records(3000).assign(age=np.random.default_rng(0).integers(18, 90, 3000))
    schema = Schema({**STATES, "age": (18, 90), "id": Schema.key()})
    model = PrivateBayesNet(schema, epsilon=3.0).fit(X.assign(id=range(3000)))
    tables = quietly(model.sample_tables, 3)
    assert [len(table) for table in tables] == [15_000] * 3
    assert tables[0]["age"].dtype == np.int64
    assert tables[0]["age"].between(18, 90).all()
    first, again = (quietly(model.sample_tables, 2, n=50, random_state=1) for _ in range(2))
    assert all(a.equals(b) for a, b in zip(first, again, strict=True))
    assert not first[0].equals(first[1])


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_tables_survive_pickling_and_change_nothing(adjacency):
    model = PrivateBayesNet(states=STATES, adjacency=adjacency).fit(records(2000))
    before = model.marginal(["a", "b", "c"])
    copied = pickle.loads(pickle.dumps(model))
    first, again = (quietly(each.sample_tables, 2, random_state=0) for each in (model, copied))
    assert first[0].equals(again[0])
    assert len(first[0]) / 5 == pytest.approx(model.n_records_, rel=0.05)
    assert model.marginal(["a", "b", "c"]).equals(before)


def test_only_noisy_counts_are_kept():
    X = records(2000)
    model = PrivateBayesNet(states=STATES, epsilon=1.0).fit(X)
    kept = [*model._measurements_, *model._column_counts_.values()]
    for each in kept:
        exact = X.groupby(list(each.nodes)).size()
        cells = np.ravel(each.values)
        # Noise is on a grid much finer than 1, so no count is whole except by chance.
        assert np.mean(cells == np.rint(cells)) < 0.5, exact.index.names


def test_much_noise_and_missing_tables_are_warned_of():
    noisy = PrivateBayesNetMLE(EDGES, states=STATES, epsilon=0.1).fit(records(300))
    with pytest.warns(UserWarning, match="records for each cell and standard deviation"):
        noisy.sample_tables(2, n=10)
    learnt = PrivateBayesNet(states=STATES, epsilon=50.0, max_parents=1).fit(records(20_000))
    with pytest.warns(UserWarning, match="no table of 1 pair of columns"):
        learnt.sample_tables(2, n=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fine = PrivateBayesNetMLE(EDGES, states=STATES, epsilon=1.0).fit(records(20_000))
        fine.sample_tables(2, n=10)


def test_numbers_of_tables_and_records_are_checked():
    model = PrivateBayesNet(states=STATES).fit(records(1000))
    with pytest.raises(ValueError, match="n_tables must be at least 2; got 1"):
        model.sample_tables(1)
    with pytest.raises(ValueError, match="n must be at least 1; got 0"):
        model.sample_tables(2, n=0)
    plain = PrivateBayesNetMLE(EDGES, states=STATES, postprocess=False).fit(records(1000))
    with pytest.raises(ValueError, match="postprocess=True"):
        plain.sample_tables(2)


# Quality ------------------------------------------------------------------------------


def test_expected_errors_are_those_of_simulated_noise():
    rng = np.random.default_rng(0)
    deviations = np.array([3.0, 5.0, 8.0])
    simulated = np.abs(rng.normal(scale=deviations, size=(20_000, 3))).sum(axis=1) / 2 / 500
    assert expected_distance(deviations, 500) == pytest.approx(simulated.mean(), rel=0.02)
    assert expected_distance(deviations, 1) == 1.0


def test_planned_errors_need_no_data_and_agree_with_those_of_a_fit():
    model = PrivateBayesNet(states=STATES, epsilon=2.0)
    planned = model.planned_quality(3000)
    found = model.fit(records(3000)).quality()
    # A fit has both the column counts and the tables of cliques, so its errors are smaller.
    assert (found.summary.loc[1, "expected"]) <= planned.summary.loc[1, "expected"]
    assert planned.summary["margins"].to_dict() == {1: 3, 2: 3, 3: 1}
    assert planned.warnings == ()


def test_a_fit_has_at_most_the_expected_error_on_average():
    X = records(3000)
    expected, exact = [], []
    for _ in range(20):
        model = PrivateBayesNet(states=STATES, epsilon=1.0).fit(X)
        expected.append(model.quality().summary.loc[1, "expected"])
        shares = model.empirical_marginals(X, [("a",), ("b",), ("c",)])
        exact += [np.abs(model.marginal(list(k)) - p).sum() / 2 for k, p in shares.items()]
    assert 0.2 * np.mean(expected) < np.mean(exact) < 1.3 * np.mean(expected)


def test_measured_errors_are_distances_from_the_records():
    X = records(3000)
    model = PrivateBayesNet(states=STATES, epsilon=1.0).fit(X)
    exact = model.quality(X, measure_epsilon=np.inf).errors.set_index("columns")["measured"]
    shares = model.empirical_marginals(X, list(exact.index))
    for columns, value in exact.items():
        distance = np.abs(model.marginal(list(columns)).to_numpy() - shares[columns].ravel()).sum()
        # Expected counts are rounded to whole numbers.
        assert value == pytest.approx(distance / 2, abs=0.5 * shares[columns].size / 3000)
    runs = [model.quality(X, measure_epsilon=1.0).errors for _ in range(40)]
    off = np.array([run["measured"].to_numpy() - exact.to_numpy() for run in runs])
    assert np.std(off / runs[0]["noise"].to_numpy()) == pytest.approx(1.0, rel=0.2)


def test_a_record_changes_a_measured_distance_by_at_most_two_counts():
    X = records(200)
    model = PrivateBayesNet(states=STATES, epsilon=50.0).fit(X)  # no states are grouped
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(200):
        other = X.copy()
        other.iloc[rng.integers(200)] = [rng.integers(2), rng.integers(2), rng.integers(3)]
        for nodes in (("a",), ("a", "b"), ("a", "b", "c")):
            found = [
                model._distance(nodes, {k: each[k].to_numpy() for k in nodes}, 200)
                for each in (X, other)
            ]
            largest = max(largest, abs(found[0] - found[1]))
    assert largest == 2.0


def test_measured_errors_are_charged_once_and_stated_apart():
    X, accountant = records(1000), PrivacyAccountant(epsilon=1.2, delta=1e-4)
    model = PrivateBayesNet(states=STATES, epsilon=1.0, accountant=accountant, label="course")
    model.fit(X)
    model.quality()
    assert len(accountant) == 1
    for wrong in ({"X": X}, {"measure_epsilon": 0.1}):
        with pytest.raises(ValueError, match="must be given together"):
            model.quality(**wrong)
    with pytest.raises(ValueError, match="measure_epsilon must be"):
        model.quality(X, measure_epsilon=0.0)
    with pytest.raises(ValueError, match="states must name columns of X"):
        model.quality(X[["a", "b"]], measure_epsilon=0.1)
    assert len(accountant) == 1
    found = model.quality(X, measure_epsilon=0.1)
    assert len(accountant) == 2
    assert found.measured_privacy.epsilon == 0.1
    assert found.privacy is model.privacy_
    assert accountant.history()[-1]["label"] == "course, quality"
    with pytest.raises(BudgetExceededError):
        model.quality(X, measure_epsilon=1.0)


def test_measured_errors_do_not_repeat_the_noise_of_a_seeded_fit():
    X = records(1000)
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        model = PrivateBayesNet(states=STATES, random_state=0).fit(X)
    first, second = (model.quality(X, measure_epsilon=1.0).errors["measured"] for _ in range(2))
    assert (first != second).all()


def test_columns_without_information_are_warned_of():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.integers(0, 2, 3000),
            "ticket": [f"t{i}" for i in range(3000)],
            "same": ["x"] * 3000,
            "absent": np.where(rng.random(3000) < 0.9, None, "y"),
        }
    )
    schema = Schema(
        {"a": [0, 1], "ticket": Schema.names(), "same": ["x", "z"], "absent": ["y", "z"]}
    )
    found = "\n".join(PrivateBayesNet(schema, epsilon=3.0).fit(X).quality().warnings)
    assert "Most values of 'ticket' are 'other' (100%)" in found
    assert "'same' carries nothing" in found
    assert "Most values of 'absent' are missing" in found


def test_budgets_that_are_too_small_are_warned_of_before_any_data():
    model = PrivateBayesNet({**STATES, "city": Schema.names()}, epsilon=0.1)
    assert "too small to say anything:" in model.planned_quality(200).warnings[0]
    n_records = int(12 * model.planned_sigma(4, 1)["cliques"])
    assert "about dependences" in model.planned_quality(n_records).warnings[0]
    found = model.set_params(epsilon=10.0).planned_quality(10_000).warnings
    assert len(found) == 1
    assert "'city' are found privately" in found[0]
    with pytest.raises(ValueError, match="schema, or states and bounds, must be given"):
        PrivateBayesNet().planned_quality(100)


def test_many_margins_are_chosen_by_public_sizes():
    sizes = dict.fromkeys(range(60), 2)
    chosen = choose_margins(sizes, 3, 500, 10_000)
    assert 450 < len(chosen) <= 500
    assert chosen == choose_margins(sizes, 3, 500, 10_000)
    assert choose_margins({"x": 200, "y": 200}, 2, 500, 10_000) == []


def test_the_page_of_the_quality_has_all_columns_and_loads_nothing(tmp_path):
    X = records(1000).rename(columns={"a": "<b>a</b>"})
    states = {"<b>a</b>": [0, 1], "b": [0, 1], "c": [0, 1, 2]}
    model = PrivateBayesNet(states=states).fit(X)
    found = model.quality(X, measure_epsilon=0.5)
    page = Path(found.report(tmp_path / "page.html")).read_text(encoding="utf-8")
    assert_loads_nothing(page)
    assert "<b>a" not in page
    assert "&lt;b&gt;a" in page
    assert "The measured errors were computed from 1000 records" in page
    assert "<b>a" not in found._repr_html_()
    assert "expected" in str(found)
    planned = PrivateBayesNet(states=states).planned_quality(1000).to_html()
    assert_loads_nothing(planned)
    assert "Planned quality" in planned
