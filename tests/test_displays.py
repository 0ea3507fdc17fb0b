"""Displays draw released values and exact costs."""

import ast
import sys
from datetime import timezone
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skdirdp.displays
from skdirdp import (
    BudgetExceededError,
    DirichletCategoricalNB,
    DirichletHistogramTransformer,
    PrivacyAccountant,
    PrivateBayesNet,
    PrivateBayesNetMLE,
    PrivateDirichletPosterior,
    PrivateTableClassifier,
    Schema,
)
from skdirdp.accounting import ApproximateDP, Composition
from skdirdp.displays import (
    BayesNetDisplay,
    BudgetCurveDisplay,
    EffectsDisplay,
    ForestDisplay,
    HistogramDisplay,
    LedgerDisplay,
    MarginsDisplay,
    PrivacyProfileDisplay,
    TradeOffDisplay,
)
from skdirdp.displays.network import layered
from skdirdp.displays.tables import category_texts
from skdirdp.inference import Estimate
from skdirdp.mechanisms import DirichletMechanism, GaussianMechanism

plt = pytest.importorskip("matplotlib.pyplot")

INF = float("inf")
DIRICHLET = DirichletMechanism(r=0.05, alpha=2.0)
GAUSSIAN = GaussianMechanism(sigma=30.0)


def records(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return np.column_stack([np.where(rng.random(n) < 0.8, y, 1 - y), rng.integers(0, 3, n)]), y


def classifier(**parameters):
    return DirichletCategoricalNB(**{"classes": [0, 1], "n_categories": 3, **parameters})


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def draw_histogram(**options):
    X = np.random.default_rng(0).normal(size=(500, 1))
    model = DirichletHistogramTransformer(bounds=(-5, 5), n_fine_bins=20).fit(X)
    return HistogramDisplay.from_estimator(model, **options)


def draw_profile(**options):
    return PrivacyProfileDisplay.from_mechanism(DIRICHLET, **options)


def draw_curve(**options):
    return BudgetCurveDisplay.from_results([1, 2], [0.5, 0.7], **options)


def draw_ledger(**options):
    return LedgerDisplay.from_accountant(charged("ab"), **options)


def draw_network(**options):
    return BayesNetDisplay.from_estimator(network(), **options)


def draw_margins(**options):
    model, X = learnt()
    return MarginsDisplay.from_estimator(model, X, **options)


EVERY_DISPLAY = [
    draw_histogram,
    draw_profile,
    draw_curve,
    draw_ledger,
    draw_network,
    draw_margins,
]


# All displays -----------------------------------------------------------------------


@pytest.mark.parametrize("draw", EVERY_DISPLAY)
def test_a_display_draws_on_new_axes_or_on_those_given(draw):
    display = draw()
    assert display.figure_ is display.ax_.figure
    _, ax = plt.subplots()
    assert draw(ax=ax).ax_ is ax
    _, other = plt.subplots()
    assert display.plot(ax=other) is display
    assert display.ax_ is other
    display.figure_.canvas.draw()


@pytest.mark.parametrize("draw", EVERY_DISPLAY)
def test_a_display_has_a_title_and_room_for_its_labels(draw):
    display = draw()
    figure, ax = display.figure_, display.ax_
    assert ax.get_title()
    figure.canvas.draw()
    inside = figure.bbox
    legend = [ax.get_legend()] if ax.get_legend() else []
    labels = [label for label in (ax.title, ax.xaxis.label, ax.yaxis.label) if label.get_text()]
    for artist in [*labels, *legend]:
        box = artist.get_window_extent()
        assert inside.x0 <= box.x0 <= box.x1 <= inside.x1
        assert inside.y0 <= box.y0 <= box.y1 <= inside.y1
    _, titled = plt.subplots()
    titled.set_title("mine")
    assert draw(ax=titled).ax_.get_title() == "mine"


def test_long_labels_of_intervals_are_wrapped_and_not_cut():
    names = [f"Department of {part} - Department of surgery" for part in ("neurology", "medicine")]
    estimate = Estimate(np.array([0.1, 0.2]), np.array([0.0, 0.1]), np.array([0.2, 0.3]), 0.95)
    name = "difference of the share of records with readmitted = 1, by department"
    display = ForestDisplay.from_estimates(estimate, names, name=name)
    display.figure_.canvas.draw()
    ax, inside = display.ax_, display.figure_.bbox
    for artist in [ax.xaxis.label, *ax.get_yticklabels()]:
        box = artist.get_window_extent()
        assert inside.x0 <= box.x0 <= box.x1 <= inside.x1
        assert inside.y0 <= box.y0 <= box.y1 <= inside.y1
    assert " ".join(ax.get_xlabel().split()) == name


def test_axes_start_at_zero_and_bands_of_accuracies_end_at_one():
    assert draw_profile().ax_.get_xlim()[0] == 0
    attacks = TradeOffDisplay.from_mechanism(DIRICHLET).ax_
    assert attacks.get_xlim() == attacks.get_ylim() == (0, 1)
    curve = BudgetCurveDisplay.from_results([1, 2], [[0.7, 1.0], [1.0, 1.0]], score_name="accuracy")
    (band,) = curve.ax_.collections
    assert band.get_paths()[0].vertices[:, 1].max() == 1


@pytest.mark.parametrize("draw", EVERY_DISPLAY)
def test_without_matplotlib_the_error_names_the_extra_to_install(draw, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"matplotlib is needed.*pip install matplotlib"):
        draw()


@pytest.mark.parametrize(
    "path", sorted(Path(skdirdp.displays.__file__).parent.glob("*.py")), ids=lambda path: path.name
)
def test_a_display_uses_only_public_attributes(path):
    private = [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]
    assert private == []


# HistogramDisplay ------------------------------------------------------------------


class FittedHistogram(BaseEstimator):
    """The attributes of a fitted transformer that the display uses."""

    def __init__(self, shares, edges, band):
        self.histogram_ = [np.ones(1), np.array(shares)]
        self.fine_edges_ = [np.array([-np.inf, np.inf]), np.array(edges)]
        self.n_features_in_ = 2
        self.band = band

    def fit(self, X):
        raise NotImplementedError

    def histogram_band(self, feature, confidence, starts):
        assert feature == 1
        return None if self.band is None else self.band(confidence, starts)


def test_a_histogram_is_drawn_from_public_attributes_alone():
    def band(confidence, starts):
        assert confidence == 0.9
        np.testing.assert_array_equal(starts, [0, 2])
        return np.array([0.2, 0.4]), np.array([0.6, 0.9])

    model = FittedHistogram([0.1, 0.3, 0.2, 0.4], [0.0, 1.0, 2.0, 3.0, 4.0], band)
    display = HistogramDisplay.from_estimator(model, 1, confidence=0.9, max_bins=2)
    np.testing.assert_array_equal(display.edges, [0, 2, 4])
    np.testing.assert_allclose(display.density, [0.2, 0.3])
    np.testing.assert_allclose(display.lower, [0.1, 0.2])
    np.testing.assert_allclose(display.upper, [0.3, 0.45])
    with pytest.raises(ValueError, match="feature x0 is constant"):
        HistogramDisplay.from_estimator(model, 0)


def test_without_a_known_band_a_histogram_is_drawn_alone():
    model = FittedHistogram([0.4, 0.6], [0.0, 1.0, 2.0], None)
    display = HistogramDisplay.from_estimator(model, 1)
    assert display.lower is None
    assert display.upper is None


def histogram_of(frame, **parameters):
    bounds = [(-6, 6), (0, 200)]
    return DirichletHistogramTransformer(bounds=bounds, encode="ordinal", **parameters).fit(frame)


def columns(n=2000):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(size=n), "b": rng.lognormal(1, 1, n)})


