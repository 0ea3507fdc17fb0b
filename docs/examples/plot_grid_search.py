"""
One budget for a whole grid search
==================================

A grid search fits many models, and each fit on private records costs privacy. A
`PrivacyAccountant` adds them up, also when they run in several processes, and stops the
search before the budget is passed.

What it does not protect: the *scores* in ``cv_results_`` are computed from exact held-out records,
and so is the *choice* of the best value. The guarantee of a fit is for parameters that did not
depend on the data, so it does not cover a model that was chosen this way. To stay within it,
search on public or synthetic data and fit once on the private ones: see :doc:`/accountant`. And
search over parameters that are yours to choose, such as the smoothing; bounds like ``max_total``
are public knowledge, not something to be tried out.
"""

# %%
# Search
# ------
#
# 1600 images of handwritten digits; a record is an image. Three values of one parameter, four folds
# and the final fit make thirteen fits. `KFold` splits by position. The stratified folds that
# scikit-learn takes by default do not: replacing one record would move others between folds.

from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, KFold

from skdirdp import BudgetExceededError, DirichletNB, PrivacyAccountant

X, y = load_digits(return_X_y=True)
X, y = X[:1600], y[:1600]

# The plan is fixed beforehand, so that the exact total is a guarantee.
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
# Thirteen fits at ε = 0.4 would be ε = 5.2 if epsilons were added. Composed exactly they cost
# much less:

print(f"sum of the epsilons: {0.4 * len(accountant):.1f}")
print(f"total: {accountant.total():.4f}")

# %%
# The ledger, charge by charge
# ----------------------------

import matplotlib.pyplot as plt

from skdirdp.displays import LedgerDisplay

LedgerDisplay.from_accountant(accountant)
plt.show()

# %%
# When the budget is spent
# ------------------------
#
# The next search asks for more than is left. ``error_score="raise"`` matters: without it
# scikit-learn turns the error of a fit into a missing score and goes on.

search.set_params(estimator__epsilon=1.5)
try:
    search.fit(X, y)
except BudgetExceededError as error:
    print(error)
