"""A private model next to the one without privacy: ``skdirdp`` without anything more.

Real data that scikit-learn ships are learnt with and without privacy, and what a
private model costs is read off an accountant.
"""

import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import CategoricalNB, MultinomialNB

from skdirdp import DirichletCategoricalNB, DirichletNB, PrivacyAccountant

EPSILONS = (0.3, 1.0, 3.0, 10.0)
REPEATS = 10


def demonstrate() -> None:
    """Print what privacy costs in accuracy, at several budgets."""
    print("Handwritten digits: 1797 images of 8 x 8 pixels, 10 classes; a quarter is held out.")
    print(f"Mean accuracy of {REPEATS} private models each, and what one of them costs.")
    print("A smaller budget is more private; dirichlet and auto are kinds of noise.")
    X, y = load_digits(return_X_y=True)
    darkness = DirichletNB(classes=range(10), max_count=16, max_total=400)
    compare(X, y, MultinomialNB(), darkness)
    levels = DirichletCategoricalNB(classes=range(10), n_categories=5)
    compare(X.astype(int) // 4, y, CategoricalNB(min_categories=5), levels)
    print("\nNext: docs/quickstart.md")


def compare(X, y, plain, private) -> None:
    """Print accuracy on held-out records, without privacy and at several budgets."""
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    accuracy = plain.fit(X_train, y_train).score(X_test, y_test)
    print(f"\n{type(plain).__name__}, not private: accuracy {accuracy:.3f}")
    print(f"{type(private).__name__}:")
    print(f"{'budget':>20} {'dirichlet':>16} {'auto':>16} {'charged':>12} {'seconds':>8}")
    for epsilon in EPSILONS:
        started = time.perf_counter()
        private.set_params(epsilon=epsilon)
        cells = []
        for mechanism in ("dirichlet", "auto"):
            private.set_params(mechanism=mechanism)
            scores = [private.fit(X_train, y_train).score(X_test, y_test) for _ in range(REPEATS)]
            cells.append(f"{np.mean(scores):.3f} ± {np.std(scores):.3f}")
        # A user would publish one model; that one is charged.
        accountant = PrivacyAccountant(delta=private.delta)
        private.set_params(accountant=accountant).fit(X_train, y_train)
        private.set_params(accountant=None)
        budget = f"({epsilon:g}, {private.delta:g})-DP"
        seconds = time.perf_counter() - started
        charged = f"{np.ceil(1e4 * accountant.total()) / 1e4:.4f}"  # never shown too small
        print(
            f"{budget:>20} {cells[0]:>16} {cells[1]:>16} {charged:>12} {seconds:>8.1f}", flush=True
        )