def test_a_histogram_is_drawn_as_released_within_its_band():
    model = histogram_of(columns(), n_fine_bins=32)
    display = HistogramDisplay.from_estimator(model, feature="b", confidence=0.9)
    assert display.ax_.get_xlabel() == "b"
    np.testing.assert_allclose(display.density, model.histogram_[1] / np.diff(display.edges))
    assert np.all(display.lower <= display.density + 1e-9)
    assert np.all(display.density <= display.upper + 1e-9)
    with pytest.raises(ValueError, match="feature must be a name seen during fit; got 'z'"):
        HistogramDisplay.from_estimator(model, feature="z")


def test_many_narrow_bins_are_drawn_together():
    display = HistogramDisplay.from_estimator(histogram_of(columns()), max_bins=40)
    assert len(display.density) <= 40
    assert display.density @ np.diff(display.edges) == pytest.approx(1)


def test_a_histogram_with_the_mechanism_of_least_divergence_has_a_band():
    model = histogram_of(columns(), mechanism="auto")
    assert model.privacy_.mechanisms[0][0].name != "dirichlet"
    display = HistogramDisplay.from_estimator(model)
    assert np.all(display.lower <= display.upper)
    assert np.mean((display.lower <= display.density) & (display.density <= display.upper)) > 0.95


# TradeOffDisplay ---------------------------------------------------------------------


