"""The simplex mechanism, against mpmath and the paper's formulas."""

import mpmath
import pytest


def test_the_papers_example_has_the_epsilon_of_its_proof(quick):
    results = quick("simplex-claims")
    example = results[(results["vectors"] == 100) & (results["delta"] == 0.05)]
    epsilons = example.set_index("claim")["epsilon"]
    gamma = example["gamma"].iloc[0]
    assert gamma == pytest.approx(0.0022607, abs=5e-8)
    # Theorem 2 with the number of vectors: k = 24, |W| = 2, eta = eta_bar = 0.05, b = 1.
    shift = mpmath.mpf(24) / 200
    ratio = mpmath.log(mpmath.beta(1.2, 21.6) / mpmath.beta(1.2 + shift, 21.6 - shift))
    theorem = ratio + shift * mpmath.log((1 - gamma) / gamma)
    assert epsilons["paper"] == pytest.approx(float(theorem), rel=1e-6)
    assert epsilons["paper"] == pytest.approx(1.1223, abs=5e-5)
    assert epsilons["exact"] == pytest.approx(0.0508, abs=5e-5)


def test_outputs_have_the_variance_of_proposition_1(quick):
    results = quick("simplex-outputs")
    # A third of each entry, more or less: p (1 - p) / (k + 1) is about 2 / 9 / (k + 1).
    for k, part in results.groupby("k"):
        variance = part[["y1", "y2", "y3"]].var().mean()
        assert variance == pytest.approx(2 / 9 / (k + 1), rel=0.1)
