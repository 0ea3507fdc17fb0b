"""
One budget for a whole grid search
==================================

A grid search fits many models, and each fit on private records has a privacy cost. A
`PrivacyAccountant` composes these costs, even if the fits run in several processes, and stops the
search before the budget is exceeded.

The *scores* in ``cv_results_`` are not private: they are computed from exact held-out records, and
so is the *choice* of the best value. The guarantee of a fit requires parameters that do not depend
on the data, so it does not cover a model that is selected in this way. For a valid guarantee,
search on public or synthetic data and fit once on the private data; see :doc:`/accountant`. Search
only over parameters such as the smoothing. Bounds such as ``max_total`` must be public knowledge
and must not be tuned on private data.
"""

# %%
# Search
# ------
#
# The data are 1600 images of handwritten digits; a record is an image. Three values of one
# parameter, four folds and the final fit require thirteen fits. `KFold` splits by position. Do not
# use stratified folds, the default of scikit-learn: replacing one record would move other records
# between folds.

from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, KFold

from skdirdp import BudgetExceededError, DirichletNB, PrivacyAccountant

X, y = load_digits(return_X_y=True)
X, y = X[:1600], y[:1600]

# The plan is fixed in advance, so the exact total is a guarantee.
accountant = PrivacyAccountant(epsilon=2.0, delta=1e-5, adaptive=False)
model = DirichletNB(classes=range(10), max_count=16, max_total=400, epsilon=0.4)
search = GridSearchCV(
    model.set_params(accountant=accountant),
    {"alpha": [0.1, 1.0, 10.0]},
    cv=KFold(4, shuffle=True, random_state=0),
    error_score="raise",
    n_jobs=2,
)
search.fit(X, y)
print(len(accountant), "fits were charged")
print(accountant)

# %%
# The epsilons of thirteen fits at ε = 0.4 sum to ε = 5.2. The total by exact composition is much
# smaller:

print(f"sum of the epsilons: {0.4 * len(accountant):.1f}")
print(f"total: {accountant.total():.4f}")

# %%
# Plot the charges
# ----------------

import matplotlib.pyplot as plt

from skdirdp.displays import LedgerDisplay

LedgerDisplay.from_accountant(accountant)
plt.show()

# %%
# Exceeding the budget
# --------------------
#
# The next search needs more than the remaining budget. Pass ``error_score="raise"``: otherwise
# scikit-learn replaces the score of a failed fit by NaN and continues.

search.set_params(estimator__epsilon=1.5)
try:
    search.fit(X, y)
except BudgetExceededError as error:
    print(error)