def test_the_trade_off_is_that_of_the_release():
    rates, bounds = GAUSSIAN.trade_off()
    display = TradeOffDisplay.from_mechanism(GAUSSIAN, name="noise")
    np.testing.assert_array_equal(display.line_.get_data(), (rates, bounds))
    accountant = PrivacyAccountant(epsilon=10.0, adaptive=False)
    accountant.charge(GAUSSIAN)
    by_accountant = TradeOffDisplay.from_accountant(accountant)
    np.testing.assert_allclose(by_accountant.true_positive_rate, bounds)
    twice = TradeOffDisplay.from_mechanism(GAUSSIAN, releases=2, ax=display.ax_)
    assert np.all(twice.true_positive_rate >= bounds)
    with pytest.raises(TypeError, match="fitted private estimator"):
        TradeOffDisplay.from_estimator(CategoricalNB().fit([[0], [1]], [0, 1]))


# PrivacyProfileDisplay -------------------------------------------------------------


def gaussian_delta(epsilon, mu):
    """Balle and Wang (2018), Theorem 5."""
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def test_the_profile_of_gaussian_releases_is_the_closed_form():
    display = PrivacyProfileDisplay.from_mechanism(GAUSSIAN, releases=50)
    mu = np.sqrt(50 * 2) / 30.0  # a replaced record moves two counts
    expected = gaussian_delta(display.epsilon, mu)
    np.testing.assert_allclose(display.delta, expected, rtol=1e-4, atol=1e-13)
    np.testing.assert_array_equal(display.line_.get_xydata()[:, 1], display.delta)
    assert display.ax_.get_yscale() == "log"
    assert display.epsilon[0] == 0
    assert display.delta[-1] == pytest.approx(1e-10, rel=1e-3)


def test_the_profile_of_one_release_is_the_mechanisms_own():
    display = PrivacyProfileDisplay.from_mechanism(DIRICHLET, epsilons=[0.3, 0.1])
    np.testing.assert_array_equal(display.epsilon, [0.1, 0.3])
    np.testing.assert_array_equal(display.delta, DIRICHLET.delta([0.1, 0.3]))


def test_the_profile_of_a_fit_passes_just_under_its_marked_budget():
    X, y = records()
    model = classifier(epsilon=0.7, delta=1e-6).fit(X, y)
    display = PrivacyProfileDisplay.from_estimator(model)
    assert display.budget == (0.7, 1e-6)
    at_budget = PrivacyProfileDisplay.from_estimator(model, epsilons=[0.7]).delta[0]
    assert 0.99e-6 < at_budget <= 1e-6
    assert texts(display.ax_) == ["DirichletCategoricalNB", "budget (0.7, 1e-06)"]
    assert display.epsilon[-1] > 0.7


def test_an_rdp_fit_has_a_profile_without_a_mark():
    X, y = records()
    model = classifier(epsilon=0.5, order=4.0).fit(X, y)
    display = PrivacyProfileDisplay.from_estimator(model)
    assert display.budget is None
    expected = Composition(model.privacy_.mechanisms).delta(display.epsilon)
    np.testing.assert_array_equal(display.delta, expected)


def test_the_profile_of_a_posterior_is_that_of_its_pure_claim():
    posterior = PrivateDirichletPosterior(mechanism="lshist", epsilon=1.0).fit_counts([7, 2, 1])
    epsilons = np.linspace(0, 1.2, 7)
    display = PrivacyProfileDisplay.from_estimator(posterior, epsilons=epsilons)
    # Randomised response: Kairouz, Oh and Viswanath (2015).
    expected = np.maximum(np.e - np.exp(epsilons), 0) / (1 + np.e)
    np.testing.assert_allclose(display.delta, expected, rtol=1e-9, atol=1e-15)
    assert display.budget == (1.0, 0.0)


def test_the_profile_of_an_accountant_is_that_of_all_charges():
    accountant = PrivacyAccountant(epsilon=2.0, delta=1e-6, adaptive=False)
    accountant.charge(DIRICHLET, releases=3)
    accountant.charge(GAUSSIAN)
    display = PrivacyProfileDisplay.from_accountant(accountant)
    expected = Composition([(DIRICHLET, 3), (GAUSSIAN, 1)]).delta(display.epsilon)
    np.testing.assert_allclose(display.delta, expected, rtol=1e-9)
    assert display.budget == (2.0, 1e-6)


def test_the_profile_of_an_adaptive_limit_bounds_all_admitted_charges():
    accountant = PrivacyAccountant(epsilon=2.0, delta=1e-6)
    accountant.charge(DIRICHLET, releases=3)
    first = PrivacyProfileDisplay.from_accountant(accountant)
    assert np.interp(2.0, first.epsilon, first.delta) == pytest.approx(1e-6, rel=0.1)
    # It is above the charges, and further charges do not change it.
    assert (Composition([(DIRICHLET, 3)]).delta(first.epsilon) <= first.delta).all()
    accountant.charge(GAUSSIAN)
    second = PrivacyProfileDisplay.from_accountant(accountant, epsilons=first.epsilon)
    np.testing.assert_array_equal(first.delta, second.delta)
    assert "all admitted charges" in texts(second.ax_)


