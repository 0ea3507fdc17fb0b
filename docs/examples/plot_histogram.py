"""
Private histograms, quantiles and error bounds
==============================================

One release contains a whole histogram. Quantiles, the distribution function, synthetic values and
error bounds are computed from it without additional privacy cost.
"""

# %%
# One release
# -----------
#
# The data are the body mass indices of 442 diabetes patients, which are included in scikit-learn.
# Two facts are public: the index is between 10 and 60, and there are 442 records.

from sklearn.datasets import load_diabetes

from skdirdp import DirichletHistogramTransformer

X = load_diabetes(as_frame=True, scaled=False).data[["bmi"]]

histogram = DirichletHistogramTransformer(
    4, encode="ordinal", bounds=(10, 60), n_fine_bins=50, fine_scale="linear", epsilon=1.0
)
histogram.fit(X)
print(histogram.privacy_)

# %%
# Histogram with confidence band
# ------------------------------
#
# With probability 95%, the band contains the true shares of all bins simultaneously. It is computed
# from the release, so it may be published too. The grey steps show the exact data and must not be
# published.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdirdp.displays import HistogramDisplay

display = HistogramDisplay.from_estimator(histogram, "bmi", max_bins=25, color="C0", linewidth=2)
display.ax_.hist(
    X["bmi"], bins=display.edges, density=True, histtype="step", color="0.5", label="data"
)
display.ax_.legend()
plt.show()

# %%
# Quantiles and the distribution function
# ---------------------------------------

print("released quartiles:", histogram.bin_edges_[0][1:-1].round(1))
print("of the data:       ", np.percentile(X["bmi"], [25, 50, 75]).round(1))
print(f"error of the distribution function, at most: {histogram.cdf_error(0.95)[0]:.3f}")

# %%
# ``encode="cdf"`` is a private quantile transform. It uses the same release.

grid = pd.DataFrame({"bmi": np.linspace(10, 60, 400)})
released = histogram.set_params(encode="cdf").transform(grid)[:, 0]
error = histogram.cdf_error(0.95)[0]

_, ax = plt.subplots(figsize=(6, 4))
ax.plot(grid["bmi"], released, label="released")
ax.fill_between(
    grid["bmi"], (released - error).clip(0), (released + error).clip(max=1), alpha=0.2, label="95%"
)
ax.plot(np.sort(X["bmi"]), np.arange(1, len(X) + 1) / len(X), color="0.5", label="data")
ax.set(xlabel="bmi", ylabel="share of records below")
ax.legend()
plt.tight_layout()

# %%
# Error bounds before the fit
# ---------------------------
#
# `skdirdp.utility` computes error bounds for a budget. The inverse functions compute the budget or
# the number of records that a target error requires. These bounds hold for all data, so they are
# wider than the bounds of a release.

from skdirdp.utility import accuracy_from_budget

for n_samples in (442, 4420):
    for epsilon in (0.5, 1.0, 2.0):
        error = accuracy_from_budget("cdf", n_samples, 50, epsilon=epsilon)
        print(f"{n_samples} records, epsilon {epsilon}: {error:.3f} at most, with probability 95%")
