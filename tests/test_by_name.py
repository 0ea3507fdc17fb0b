"""Public parameters by the names of columns, and containers that name them otherwise."""

import numpy as np
import pandas as pd
import pytest

from skdirdp import (
    DirichletCategoricalNB,
    DirichletHistogramTransformer,
    PrivateBayesNetMLE,
)

FRAME = pd.DataFrame({"age": [1.0, 30, 80] * 40, "sex": [0, 1, 1] * 40})
LABELS = np.arange(120) % 2


def test_bounds_and_sizes_may_be_given_by_name():
    by_name = DirichletHistogramTransformer(
        3, bounds={"age": (0, 100)}, n_categories={"sex": 2}, epsilon=np.inf
    ).fit(FRAME)
    in_order = DirichletHistogramTransformer(
        3, bounds=[(0, 100), None], n_categories=[None, 2], epsilon=np.inf
    ).fit(FRAME)
    for mine, others in zip(by_name.bin_edges_, in_order.bin_edges_, strict=True):
        np.testing.assert_array_equal(mine, others)


def test_columns_without_names_are_numbered():
    model = DirichletHistogramTransformer(3, bounds={0: (0, 100), 1: (0, 1)})
    assert model.fit(FRAME.to_numpy()).privacy_.not_covered == ()


@pytest.mark.parametrize("parameter", ["bounds", "n_categories"])
def test_a_name_that_no_column_has_is_refused(parameter):
    model = DirichletHistogramTransformer(3, **{parameter: {"aeg": (0, 100)}})
    with pytest.raises(ValueError, match=f"{parameter} must have names .*'aeg'"):
        model.fit(FRAME)


def test_numbers_of_categories_may_be_given_by_name():
    X = FRAME.astype({"age": int})
    model = DirichletCategoricalNB(classes=[0, 1], n_categories={"sex": 2, "age": 100})
    assert model.fit(X, LABELS).n_categories_.tolist() == [100, 2]
    with pytest.raises(ValueError, match="n_categories must be given for every feature"):
        model.set_params(n_categories={"sex": 2}).fit(X, LABELS)


def test_a_code_book_may_have_more_columns_than_the_network():
    states = {"age": [1.0, 30.0, 80.0], "sex": [0, 1], "region": ["n", "s"]}
    network = PrivateBayesNetMLE([("age", "sex")], states=states)
    assert network.fit(FRAME).privacy_.not_covered == ()
    with pytest.raises(ValueError, match="'aeg' is not one, and 'age' has no states"):
        PrivateBayesNetMLE([("age", "sex")], states={"aeg": [1], "sex": [0, 1]}).fit(FRAME)


def test_a_pyarrow_table_is_a_table():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_pandas(FRAME)
    parameters = {"states": {"age": [1.0, 30.0, 80.0], "sex": [0, 1]}, "epsilon": np.inf}
    ours = PrivateBayesNetMLE([("age", "sex")], **parameters).fit(table)
    frames = PrivateBayesNetMLE([("age", "sex")], **parameters).fit(FRAME)
    for node in ("age", "sex"):
        np.testing.assert_array_equal(ours.probabilities_[node], frames.probabilities_[node])


@pytest.mark.parametrize("dtype", [object, str])
def test_the_error_for_an_undeclared_label_does_not_mention_types(dtype):
    y = np.array(["no", "yes", "perhaps"] * 40, dtype=dtype)
    model = DirichletCategoricalNB(classes=["no", "yes"], n_categories=100)
    with pytest.raises(ValueError, match="labels that are in classes") as caught:
        model.fit(FRAME.astype(int), y)
    assert "another type" not in str(caught.value)