def test_the_profile_of_an_accountant_marks_the_total_and_ends_where_delta_is_negligible():
    accountant = PrivacyAccountant(epsilon=20.0, delta=1e-6, adaptive=False)
    accountant.charge(GAUSSIAN)
    display = PrivacyProfileDisplay.from_accountant(accountant)
    assert display.total == (accountant.total(), 1e-6)
    assert any(text.startswith("total (") for text in texts(display.ax_))
    assert display.delta.min() > 1e-11
    # Past a mark that is itself lower than that
    tiny = PrivacyAccountant(epsilon=20.0, delta=1e-12, adaptive=False)
    tiny.charge(GAUSSIAN)
    assert 1e-15 < PrivacyProfileDisplay.from_accountant(tiny).delta.min() < 1e-12
    # An RDP total is no point of the profile
    renyi = PrivacyAccountant(epsilon=2.0, order=4.0)
    renyi.charge(GAUSSIAN)
    assert PrivacyProfileDisplay.from_accountant(renyi).total is None


def test_of_disjoint_parts_the_profile_shows_the_worst():
    accountant = PrivacyAccountant()
    parts = accountant.parallel("region", split_by="position")
    parts["north"].charge(DIRICHLET, releases=2)
    parts["south"].charge(GaussianMechanism(sigma=25.0))
    display = PrivacyProfileDisplay.from_accountant(accountant)
    alone = [Composition([(DIRICHLET, 2)]), Composition([(GaussianMechanism(sigma=25.0), 1)])]
    worst = np.max([each.delta(display.epsilon) for each in alone], axis=0)
    np.testing.assert_allclose(display.delta, worst, rtol=1e-9)


def test_a_guarantee_that_may_fail_is_drawn_down_to_its_failure():
    display = PrivacyProfileDisplay.from_mechanism(ApproximateDP(0.5, 1e-4))
    assert display.delta[-1] == pytest.approx(1e-4, rel=0.2)


def test_without_privacy_there_is_no_profile():
    X, y = records()
    with pytest.raises(ValueError, match=r"epsilon must be finite for a profile; .*epsilon=inf"):
        PrivacyProfileDisplay.from_estimator(classifier(epsilon=INF).fit(X, y))
    with pytest.raises(ValueError, match="released without noise"):
        PrivacyProfileDisplay.from_mechanism(GaussianMechanism(sigma=0.0))
    with pytest.raises(ValueError, match="at least one release or charge; got none"):
        PrivacyProfileDisplay.from_accountant(PrivacyAccountant())
    with pytest.raises(TypeError, match=r"private estimator.*got a CategoricalNB"):
        PrivacyProfileDisplay.from_estimator(CategoricalNB().fit(X, y))
    with pytest.raises(ValueError, match="releases must be at least 1; got 0"):
        PrivacyProfileDisplay.from_mechanism(DIRICHLET, releases=0)
    with pytest.raises(ValueError, match="epsilons must be at least 0; got -1"):
        PrivacyProfileDisplay.from_mechanism(DIRICHLET, epsilons=[-1.0, 1.0])


# EffectsDisplay --------------------------------------------------------------------


def sales():
    """Records with many categories, numbers of different sizes, and dates; and their schema."""
    rng = np.random.default_rng(0)
    n = 4000
    code = rng.integers(0, 70, n)
    products = [f"a product of the {k}th group with a long name" for k in range(70)]
    days = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3600, n), "D")
    X = pd.DataFrame({"product": np.array(products)[code], "day": days})
    X = X.assign(price=rng.lognormal(8, 2, n), band=rng.choice(["$0-$9", "$10-$99", "more"], n))
    X["late"] = (rng.random(n) < 1 / (1 + np.exp(-np.sin(code)))).astype(int)
    domains = {"product": products, "day": ("2015-01-01", "2024-12-31"), "price": (0.0, 1e5)}
    return X, Schema({**domains, "band": ["$0-$9", "$10-$99", "more"], "late": [0, 1]})


def assert_apart(texts, figure):
    """Assert that texts do not overlap each other, and are not cut at the edge of the figure."""
    boxes = np.array([text.get_window_extent().extents for text in texts])
    assert np.all(boxes[:, :2] >= 0)
    assert np.all(boxes[:, 2:] <= figure.bbox.size)
    low = np.maximum(boxes[:, None, :2], boxes[:, :2])
    high = np.minimum(boxes[:, None, 2:], boxes[:, 2:])
    overlapping = np.all(low < high, axis=2)
    np.testing.assert_array_equal(overlapping, np.eye(len(texts), dtype=bool))


