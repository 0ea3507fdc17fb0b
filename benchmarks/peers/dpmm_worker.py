"""Runs inside dpmm's environment: ``dpmm_worker.py QUESTION given.npz found.json``.

It imports nothing of this project, which need not be installed there.
"""

import json
import resource
import sys
import time

import numpy as np
import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline, PrivBayesPipeline

METHODS = {"MST": MSTPipeline, "AIM": AIMPipeline, "PrivBayes": PrivBayesPipeline}


def synthesize(given, method: str) -> dict:
    """Return synthetic records of a table of category numbers, with time and memory."""
    names = [f"c{i}" for i in range(given["X"].shape[1])]
    table = pd.DataFrame(given["X"], columns=names)
    domain = dict(zip(names, given["sizes"].tolist(), strict=True))
    seed = int(given["seed"])
    start = time.process_time()
    pipeline = METHODS[method](
        epsilon=float(given["epsilon"]),
        delta=float(given["delta"]),
        disable_processing=True,
        n_jobs=1,
    )
    pipeline.fit(table, domain, random_state=seed)
    records = pipeline.generate(n_records=len(table), random_state=seed)
    return {
        "seconds": time.process_time() - start,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "records": records[names].to_numpy().astype(int).tolist(),
    }


if __name__ == "__main__":
    question, given_path, found_path = sys.argv[1:]
    with np.load(given_path) as loaded:
        answer = [synthesize(dict(loaded), question)]
    with open(found_path, "w") as file:
        json.dump(answer, file)
