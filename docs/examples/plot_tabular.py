"""
A private pipeline from raw numbers to predictions
==================================================

Bins that are cut at the data's own quantiles give the data away before a private model even
starts. Here both steps are private: `DirichletHistogramTransformer` finds the bins,
`DirichletCategoricalNB` learns from them, and one accountant pays for both.

The data are 569 records of breast cancer diagnoses, which scikit-learn ships. That is few for
differential privacy, so we take five of the thirty columns: each further column takes a part of
the budget. Which five was decided by what the columns mean, not by looking for the best.
"""

# %%
# What is public
# --------------
#
# Bounds are what one can say of a column without seeing it. They may be generous. Values beyond
# them fall into the end bins.

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
print(len(X_train), "records to learn from")

# %%
# The pipeline
# ------------
#
# With 426 records a histogram of 32 fine bins is enough to find four quantile bins; the default
# of 512 is meant for larger tables. Each of the two steps gets half of the budget.

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


# The plan is fixed beforehand, so that the exact total is a guarantee.
accountant = PrivacyAccountant(epsilon=2.0, delta=1e-5, adaptive=False)
model = pipeline(2.0, accountant).fit(X_train, y_train)
accountant.history()

# %%
# Two charges. Composed exactly they cost less than the two halves of the budget added up:

print(f"total epsilon {accountant.total():.3f}, left {accountant.remaining():.3f}")

# %%
# That is one point of a curve. The whole of it, for both steps together:

import matplotlib.pyplot as plt

from skdirdp.displays import PrivacyProfileDisplay

PrivacyProfileDisplay.from_accountant(accountant, name="both steps")
plt.show()

# %%
# The bins are read from a private histogram, so they may be published with the model:

for name, edges in zip(bounds, model[0].bin_edges_, strict=True):
    print(f"{name:20}", edges.round(3))

# %%
# What it costs in accuracy
# -------------------------
#
# The same pipeline without noise, and private ones at several budgets, five fits each. With
# ``mechanism="auto"`` the kind of noise is chosen from the public sizes and the budget.

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
ax.axhline(y_test.mean(), color="0.5", linestyle=":", label="always the larger class")
ax.legend()
plt.tight_layout()

# %%
# The accuracies are for our eyes: they are computed from exact test records.