def test_the_labels_of_effects_do_not_overlap_and_are_not_cut():
    X, schema = sales()
    model = PrivateTableClassifier(schema, epsilon=10.0).fit(X, y="late")
    display = EffectsDisplay.from_estimator(model)
    display.figure_.canvas.draw()
    labels = [label for axis in display.axes_ for label in axis.get_yticklabels()]
    assert_apart(labels + [axis.title for axis in display.axes_], display.figure_)
    drawn = {label.get_text().replace("\n", " ") for label in labels}
    assert {"$0-$9", "(missing)"} <= drawn
    assert not any("…" in text for text in drawn)


def test_only_the_largest_effects_of_many_categories_are_drawn():
    effects = pd.Series(np.linspace(-1, 2, 70), index=[f"P{k}" for k in range(70)])
    display = EffectsDisplay({"product": effects}, {"product": effects * 0}, 1, max_categories=3)
    (axis,) = display.plot().axes_
    assert [label.get_text() for label in axis.get_yticklabels()] == ["P69", "P68", "P67"]
    np.testing.assert_allclose([bar.get_width() for bar in axis.patches], effects.iloc[:-4:-1])
    assert axis.get_title() == "product\n(67 smaller effects are left out)"
    assert axis.get_xlim()[0] <= 0
    few = EffectsDisplay({"product": effects[:3]}, {"product": effects[:3] * 0}, 1).plot()
    assert [label.get_text() for label in few.axes_[0].get_yticklabels()] == ["P0", "P1", "P2"]
    model = PrivateTableClassifier(sales()[1]).fit(sales()[0], y="late")
    with pytest.raises(ValueError, match="max_categories must be at least 1; got 0"):
        EffectsDisplay.from_estimator(model, max_categories=0)


def test_edges_of_bins_are_rounded_as_far_as_they_stay_distinct():
    def texts(*edges):
        bins = [pd.Interval(*ends, closed="left") for ends in pairwise(edges)]
        return category_texts(bins, digits=3)

    assert texts(0.0, 0.12345678, 1234.5678) == ["0 to below 0.123", "0.123 to below 1230"]
    assert texts(1234.1, 1234.2, 2e5) == ["1234.1 to below 1234.2", "1234.2 to below 200000"]
    assert texts(0.1, np.nextafter(0.1, 1)) == ["0.10000000000000001 to below 0.10000000000000002"]
    assert texts(18, 12345) == ["18 to below 12345"]


# BudgetCurveDisplay ----------------------------------------------------------------


def curve(model, **parameters):
    X, y = records()
    held_out = {"X_test": X[800:], "y_test": y[800:]}
    return BudgetCurveDisplay.from_estimator(model, X[:800], y[:800], **held_out, **parameters)


def test_a_curve_charges_every_fit():
    accountant = PrivacyAccountant()
    display = curve(classifier(accountant=accountant), epsilons=[1.0, 0.5, 3.0], n_repeats=2)
    assert len(accountant) == 6
    np.testing.assert_array_equal(display.epsilons, [0.5, 1.0, 3.0])
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.get_ylabel() == "accuracy"


def test_the_reference_is_the_model_without_privacy_and_is_charged_as_such():
    X, y = records()
    plain = CategoricalNB(min_categories=3).fit(X[:800], y[:800]).score(X[800:], y[800:])
    accountant = PrivacyAccountant()
    private = classifier(accountant=accountant)
    assert curve(private, epsilons=[1], n_repeats=1, reference=True).reference == plain
    assert accountant.total() == INF
    limited = classifier(accountant=PrivacyAccountant(epsilon=50.0))
    with pytest.raises(BudgetExceededError):
        curve(limited, epsilons=[1], n_repeats=1, reference=True)
    assert curve(classifier(), epsilons=[1], n_repeats=1, reference=0.9).reference == 0.9


@pytest.mark.filterwarnings("ignore::skdirdp.exceptions.PrivacyLeakWarning")
def test_repeats_differ_in_their_noise_and_a_seed_repeats_the_curve():
    def draw():
        seeded = classifier(random_state=3)
        return curve(seeded, epsilons=[0.05], n_repeats=4, scoring="neg_log_loss")

    first, second = draw(), draw()
    assert first.spread[0] > 0
    np.testing.assert_array_equal(first.mean, second.mean)
    assert first.ax_.get_ylabel() == "neg log loss"


def test_a_curve_of_a_network_needs_no_target():
    X = pd.DataFrame(records()[0], columns=["a", "b"])
    model = PrivateBayesNetMLE([("a", "b")], states={"a": [0, 1, 2], "b": [0, 1, 2]})
    display = BudgetCurveDisplay.from_estimator(
        model, X[:800], X_test=X[800:], epsilons=[0.5, 5], n_repeats=2
    )
    assert np.all(display.mean < 0)  # log-likelihoods
    assert display.ax_.get_ylabel() == "score"


