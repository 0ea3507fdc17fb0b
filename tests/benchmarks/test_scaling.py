import numpy as np
import pytest

from benchmarks.experiments.scaling import slope


def test_a_slope_is_the_power_that_values_grow_with():
    sizes = np.array([1, 10, 100, 1000])
    assert slope(sizes, 3.0 * sizes**1.5) == pytest.approx(1.5)
    # Fixed costs at the smallest size do not count.
    assert slope(sizes, [50.0, 10.0, 100.0, 1000.0]) == pytest.approx(1.0)


def test_as_many_cells_are_released_as_the_tables_have(quick):
    results = quick("scaling").set_index(["method", "growing", "size"])
    for method, growing, size in results.index:
        row = results.loc[(method, growing, size)]
        features, categories, classes = row[["features", "categories", "classes"]]
        expected = {
            "DirichletCategoricalNB.fit": classes + classes * features * categories,
            "DirichletCategoricalNB.predict": classes + classes * features * categories,
            "DirichletNB.fit": classes + classes * features,
            "DirichletHistogramTransformer.fit": features * 512,
            "PrivateBayesNetMLE.fit": categories + (features - 1) * categories**2,
        }.get(method)
        if expected is None:
            assert np.isnan(row["cells"])
        else:
            assert row["cells"] == expected
