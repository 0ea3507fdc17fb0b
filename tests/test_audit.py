"""Audits refute wrong claims, accept true ones, and never claim more than they have seen."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, clone

import skdirdp
from skdirdp import DirichletCategoricalNB, DirichletNB, PrivacyAccountant
from skdirdp.accounting import ApproximateDP, PureDP
from skdirdp.audit import (
    AuditResult,
    audit,
    audit_one_run,
    audit_scores,
    case_names,
    predefined_case,
)
from skdirdp.audit.auditing import _decide, _epsilon_bound, _limits, one_run_p_value
from skdirdp.audit.releases import batch_scores, log_likelihood_ratio, observe_fit
from skdirdp.command import main
from skdirdp.mechanisms import GaussianMechanism
from skdirdp.mechanisms.tables import ContributionBound

#: Estimators whose releases are drawn in batches; the others are fitted in every run.
FITTED = (
    "PrivateBayesNet",
    "PrivateDirichletPosterior",
    "PrivatePipeline",
    "PrivateTableClassifier",
    "FederatedRound",
)
BATCHED = [name for name in case_names() if name not in FITTED]
CASES = [(name, adjacency) for name in BATCHED for adjacency in ("replace", "add_remove")]


def stated(name, epsilon, **options):
    """The report of a fit at this budget, which is the claim of an audit."""
    case = predefined_case(name, epsilon=epsilon, **options)
    return case.estimator.fit(*case.first).privacy_


# --- Estimators -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "adjacency"),
    [
        *CASES[::7],
        *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES if case not in CASES[::7]),
    ],
)
def test_a_true_claim_is_accepted_and_an_error_of_half_of_it_is_found(name, adjacency):
    claim = stated(name, 4.0, adjacency=adjacency)
    assert not audit(
        predefined_case(name, epsilon=4.0, adjacency=adjacency), random_state=0
    ).violated
    wrong = audit(
        predefined_case(name, epsilon=6.0, adjacency=adjacency),
        claim=claim,
        n_runs=10_000,
        random_state=0,
    )
    assert wrong.violated
    assert wrong.rates[1] > claim.true_positive_rate(wrong.rates[0])


@pytest.mark.parametrize("mechanism", ["dirichlet", "gaussian", "laplace"])
def test_every_mechanism_is_audited_by_its_likelihood(mechanism):
    claim = stated("DirichletCategoricalNB", 4.0, mechanism=mechanism)
    for epsilon, violated in ((4.0, False), (6.0, True)):
        case = predefined_case("DirichletCategoricalNB", epsilon=epsilon, mechanism=mechanism)
        assert audit(case, claim=claim, n_runs=10_000, random_state=1).violated == violated


@pytest.mark.slow
@pytest.mark.parametrize("name", case_names())
def test_whole_fits_are_audited(name):
    claim = stated(name, 4.0)
    n_runs = 2000 if name == "PrivateDirichletPosterior" else 3000
    for epsilon, violated in ((4.0, False), (6.0, True)):
        case = predefined_case(name, epsilon=epsilon)
        assert audit(case, claim=claim, n_runs=n_runs, batch=False).violated == violated


def test_every_estimator_has_a_case():
    # `PrivateGridSearchCV` and others of `model_selection` choose among private fits; their claim
    # is a bound on the choice, which no attack attains.
    public = [getattr(skdirdp, name) for name in skdirdp.__all__]
    estimators = {each.__name__ for each in public if hasattr(each, "fit")}
    assert estimators | {"FederatedRound"} == set(case_names())


@pytest.mark.parametrize("name", FITTED)
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_fitted_cases_run_under_both_relations(name, adjacency):
    if name == "PrivateDirichletPosterior" and adjacency == "add_remove":
        with pytest.raises(ValueError, match="adjacency must be 'replace'"):
            predefined_case(name, adjacency=adjacency)
        return
    case = predefined_case(name, epsilon=4.0, adjacency=adjacency)
    assert not audit(case, n_runs=20, random_state=0).violated


def test_scores_of_fits_have_the_ratio_of_the_likelihoods():
    # The mean of exp(-score) is 1 on the first data set if the score is the log-likelihood ratio.
    for name in ("PrivatePipeline", "FederatedRound"):
        case = predefined_case(name, epsilon=1.0)
        fits = (clone(case.estimator).fit(*case.first) for _ in range(60))
        weights = np.exp([-case.score(model) for model in fits])
        assert abs(weights.mean() - 1) < 5 * weights.std() / math.sqrt(len(weights))


@pytest.mark.slow
def test_two_hundred_audits_of_true_claims_raise_no_alarm():
    # Two of three audits draw batches, the others fit.
    alarms = 0
    for i in range(200):
        name, adjacency = CASES[i % len(CASES)]
        case = predefined_case(name, epsilon=4.0, adjacency=adjacency)
        batch = i % 3 < 2
        alarms += audit(case, n_runs=4000 if batch else 200, batch=batch, random_state=i).violated
    assert alarms == 0


def test_batches_and_fits_have_the_same_scores():
    case = predefined_case("DirichletNB", epsilon=4.0)
    known = [observe_fit(case.estimator, each) for each in (case.first, case.second)]
    batch = batch_scores(known[0], known, 2000, np.random.default_rng(0))
    fits = [
        log_likelihood_ratio(observe_fit(case.estimator, case.first), known) for _ in range(400)
    ]
    assert stats.ks_2samp(batch, fits).pvalue > 1e-4
    # The mean of exp(-score) is 1 if the score is the log-likelihood ratio.
    weights = np.exp(-batch)
    assert abs(weights.mean() - 1) < 5 * weights.std() / math.sqrt(len(batch))


class Careless(DirichletNB):
    """Estimator whose noise is for records with one entry, although they have two."""

    def _calibrate(self, tables, budget):
        one = ContributionBound(1.0, 1.0)
        return super()._calibrate([replace(table, contribution=one) for table in tables], budget)


def test_an_estimator_that_underestimates_a_record_is_found():
    first, second = predefined_case("DirichletNB")[1:3]
    sizes = {"classes": [0, 1], "max_count": 1, "max_total": 2, "n_samples": 20}
    model = Careless(epsilon=4.0, **sizes)
    # Its own report is the claim.
    assert audit(model, first, second, n_runs=10_000, random_state=0).violated


def test_neighbours_with_different_tables_are_refused():
    model = DirichletCategoricalNB(classes=[0, 1], n_categories=3)
    X, y = np.zeros((20, 1), dtype=int), np.arange(20) % 2
    with pytest.raises(ValueError, match="same shapes"):
        audit(model, (X, y), (np.column_stack([X, X]), y), n_runs=20)


def test_an_estimator_of_several_steps_is_audited_by_its_attributes():
    case = predefined_case("PrivateBayesNet", epsilon=4.0)
    result = audit(case.estimator, case.first, case.second, n_runs=20)
    assert not result.violated


def test_an_audit_charges_nothing_and_ignores_a_seed():
    class Forbidden:
        def charge(self, *args, **kwargs):
            raise AssertionError("an audit was charged")

    case = predefined_case("DirichletNB", epsilon=4.0)
    case.estimator.set_params(accountant=Forbidden(), random_state=3)
    claim = stated("DirichletNB", 4.0)
    result = audit(case, claim=claim, n_runs=200, batch=False)
    assert not result.violated
    assert result.epsilon_lower < 4  # the same noise in every run would be distinguished


# --- Other functions ----------------------------------------------------------------


class NoisyMean(BaseEstimator):
    """Estimator of another library, with Laplace noise of a scale."""

    def __init__(self, scale=1.0, generator=None):
        self.scale, self.generator = scale, generator

    def fit(self, X):
        noise = np.random.default_rng().laplace(scale=self.scale)
        self.total_ = float(np.sum(X)) + noise
        self.name_ = "not a number"
        return self


def test_a_score_is_learnt_for_other_estimators():
    assert not audit(NoisyMean(1.0), [[1]], [[0]], claim=1.0, n_runs=2000).violated
    wrong = audit(NoisyMean(1 / 3), [[1]], [[0]], claim=1.0, n_runs=2000)
    assert wrong.violated
    assert 1 < wrong.epsilon_lower <= 3


def test_a_score_may_have_the_wrong_sign():
    noise = np.random.default_rng(0)

    def release(x):
        return x + noise.normal()

    found = audit(release, 3.0, 0.0, claim=(1.0, 1e-5), score=lambda x: -x, n_runs=2000)
    assert found.violated
    assert found.epsilon_lower > 1


def test_a_release_without_noise_is_refuted():
    found = audit(lambda x: x, 1.0, 0.0, claim=(2.0, 1e-5), n_runs=2000)
    assert found.violated
    assert found.epsilon_lower == pytest.approx(
        math.log((0.0025 ** (1 / 1000) - 1e-5) / (1 - 0.0025 ** (1 / 1000))), rel=1e-9
    )


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="claim must be given"):
        audit(lambda x: x, 0, 1)
    with pytest.raises(TypeError, match="score must be given"):
        audit(lambda x: "text", 0, 1, claim=1.0, n_runs=20)
    with pytest.raises(ValueError, match="n_runs"):
        audit(lambda x: x, 0, 1, claim=1.0, n_runs=2)
    with pytest.raises(ValueError, match="name must be one of"):
        predefined_case("GaussianNB")
    with pytest.raises(ValueError, match="epsilon must be finite"):
        audit(predefined_case("DirichletNB", epsilon=math.inf), n_runs=20)
    with pytest.raises(ValueError, match="scores"):
        audit_one_run(lambda included: [1.0], 100, claim=1.0)


def test_the_claim_may_be_a_ledger():
    accountant = PrivacyAccountant(epsilon=1.0)
    accountant.charge(GaussianMechanism(10.0))
    rng = np.random.default_rng(0)
    scores = rng.normal(2.0, size=2000), rng.normal(size=2000)
    found = audit_scores(*scores, claim=accountant)
    assert found.violated
    assert (found.epsilon, found.delta) == (1.0, 1e-5)


# --- Statistics -----------------------------------------------------------------------


def test_limits_are_those_of_clopper_and_pearson():
    scores = [np.repeat([1.0, 0.0], [70, 30]), np.repeat([1.0, 0.0], [5, 95])]
    false, true = _limits(scores, 0.5, 0.01)
    assert stats.binom.sf(69, 100, true) == pytest.approx(0.01)
    assert stats.binom.cdf(5, 100, false) == pytest.approx(0.01)
    assert _limits([np.zeros(10), np.zeros(10)], 0.5, 0.01)[1] == 0.0
    assert _limits([np.ones(10), np.ones(10)], 0.5, 0.01)[0] == 1.0


def test_the_bound_is_the_smallest_epsilon_that_allows_the_rates():
    for false, true, delta in [(0.05, 0.4, 0.0), (0.6, 0.97, 0.01), (0.3, 0.3, 0.1)]:
        epsilon = _epsilon_bound(false, true, delta)
        if epsilon == 0:
            assert true <= false + delta
            continue
        for factor, allowed in ((0.999, False), (1.001, True)):
            guarantee = (
                ApproximateDP(factor * epsilon, delta) if delta else PureDP(factor * epsilon)
            )
            assert (true <= guarantee.true_positive_rate(false)) == allowed


def test_limits_fail_as_rarely_as_stated():
    # Gaussian scores at the claim itself: the best attack meets it exactly.
    claim, rng = GaussianMechanism(1.0, adjacency="add_remove"), np.random.default_rng(0)
    failures = sum(
        _decide([rng.normal(1, 1, 400), rng.normal(0, 1, 400)], claim, 1e-5, 0.05)[2]
        for _ in range(60)
    )
    # At most 5% may fail; 4 standard deviations above it is 9.7.
    assert failures < 10


def test_the_p_value_of_one_run_without_delta_is_binomial():
    for epsilon in (0.0, 1.0):
        chance = 1 / (1 + math.exp(-epsilon))
        expected = stats.binom.sf(69, 100, chance)
        assert one_run_p_value(1000, 100, 70, epsilon, 0.0) == pytest.approx(expected)
        assert one_run_p_value(1000, 100, 70, epsilon, 1e-6) > expected


def test_one_run_finds_a_large_error_and_accepts_a_true_claim():
    # A histogram with one cell for each canary, by a real fit.
    m = 2000

    def run(epsilon):
        def scores(included):
            cells = np.where(included, np.arange(m), m)[:, np.newaxis]
            model = DirichletCategoricalNB(
                classes=[0], n_categories=m + 1, epsilon=epsilon, fit_prior=False
            )
            fitted = model.fit(cells, np.zeros(m, dtype=int))
            return fitted.feature_log_prob_[0][0][:m]

        return scores

    true = audit_one_run(run(8.0), m, claim=(8.0, 1e-5), random_state=0)
    assert not true.violated
    wrong = audit_one_run(run(8.0), m, claim=(0.5, 1e-5), random_state=0)
    assert wrong.violated
    assert 0.5 < wrong.epsilon_lower < 8


# --- Results ----------------------------------------------------------------------------


def test_the_result_is_printed_with_its_confidence():
    result = audit(predefined_case("DirichletNB"), n_runs=200, confidence=0.95, random_state=0)
    assert isinstance(result, AuditResult)
    for text in ("no violation was found", "epsilon 1 at delta", "confidence 95%", "200 runs"):
        assert text in repr(result)
    assert result.epsilon == 1.0


def test_the_command_audits_and_refutes(capsys):
    assert main(["audit", "DirichletNB", "--runs", "2000"]) == 0
    assert "no violation was found" in capsys.readouterr().out
    wrong = ["audit", "DirichletNB", "--epsilon", "8", "--claim", "4", "--json"]
    assert main(wrong) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["violated"]
    assert found["epsilon"] == 4.0
    assert main(["audit", "unknown"]) == 1
    assert "name must be one of" in capsys.readouterr().err
