"""Runs inside diffprivlib's environment: ``diffprivlib_worker.py QUESTION given.npz found.json``.

It imports nothing of this project, which need not be installed there.
"""

import json
import sys
import time
import warnings

import numpy as np
from diffprivlib import BudgetAccountant
from diffprivlib.models import GaussianNB, LogisticRegression
from sklearn.model_selection import GridSearchCV


def naive_bayes(given) -> list[dict]:
    """Return scores of GaussianNB, by scaling of the features and by added variance.

    Adding to released variances has no privacy cost, so all scores are those of one fit.
    """
    found = []
    for scale in given["scales"]:
        X, y = given[f"X_{scale}"], given["y"]
        splits = zip(given["train"], given["test"], strict=True)
        for repeat, (train, test) in enumerate(splits):
            model = GaussianNB(
                epsilon=float(given["epsilon"]), bounds=(0.0, 1.0), random_state=repeat
            )
            model.fit(X[train], y[train])
            released = model.var_
            for smoothing in given["smoothings"]:
                model.var_ = released + smoothing
                log_p = model.predict_log_proba(X[test])
                found.append(
                    {
                        "scale": str(scale),
                        "smoothing": float(smoothing),
                        "repeat": repeat,
                        "accuracy": float(np.mean(model.predict(X[test]) == y[test])),
                        "cross_entropy": cross_entropy(
                            log_p[np.arange(len(test)), y[test]], float(given["least"])
                        ),
                    }
                )
    return found


def classify(given) -> list[dict]:
    """Probabilities of the classes for the test records of each split, by LogisticRegression.

    Numbers are scaled by their public bounds to [0, 1], categories are indicators. A missing number
    is the middle of its bounds, with a further indicator.
    """
    low, high = given["bounds"].T
    numbers, codes, may_miss = given["numbers"], given["codes"], given["may_miss"].astype(bool)
    missing = np.isnan(numbers)
    scaled = np.where(missing, 0.5, (numbers - low) / (high - low))
    indicators = [
        codes[:, [column]] == np.arange(size) for column, size in enumerate(given["sizes"])
    ]
    X = np.column_stack([scaled, missing[:, may_miss], *indicators]).astype(float)
    # The squared norm of a row is at most 1 for each column, and 0.25 more for a missing number.
    norm = float(np.sqrt(numbers.shape[1] + may_miss.sum() / 4 + codes.shape[1]))
    found = []
    for repeat, (train, test) in enumerate(zip(given["train"], given["test"], strict=True)):
        model = LogisticRegression(
            epsilon=float(given["epsilon"]), data_norm=norm, random_state=repeat
        )
        start = time.process_time()
        model.fit(X[train], given["y"][train])
        seconds = time.process_time() - start
        p = np.zeros((len(test), int(given["n_classes"])))
        p[:, model.classes_] = model.predict_proba(X[test])
        p[np.isnan(p).any(axis=1)] = 1 / p.shape[1]  # no class has a positive probability
        rows = [[float(f"{each:.7g}") for each in row] for row in p.tolist()]
        found.append({"seconds": seconds, "p": rows})
    return found


def cross_entropy(log_p: np.ndarray, least: float) -> float:
    return float(-np.mean(np.maximum(np.nan_to_num(log_p, nan=-np.inf), np.log(least))))


def accountant(given) -> list[dict]:
    """Return the totals of a budget accountant after a grid search, and after the same fits."""
    X, y = given["X"], given["y"]
    epsilons, folds = given["epsilons"].tolist(), int(given["folds"])
    search_accountant, fits_accountant = BudgetAccountant(), BudgetAccountant()
    model = GaussianNB(bounds=(0.0, 1.0), random_state=0, accountant=search_accountant)
    search = GridSearchCV(model, {"epsilon": epsilons}, cv=folds).fit(X, y)
    for epsilon in [*epsilons * folds, search.best_params_["epsilon"]]:
        GaussianNB(
            epsilon=epsilon, bounds=(0.0, 1.0), random_state=0, accountant=fits_accountant
        ).fit(X, y)
    delta = float(given["delta"])
    return [
        {
            "way": way,
            "fits": len(epsilons) * folds + 1,
            "epsilon": float(each.total(slack=delta)[0]),
        }
        for way, each in (("GridSearchCV", search_accountant), ("one by one", fits_accountant))
    ]


def audit(given) -> list[dict]:
    """Attack scores of GaussianNB on two tables that differ in the label of one record.

    The scores are log-likelihood ratios of the released counts, sums and squares, without
    truncation. The last answer has what the accountant of a grid search claims for its best
    model.
    """
    epsilon, runs = float(given["epsilon"]), int(given["runs"])
    # Sums and squares in the middle of what they can be, where nothing is truncated.
    rest = np.repeat([[0.15], [0.85]] * int(given["rows"]), 2, axis=0)
    X = np.vstack([[[1.0]], rest])
    labels = [np.append(first, np.arange(len(rest)) % 2) for first in (0, 1)]

    def score(model) -> float:
        total = 0.0
        for i in range(2):
            n, mean = model.class_count_[i], model.theta_[i, 0]
            squares = max(mean, 1 - mean) ** 2
            expected = [
                (np.sum(y == i), X[y == i].sum(), np.sum((X[y == i] - mean) ** 2)) for y in labels
            ]
            seen = (n, n * mean, n * (model.var_[i, 0] - model.epsilon_))
            for value, one, other, size in zip(seen, *expected, (2, 1, squares), strict=True):
                total += (abs(value - other) - abs(value - one)) / size
        return total

    def fit(y):
        return GaussianNB(epsilon=epsilon, bounds=(0.0, 1.0)).fit(X, y)

    def search(y, spent):
        model = GaussianNB(bounds=(0.0, 1.0), accountant=spent)
        return GridSearchCV(model, {"epsilon": [epsilon]}, cv=2).fit(X, y).best_estimator_

    few = int(given["searches"])
    spent = BudgetAccountant()
    searched = [[score(search(y, spent)) for _ in range(few)] for y in labels]
    fitted = [[score(fit(y)) for _ in range(runs)] for y in labels]
    claim = float(spent.total()[0])
    # The classes are those of the labels, so the only record of a class is seen by its class.
    alone = [np.append(first, np.zeros(len(rest), dtype=int)) for first in (1, 0)]
    classes = [[float(len(fit(y).classes_)) for _ in range(few)] for y in alone]
    return [
        {"case": "GaussianNB", "epsilon": epsilon, "delta": 0.0, "scores": fitted},
        {
            "case": "GaussianNB, only record of a class",
            "epsilon": epsilon,
            "delta": 0.0,
            "scores": classes,
        },
        {
            "case": "BudgetAccountant after GridSearchCV",
            "epsilon": claim,
            "delta": 0.0,
            "scores": searched,
        },
    ]


if __name__ == "__main__":
    question, given_path, found_path = sys.argv[1:]
    warnings.simplefilter("ignore")
    with np.load(given_path) as arrays:
        answers = {
            "naive_bayes": naive_bayes,
            "accountant": accountant,
            "audit": audit,
            "classify": classify,
        }
        answer = answers[question](arrays)
    with open(found_path, "w") as file:
        json.dump(answer, file)
