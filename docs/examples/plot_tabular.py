"""
Private pipeline for numeric data
=================================

Bins at the quantiles of the data are not private, even if the model that follows is. In this
example both steps are private: `DirichletHistogramTransformer` computes the bins,
`DirichletCategoricalNB` is fitted on them, and one accountant is charged for both.

The data are 569 records of breast cancer diagnoses, which are included in scikit-learn. This is a
small number for differential privacy, and each column needs a part of the budget, so we use only
five of the thirty columns. We selected them by their meaning, not by their accuracy.
"""

# %%
# Public parameters
# -----------------
#
# Bounds must be known without looking at the data. They can be generous. Values out of bounds fall
# into the first or the last bin.

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

bounds = {
    "mean radius": (0, 40),
    "mean texture": (0, 50),
    "mean concave points": (0, 0.5),
    "worst area": (0, 5000),
    "worst smoothness": (0, 0.5),
}
data = load_breast_cancer(as_frame=True)
X, y = data.data[list(bounds)], data.target
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
print(len(X_train), "training records")

# %%
# The pipeline
# ------------
#
# With 426 records, a histogram of 32 fine bins is enough to compute four quantile bins; the default
# of 512 is for larger tables. Each of the two steps gets half of the budget.

from sklearn.pipeline import make_pipeline

from skdirdp import DirichletCategoricalNB, DirichletHistogramTransformer, PrivacyAccountant


def pipeline(epsilon, accountant=None, mechanism="dirichlet"):
    budget = {"epsilon": epsilon / 2, "delta": 5e-6, "mechanism": mechanism}
    return make_pipeline(
        DirichletHistogramTransformer(
            4,
            encode="ordinal",
            bounds=list(bounds.values()),
            n_fine_bins=32,
            accountant=accountant,
            **budget,
        ),
        DirichletCategoricalNB(classes=[0, 1], n_categories=4, accountant=accountant, **budget),
    )


# The plan is fixed in advance, so the exact total is a guarantee.
accountant = PrivacyAccountant(epsilon=2.0, delta=1e-5, adaptive=False)
model = pipeline(2.0, accountant).fit(X_train, y_train)
accountant.history()

# %%
# There are two charges. Their exact composition is less than the sum of the two epsilons:

print(f"total epsilon {accountant.total():.3f}, left {accountant.remaining():.3f}")

# %%
# This is one point of the privacy profile. Plot the whole profile of both steps:

import matplotlib.pyplot as plt

from skdirdp.displays import PrivacyProfileDisplay

PrivacyProfileDisplay.from_accountant(accountant, name="both steps")
plt.show()

# %%
# The bins are computed from a private histogram, so they may be published with the model:

for name, edges in zip(bounds, model[0].bin_edges_, strict=True):
    print(f"{name:20}", edges.round(3))

# %%
# Accuracy and privacy
# --------------------
#
# We compare the pipeline without noise with private pipelines at several budgets, with five fits
# each. ``mechanism="auto"`` selects the mechanism from the public sizes and the budget.

import numpy as np

from skdirdp.displays import BudgetCurveDisplay

budgets = [0.5, 1.0, 2.0, 4.0]


def accuracy(epsilon, mechanism="dirichlet"):
    return pipeline(epsilon, mechanism=mechanism).fit(X_train, y_train).score(X_test, y_test)


_, ax = plt.subplots(figsize=(6, 4))
for mechanism in ("dirichlet", "auto"):
    scores = [[accuracy(epsilon, mechanism) for _ in range(5)] for epsilon in budgets]
    name = f'mechanism="{mechanism}"'
    BudgetCurveDisplay.from_results(budgets, scores, score_name="accuracy", name=name, ax=ax)
ax.axhline(accuracy(np.inf), color="0.5", linestyle="--", label="not private")
ax.axhline(y_test.mean(), color="0.5", linestyle=":", label="most frequent class")
ax.legend()
plt.tight_layout()

# %%
# The accuracies are computed from exact test records, so this figure is not private.
