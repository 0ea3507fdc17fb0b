"""A user's script. It must pass ``mypy --strict``, and it must run."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

import skdirdp
from skdirdp import (
    BudgetExceededError,
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletComplementNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivacyAccountant,
    PrivacyReport,
    PrivateBayesNet,
    PrivateBayesNetMLE,
    PrivateCountVectorizer,
    PrivateDirichletPosterior,
    PrivatePipeline,
    check_pipeline,
    make_private_pipeline,
)
from skdirdp.accounting import ApproximateDP, Composition, PureDP, RenyiDP
from skdirdp.displays import LedgerDisplay, PrivacyProfileDisplay
from skdirdp.mechanisms import (
    DirichletMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    SimplexMechanism,
)
from skdirdp.model_selection import PrivateGridSearchCV, PrivateRandomizedSearchCV, private_score
from skdirdp.posterior import hellinger_distance
from skdirdp.utility import accuracy_from_budget, rows_for_accuracy

rng = np.random.default_rng(0)
X = rng.integers(0, 3, (600, 2))
y = (X[:, 0] > 0).astype(int)
frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})


def use_classifiers(accountant: PrivacyAccountant) -> None:
    multinomial = DirichletNB(max_count=2, max_total=4, classes=[0, 1], accountant=accountant)
    multinomial.fit(X, y, sample_weight=np.ones(len(y)))
    multinomial.predict(X)
    complement = DirichletComplementNB(max_count=2, max_total=4, classes=[0, 1])
    complement.fit(X, y).predict_proba(X)
    bernoulli = DirichletBernoulliNB(binarize=0.5, classes=[0, 1], label="bernoulli")
    bernoulli.partial_fit(X, y).release()
    bernoulli.predict_log_proba(X)
    categorical = DirichletCategoricalNB(
        n_categories=3, classes=[0, 1], epsilon=0.5, mechanism="auto", max_rows=2
    )
    categorical.fit(X, y, groups=np.arange(len(y)))
    print(categorical.predict_joint_log_proba(X).shape, categorical.score(X, y))
    report: PrivacyReport = categorical.privacy_
    sentence: str = report.statement()
    print(sentence, categorical.set_params(epsilon=1.0).get_params()["epsilon"])


def use_networks() -> None:
    states = {"a": [0, 1, 2], "b": [0, 1, 2]}
    network = PrivateBayesNetMLE([("a", "b")], states=states, target="b").fit(frame)
    network.predict(frame[["a"]])
    network.sample(10)
    learnt = PrivateBayesNet(states, epsilon=2.0, max_parents=2).fit(frame)
    learnt.sample(10)
    learnt.marginal(["a"])


def use_transformers() -> None:
    histogram = DirichletHistogramTransformer(3, encode="ordinal", bounds=(0, 3))
    histogram.fit(X).transform(X)
    histogram.sample(10)
    texts = ["one word", "another word"] * 400
    PrivateCountVectorizer(epsilon=2.0).fit(texts).transform(texts)
    posterior = PrivateDirichletPosterior(mechanism="lshist").fit_counts([7, 2, 1])
    posterior.sample(3)
    print(posterior.mean_, hellinger_distance([1, 2], [2, 1]))


def use_pipelines(accountant: PrivacyAccountant) -> None:
    steps = (
        DirichletHistogramTransformer(3, encode="ordinal", bounds=(0, 3)),
        DirichletCategoricalNB(n_categories=3, classes=[0, 1]),
    )
    pipeline = make_private_pipeline(*steps, epsilon=1.0, accountant=accountant)
    pipeline.fit(X, y).predict(X)
    check_pipeline(pipeline)
    PrivatePipeline([("bins", steps[0]), ("model", steps[1])]).fit(X, y)
    model = DirichletCategoricalNB(n_categories=3, classes=[0, 1])
    search = PrivateGridSearchCV(model, {"alpha": [1.0, 2.0]}, epsilon=4.0).fit(X, y)
    search.predict(X)
    PrivateRandomizedSearchCV(model, {"alpha": [1.0, 2.0]}, epsilon=4.0).fit(X, y)
    private_score(search, X, y, epsilon=1.0)


def use_accountants() -> None:
    with TemporaryDirectory() as folder:
        accountant = PrivacyAccountant(
            epsilon=100.0, delta=1e-5, path=Path(folder, "study.sqlite"), name="study"
        )
        use_classifiers(accountant)
        use_pipelines(accountant)
        accountant.charge(PureDP(0.1), label="published last year")
        try:
            accountant.charge(DirichletMechanism(r=5.0, alpha=0.5), releases=10**6)
        except BudgetExceededError as error:
            print(error)
        total: float = accountant.total(delta=1e-5)
        print(total, accountant.remaining(), len(accountant), accountant.statement())
        print([row["label"] for row in accountant.history()])
        accountant.affords(PureDP(0.1))
        accountant.verify()
        accountant.report(Path(folder, "study.html"))
        LedgerDisplay.from_accountant(accountant).plot()


def use_mechanisms() -> None:
    mechanism = DirichletMechanism(r=0.5, alpha=5.0, adjacency="replace")
    print(mechanism.rdp(4.0), mechanism.delta(1.0), mechanism.epsilon(1e-5))
    mechanism.release([12, 0, 5])
    DirichletMechanism.calibrate(
        epsilon=1.0, delta=1e-5, releases=14, n_samples=34189, n_categories=10, min_smoothing=1.0
    )
    GaussianMechanism(sigma=30.0).release([12, 0, 5])
    LaplaceMechanism(scale=30.0).release([12, 0, 5])
    SimplexMechanism(k=24.0, b=1.0, eta=0.1, eta_bar=0.1, protected=(0, 1)).rdp(2.0)
    PrivacyProfileDisplay.from_mechanism(mechanism, releases=2)
    both = Composition([(mechanism, 2), (ApproximateDP(0.5, 1e-6), 1), (RenyiDP(4.0, 0.1), 1)])
    print(both.epsilon(1e-5), skdirdp.__version__)
    print(accuracy_from_budget("linf", 5000, 20, epsilon=1.0))
    print(rows_for_accuracy("linf", 0.05, 20, epsilon=1.0))


if __name__ == "__main__":
    use_accountants()
    use_networks()
    use_transformers()
    use_mechanisms()
