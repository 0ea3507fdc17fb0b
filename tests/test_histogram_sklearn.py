"""scikit-learn's own tests of `KBinsDiscretizer`, with our transformer at infinite epsilon."""

import inspect

import pytest
import sklearn
from packaging.version import Version
from sklearn.preprocessing.tests import test_discretization as theirs

from skdirdp import DirichletHistogramTransformer

from .sklearn_cases import cases, functions_of, run

if Version(sklearn.__version__) < Version("1.7"):
    pytest.skip("KBinsDiscretizer has quantiles of its own", allow_module_level=True)

KMEANS = "there is no strategy='kmeans': no private k-means is released"
WEIGHTS = "fit takes no sample_weight: a total weight is not public"

#: Tests of scikit-learn that cannot pass, with the reason.
EXCEPTIONS = {
    "test_invalid_quantile_method_with_sample_weight": WEIGHTS,
    "test_kbinsdiscretizer_effect_sample_weight": WEIGHTS,
    "test_kbinsdiscretizer_no_mutating_sample_weight": WEIGHTS,
    "test_percentile_numeric_stability": "there is no quantile_method='linear'",
}


class KBinsDiscretizer(DirichletHistogramTransformer):
    """Ours by the name of theirs, which messages have, and with no noise.

    Parameters that ours does not have are accepted and dropped. It behaves as scikit-learn does by
    default, or with few records: `quantile_method` is "averaged_inverted_cdf", and there is no
    `subsample`, so that `random_state` has nothing to decide.
    """

    def __init__(
        self,
        n_bins=5,
        *,
        encode="onehot",
        strategy="quantile",
        quantile_method="averaged_inverted_cdf",
        dtype=None,
        subsample=200_000,
        random_state=None,
    ):
        super().__init__(
            n_bins, encode=encode, strategy=strategy, dtype=dtype, epsilon=float("inf")
        )
        self.quantile_method = quantile_method
        self.subsample = subsample

    def fit(self, X, y=None, sample_weight=None):
        if sample_weight is not None:
            raise TypeError("sample_weight")
        return super().fit(X, y)


def exception_of(name, values):
    """Return the reason why a case of a test cannot pass, or None."""
    if values.get("strategy") == "kmeans":
        return KMEANS
    if values.get("sample_weight") is not None:
        return WEIGHTS
    return None


def is_about_ours(function):
    return "KBinsDiscretizer" in inspect.getsource(function)


@pytest.fixture
def global_random_seed():
    return 42  # scikit-learn's own default


@pytest.mark.parametrize(
    ("function", "values"),
    [*cases(functions_of(theirs, is_about_ours), EXCEPTIONS, exception_of)],
)
def test_scikit_learns_tests_of_its_discretizer_pass(function, values, request, monkeypatch):
    monkeypatch.setattr(theirs, "KBinsDiscretizer", KBinsDiscretizer)
    run(function, values, request)


def test_scikit_learn_tests_its_discretizer_as_much_as_we_think():
    names = {name for name, _ in functions_of(theirs, is_about_ours)}
    assert len(names) > 12
    assert set(EXCEPTIONS) <= names