def test_the_budget_may_be_that_of_a_step():
    model = make_pipeline(FunctionTransformer(), classifier())
    scorer = make_scorer(accuracy_score)
    name = "dirichletcategoricalnb__epsilon"
    display = curve(model, epsilons=[2], n_repeats=1, param_name=name, scoring=scorer)
    assert display.mean[0] > 0.5
    with pytest.raises(ValueError, match=r"param_name must be .*; got 'epsilon'"):
        curve(model, epsilons=[2])


def test_results_from_elsewhere_are_drawn_with_their_mean_and_spread():
    scores = np.array([[0.5, 0.7], [0.8, 0.9]])
    display = BudgetCurveDisplay.from_results([10, 1], scores, reference=0.95, name="mine")
    np.testing.assert_allclose(display.mean, [0.85, 0.6])
    np.testing.assert_allclose(display.spread, [0.05, 0.1])
    np.testing.assert_allclose(display.line_.get_xydata(), [[1, 0.85], [10, 0.6]])
    assert texts(display.ax_) == ["mine", "without privacy"]
    given = BudgetCurveDisplay.from_results([1, 10], [0.6, 0.85], [0.2, 0.1])
    np.testing.assert_array_equal(given.spread, [0.2, 0.1])


def test_a_budget_curve_refuses_invalid_input():
    with pytest.raises(ValueError, match="epsilons must be greater than 0; got 0"):
        curve(classifier(), epsilons=[0.0, 1.0])
    with pytest.raises(ValueError, match="epsilons must be one or more finite numbers"):
        curve(classifier(), epsilons=[1.0, INF])
    with pytest.raises(ValueError, match="n_repeats must be at least 1; got 0"):
        curve(classifier(), n_repeats=0)
    with pytest.raises(ValueError, match=r"row for each of the 2 epsilons; got shape \(3,\)"):
        BudgetCurveDisplay.from_results([1, 2], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"spread must have shape \(2,\); got \(1,\)"):
        BudgetCurveDisplay.from_results([1, 2], [0.1, 0.2], [0.1])


# Methods of an accountant for displays ------------------------------------------------


def test_the_running_total_is_the_composition_of_the_charges_so_far():
    accountant = charged("abc", epsilon=2.0, delta=1e-6, adaptive=False)
    exact = [Composition([(DIRICHLET, n)]) for n in (1, 3, 6)]
    for delta in (None, 1e-6, 1e-3):
        expected = [each.epsilon(delta or 1e-6) for each in exact]
        np.testing.assert_allclose(accountant.running_total(delta), expected, rtol=1e-9)
    assert accountant.running_total()[-1] == accountant.total()
    assert accountant.running_total(after=[3, np.int8(1)]) == accountant.running_total()[::2]
    assert PrivacyAccountant().running_total() == []
    at_order = charged("abc", epsilon=2.0, order=6.0)
    np.testing.assert_allclose(at_order.running_total(), np.array([1, 3, 6]) * DIRICHLET.rdp(6.0))
    assert at_order.running_total(1e-5)[-1] == at_order.total(1e-5)
    with pytest.raises(ValueError, match="after must be at most the number of charges, 3; got 4"):
        accountant.running_total(after=[1, 4])
    with pytest.raises(ValueError, match="after must be at least 1; got 0"):
        accountant.running_total(after=[0])
    with pytest.raises(ValueError, match="delta must be greater than 0"):
        accountant.running_total(0.0)


def test_the_compositions_of_an_accountant_hold_every_charge():
    accountant = charged("ab")
    (everything,) = accountant.compositions()
    assert everything.epsilon(1e-5) == accountant.total(1e-5)
    assert everything.rdp(4.0) == pytest.approx(3 * DIRICHLET.rdp(4.0), rel=1e-12)
    parts = accountant.parallel("region", split_by="position")
    parts["north"].charge(DIRICHLET)
    parts["south"].charge(GAUSSIAN)
    # Each part adds to what the whole was charged; neither adds to the other.
    expected = {round(3 * DIRICHLET.rdp(4.0) + each.rdp(4.0), 9) for each in (DIRICHLET, GAUSSIAN)}
    assert {round(each.rdp(4.0), 9) for each in accountant.compositions()} == expected


# LedgerDisplay ---------------------------------------------------------------------


def charged(labels, **limits):
    accountant = PrivacyAccountant(**limits)
    for releases, label in enumerate(labels, 1):
        accountant.charge(DIRICHLET, releases=releases, label=label)
    return accountant


def test_the_ledger_shows_the_exact_total_after_each_charge():
    accountant = charged(["a", "b", None, "a"], epsilon=1.5, adaptive=False)
    display = LedgerDisplay.from_accountant(accountant)
    expected = [Composition([(DIRICHLET, n)]).epsilon(1e-5) for n in (1, 3, 6, 10)]
    np.testing.assert_allclose(display.totals, expected, rtol=1e-9)
    assert display.totals[-1] == accountant.total()
    np.testing.assert_array_equal(
        display.line_.get_xydata(), np.column_stack([range(5), [0, *display.totals]])
    )
    assert display.limit == 1.5
    assert texts(display.ax_) == ["a (2)", "b (1)", "no label (1)", "limit 1.5"]


