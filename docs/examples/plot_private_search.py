"""
Private grid search
===================

`GridSearchCV` selects parameters by exact scores on private records. `PrivateGridSearchCV` has one
budget for everything that it publishes: the selected parameters, the model and its score.
"""

# %%
# Search
# ------
#
# ``max_total`` bounds the total of a row of word counts or, in this example, of grey levels. A
# small bound needs little noise but scales many rows down; a large bound needs more noise. The best
# value depends on the records, so selecting it has a privacy cost.

from sklearn.datasets import load_digits

from skdirdp import DirichletNB, PrivacyAccountant
from skdirdp.model_selection import PrivateGridSearchCV

X, y = load_digits(return_X_y=True)
accountant = PrivacyAccountant(epsilon=3.0, delta=1e-5)
search = PrivateGridSearchCV(
    DirichletNB(classes=range(10), max_count=16),
    {"max_total": [50, 150, 400], "mechanism": ["dirichlet", "gaussian"]},
    epsilon=3.0,
    accountant=accountant,
)
search.fit(X, y)
print(search.best_params_)
print(search.released_score_)

# %%
# One charge
# ----------
#
# The number of runs and the scores of the other runs are not published, so the search costs little
# more than one run.

print(accountant.history())
print(search.privacy_)

# %%
# The cost of a search
# --------------------
#
# Publishing the best of a random number of runs costs little more than one run. The composition of
# all runs costs much more.

import matplotlib.pyplot as plt
import numpy as np

from skdirdp.accounting import Composition, RepeatedSelection
from skdirdp.mechanisms import calibrate

run = calibrate("gaussian", epsilon=1.0, delta=1e-5)
n_runs = np.array([2, 5, 10, 30, 100])
best = [RepeatedSelection.with_mean(run, mean).epsilon(1e-5) for mean in n_runs]
composed = [Composition([(run, int(mean))]).epsilon(1e-5) for mean in n_runs]
plt.loglog(n_runs, best, "o-", label="best run")
plt.loglog(n_runs, composed, "s--", label="all runs")
plt.xlabel("expected number of runs")
plt.ylabel("epsilon at delta = 1e-5")
plt.legend()
plt.show()
