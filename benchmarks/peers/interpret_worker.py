"""Runs inside interpret's environment: ``interpret_worker.py QUESTION given.npz found.json``.

It imports nothing of this project, which need not be installed there.
"""

import json
import sys
import time
import warnings

import numpy as np
import pandas as pd
from interpret.privacy import DPExplainableBoostingClassifier


def classify(given) -> list[dict]:
    """Probabilities of the second class for the test records of each split, by DP-EBM.

    It has the public bounds, and its defaults otherwise. It takes no missing values: a missing
    number becomes the middle of its bounds, with a further column that says so.
    """
    numbers, codes, bounds = given["numbers"], given["codes"], given["bounds"]
    columns, types, limits = [], [], {}
    for column, (low, high), may_miss in zip(numbers.T, bounds, given["may_miss"], strict=True):
        missing = np.isnan(column)
        limits[len(columns)] = (float(low), float(high))
        columns.append(np.where(missing, (low + high) / 2, column))
        types.append("continuous")
        if may_miss:
            columns.append(missing.astype(int).astype(str))
            types.append("nominal")
    for column in codes.T:
        columns.append(column.astype(str))
        types.append("nominal")
    X, y = pd.DataFrame(dict(enumerate(columns))), given["y"]
    found = []
    for repeat, (train, test) in enumerate(zip(given["train"], given["test"], strict=True)):
        model = DPExplainableBoostingClassifier(
            feature_types=types,
            privacy_bounds=limits,
            epsilon=float(given["epsilon"]),
            delta=float(given["delta"]),
            composition="gdp",
            n_jobs=1,
            random_state=repeat,
        )
        start = time.process_time()
        model.fit(X.iloc[train], y[train])
        seconds = time.process_time() - start
        p = model.predict_proba(X.iloc[test])[:, 1]
        found.append({"seconds": seconds, "p": [float(f"{each:.7g}") for each in p]})
    return found


if __name__ == "__main__":
    question, given_path, found_path = sys.argv[1:]
    warnings.simplefilter("ignore")
    with np.load(given_path) as loaded:
        answer = {"classify": classify}[question](dict(loaded))
    with open(found_path, "w") as file:
        json.dump(answer, file)
