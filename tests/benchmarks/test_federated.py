"""The quick version of the experiment on federated models."""

import pytest

from benchmarks.experiments.federated import noise_variance


@pytest.mark.usefixtures("paper_data")
def test_a_federated_model_is_as_accurate_as_the_central_one(quick):
    results = quick("federated")
    scale = results[results["part"] == "scale"].iloc[0]
    assert scale["bytes"] == 8 * (scale["cells"] + 2)
    assert scale["sum_bits"] <= scale["bits"]
    accuracy = results[results["part"] == "accuracy"].pivot_table(
        index="repeat", columns="model", values="accuracy"
    )
    assert (accuracy["federated"] - accuracy["central"]).abs().max() < 0.02
    assert accuracy["federated"].mean() > 0.78


def test_the_variance_of_the_noise_grows_with_the_inverse_of_the_ratio():
    assert noise_variance(1024) == pytest.approx(1 + 1 / 1024, rel=1e-4)
    assert noise_variance(8) == pytest.approx(1 + 1 / 8, rel=1e-4)