def test_the_ledger_of_an_adaptive_limit_shows_the_share_that_is_spent():
    accountant = charged(["a", "b"], epsilon=1.5)
    display = LedgerDisplay.from_accountant(accountant)
    np.testing.assert_allclose(display.totals / 1.5, accountant.running_total() / np.array(1.5))
    assert display.totals[-1] == pytest.approx(1.5 - accountant.remaining(), rel=1e-12)
    assert display.totals[0] == pytest.approx(display.totals[-1] / 3, rel=1e-12)
    assert "spent" in display.ax_.get_ylabel()
    assert "total" not in display.ax_.get_ylabel()


def test_the_ledger_of_an_rdp_limit_is_in_its_own_terms():
    accountant = charged("abc", epsilon=1.0, order=6.0)
    display = LedgerDisplay.from_accountant(accountant)
    np.testing.assert_allclose(display.totals, np.array([1, 3, 6]) * DIRICHLET.rdp(6.0))
    assert display.totals[-1] == pytest.approx(1.0 - accountant.remaining(), rel=1e-12)
    assert display.limit == 1.0
    at_delta = LedgerDisplay.from_accountant(accountant, delta=1e-4)
    assert at_delta.totals[-1] == accountant.total(1e-4)
    assert at_delta.limit is None


def test_a_long_ledger_is_thinned_and_never_shows_less_than_was_spent():
    accountant = charged(["a", "b"] * 20)
    display = LedgerDisplay.from_accountant(accountant, max_points=6)
    assert len(display.totals) == 6
    assert display.shown[-1] == 39
    assert display.totals[-1] == accountant.total()
    assert display.line_.get_drawstyle() == "steps-pre"
    assert texts(display.ax_) == ["a (20)", "b (20)"]


def test_only_the_most_frequent_labels_are_named():
    accountant = charged([f"job {i}" for i in range(11)] + ["job 0"])
    named = texts(LedgerDisplay.from_accountant(accountant, max_points=1).ax_)
    assert len(named) == 10
    assert named[0] == "job 0 (2)"
    assert named[-1] == "other labels (2)"


def test_the_ledger_can_be_drawn_over_time():
    accountant = charged("abc")
    display = LedgerDisplay.from_accountant(accountant, by="time")
    times = [row["time"] for row in accountant.history()]
    assert display.positions == times
    assert all(time.tzinfo == timezone.utc for time in times)
    display.figure_.canvas.draw()


def test_the_ledger_marks_where_privacy_ends():
    accountant = charged("ab")
    accountant.charge(GaussianMechanism(sigma=0.0), label="exact")
    display = LedgerDisplay.from_accountant(accountant)
    assert display.totals[-1] == INF
    assert texts(display.ax_)[-1] == "infinite from here on"


def test_a_ledger_display_refuses_invalid_input():
    with pytest.raises(ValueError, match="at least 1 charge; got 0"):
        LedgerDisplay.from_accountant(PrivacyAccountant())
    with pytest.raises(ValueError, match="by must be one of 'charge', 'time'; got 'day'"):
        LedgerDisplay.from_accountant(charged("a"), by="day")
    with pytest.raises(ValueError, match="max_points must be at least 1; got 0"):
        LedgerDisplay.from_accountant(charged("a"), max_points=0)
    with pytest.raises(ValueError, match="delta must be greater than 0"):
        LedgerDisplay.from_accountant(charged("a"), delta=0.0)


# BayesNetDisplay -------------------------------------------------------------------


