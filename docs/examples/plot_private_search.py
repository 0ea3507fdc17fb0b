"""
A search whose winner may be published
======================================

`GridSearchCV` chooses by exact scores of private records. `PrivateGridSearchCV` has one budget for
all that it publishes: the chosen parameters, the model, and its score.
"""

# %%
# Search
# ------
#
# How far should rows of word counts, or here of grey levels, be cut? A small ``max_total`` means
# little noise and much lost; a large one the reverse. The answer depends on the records, so that
# asking them costs privacy.

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
# Nobody learns how many runs there were, nor how the others scored, and only the best is paid for.

print(accountant.history())
print(search.privacy_)

# %%
# What it costs to publish the best
# ---------------------------------
#
# The best of a random number of runs costs little more than one run; all of them composed cost
# much more.

import matplotlib.pyplot as plt
import numpy as np

from skdirdp.accounting import Composition, RepeatedSelection
from skdirdp.mechanisms import calibrate

run = calibrate("gaussian", epsilon=1.0, delta=1e-5)
n_runs = np.array([2, 5, 10, 30, 100])
best = [RepeatedSelection.with_mean(run, mean).epsilon(1e-5) for mean in n_runs]
composed = [Composition([(run, int(mean))]).epsilon(1e-5) for mean in n_runs]
plt.loglog(n_runs, best, "o-", label="the best of them")
plt.loglog(n_runs, composed, "s--", label="all of them")
plt.xlabel("runs (expected)")
plt.ylabel("epsilon at delta = 1e-5")
plt.legend()
plt.show()
