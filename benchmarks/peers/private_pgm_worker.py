"""Runs inside private-pgm's environment: ``private_pgm_worker.py QUESTION given.npz found.json``.

It imports nothing of this project, which need not be installed there. Mechanisms run with their
authors' defaults: AIM for all pairs of columns of at most 10 000 cells. "AIM 2" is AIM with models
of at most 2 MB, where the default is 80.
"""

import json
import resource
import sys
import time
from itertools import combinations

import numpy as np
import pandas as pd
from aim import AIM
from mbi import Dataset, Domain
from mst import MST

MOST_CELLS = 10_000


def synthesize(given, question: str) -> dict:
    """Return synthetic records of a table of category numbers, with time and memory."""
    method, *size = question.split()
    names = [f"c{i}" for i in range(given["X"].shape[1])]
    domain = Domain(names, given["sizes"].tolist())
    data = Dataset(pd.DataFrame(given["X"], columns=names), domain)
    epsilon, delta = float(given["epsilon"]), float(given["delta"])
    np.random.seed(int(given["seed"]))  # all its noise is drawn there
    start = time.process_time()
    if method == "MST":
        drawn = MST(data, epsilon, delta)
    else:
        pairs = [each for each in combinations(names, 2) if domain.size(each) <= MOST_CELLS]
        limits = {"max_model_size": float(size[0])} if size else {}
        _, drawn = AIM(epsilon, delta, **limits).run(data, [(pair, 1.0) for pair in pairs])
    return {
        "seconds": time.process_time() - start,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "records": drawn.df[names].to_numpy().astype(int).tolist(),
    }


if __name__ == "__main__":
    question, given_path, found_path = sys.argv[1:]
    with np.load(given_path) as loaded:
        answer = [synthesize(dict(loaded), question)]
    with open(found_path, "w") as file:
        json.dump(answer, file)