def network(n_states=3):
    """Four nodes, two layers apart at most: a -> b -> d, a -> c, a -> d."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, n_states, (400, 4)), columns=list("abcd"))
    states = {node: list(range(n_states)) for node in "abcd"}
    edges = [("a", "b"), ("b", "d"), ("a", "c"), ("a", "d")]
    return PrivateBayesNetMLE(edges, states=states).fit(X)


def test_a_network_is_drawn_with_its_released_tables():
    model = network()
    display = BayesNetDisplay.from_estimator(model)
    assert set(display.boxes_) == set("abcd")
    for node, table in display.tables.items():
        np.testing.assert_array_equal(table, model.probabilities_[node])
    arrows = [patch for patch in display.ax_.patches if "Arrow" in type(patch).__name__]
    assert len(arrows) == 4
    height = {node: box.get_y() for node, box in display.boxes_.items()}
    assert height["a"] > height["b"] > height["d"]
    drawn = {text.get_text() for text in display.ax_.texts}
    assert {*"abcd", "0", "1", "2"} <= drawn


def test_part_of_a_network_keeps_the_edges_between_its_nodes():
    display = BayesNetDisplay.from_estimator(network(), nodes=["d", "a"])
    assert display.parents == {"a": (), "d": ("a",)}
    # The table still has a row for each configuration of both parents.
    assert display.tables["d"].shape == (9, 3)


def test_the_least_probable_of_many_states_are_drawn_together():
    model = network(n_states=12)
    display = BayesNetDisplay.from_estimator(model, max_states=4)
    table = display.tables["a"]
    assert table.shape == (1, 4)
    assert table.sum() == pytest.approx(1)
    assert display.states["a"][-1] == "+9"
    top = np.sort(model.probabilities_["a"][0])[-3:]
    np.testing.assert_allclose(np.sort(table[0, :3]), top)
    # 144 configurations of a and b are too many rows to tell apart.
    assert display.tables["d"].shape == (64, 4)
    np.testing.assert_allclose(display.tables["d"].sum(axis=1), 1)


def test_the_names_of_states_of_a_network_do_not_overlap_and_are_not_cut():
    X, schema = sales()
    display = BayesNetDisplay.from_estimator(PrivateBayesNet(schema, epsilon=5.0).fit(X))
    display.figure_.canvas.draw()
    texts = display.ax_.texts
    assert_apart(texts, display.figure_)
    assert {name for names in display.states.values() for name in names} <= {
        text.get_text() for text in texts
    }
    for node, box in display.boxes_.items():
        first = next(i for i, text in enumerate(texts) if text.get_text() == node)
        inside = box.get_window_extent()
        for text in texts[first : first + 1 + len(display.states[node])]:
            extent = text.get_window_extent()
            assert inside.contains(*extent.min)
            assert inside.contains(*extent.max)


def test_a_network_display_refuses_invalid_input():
    model = network()
    with pytest.raises(ValueError, match=r"nodes must be at least 1 node .*; got 'z'"):
        BayesNetDisplay.from_estimator(model, nodes=["a", "z"])
    with pytest.raises(ValueError, match=r"nodes must be at least 1 node .*; got 0"):
        BayesNetDisplay.from_estimator(model, nodes=[])
    with pytest.raises(ValueError, match="max_states must be at least 2; got 1"):
        BayesNetDisplay.from_estimator(model, max_states=1)
    with pytest.raises(TypeError, match="private Bayesian network; got a DirichletCategor"):
        BayesNetDisplay.from_estimator(classifier().fit(*records()))


@pytest.mark.parametrize("seed", range(5))
def test_layers_keep_boxes_apart_and_children_below_their_parents(seed):
    rng = np.random.default_rng(seed)
    parents = {
        node: tuple(parent for parent in range(node) if rng.random() < 0.12) for node in range(30)
    }
    places, edges = layered(parents)
    for level in range(30):
        row = sorted(places[node][0] for node in parents if places[node][1] == -level)
        assert np.all(np.diff(row) >= 1 - 1e-9)
    assert len(edges) == sum(map(len, parents.values()))
    for path in edges:
        levels = [-places[place][1] for place in path]
        assert levels == list(range(levels[0], levels[0] + len(path)))


# MarginsDisplay --------------------------------------------------------------------


def learnt():
    """A network that was learnt, and the records, as if they were public."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 1500)
    X = pd.DataFrame({"a": a, "b": (a + (rng.random(1500) < 0.2)) % 3, "c": rng.random(1500)})
    states = {"a": [0, 1, 2], "b": [0, 1, 2]}
    return PrivateBayesNet(states=states, bounds={"c": (0.0, 1.0)}, epsilon=5.0).fit(X), X


def test_distances_of_margins_are_those_of_shares():
    model, X = learnt()
    display = MarginsDisplay.from_estimator(model, X, columns=["b", "a"])
    assert display.columns == ["b", "a"]
    released = model.marginal(["a", "b"])
    shares = X.groupby(["a", "b"]).size().reindex(released.index, fill_value=0) / len(X)
    assert display.distances[0, 1] == pytest.approx(np.abs(released - shares).sum() / 2)
    assert display.distances[0, 1] == display.distances[1, 0]
    alone = np.abs(model.marginal(["b"]) - X["b"].value_counts(normalize=True).sort_index())
    assert display.distances[0, 0] == pytest.approx(alone.sum() / 2)


def test_margins_are_those_of_a_learnt_network_alone():
    with pytest.raises(TypeError, match="must be a PrivateBayesNet; got a PrivateBayesNetMLE"):
        MarginsDisplay.from_estimator(network(), pd.DataFrame())


def test_a_learnt_network_is_drawn_with_its_states():
    display = BayesNetDisplay.from_estimator(learnt()[0])
    assert set(display.boxes_) == {"a", "b", "c"}
