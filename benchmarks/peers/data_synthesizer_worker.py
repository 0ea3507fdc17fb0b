"""Runs inside DataSynthesizer's environment: ``..._worker.py audit given.npz found.json``.

It imports nothing of this project, which need not be installed there.
"""

import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from DataSynthesizer.DataDescriber import DataDescriber


def audit(given) -> list[dict]:
    """Attack scores of the description of one column, on two tables that differ in one record.

    By default the seed of the noise is 0. With fresh seeds the noise is not known, and the domain
    is that of a file, so that it does not come from the data.
    """
    epsilon = float(given["epsilon"])
    found = []
    with tempfile.TemporaryDirectory() as folder:
        domain = Path(folder, "domain.json")
        domain.write_text(json.dumps({"c": ["a", "b", "d"]}))
        for case, seeded in (("default seed", False), ("fresh seeds", True)):
            scores = []
            for value in ("a", "b"):
                path = Path(folder, f"{value}.csv")
                rest = [*"abd"] * int(given["rows"])  # so many that no share is cut off at 0
                pd.DataFrame({"c": [value, *rest]}).to_csv(path, index=False)
                several = []
                for run in range(int(given["runs"])):
                    more = {"seed": int(given["seed"]) + run} if seeded else {}
                    describer = DataDescriber()
                    describer.describe_dataset_in_independent_attribute_mode(
                        str(path),
                        epsilon=epsilon,
                        attribute_to_is_categorical={"c": True},
                        attribute_to_is_candidate_key={"c": False},
                        categorical_attribute_domain_file=str(domain),
                        **more,
                    )
                    column = describer.data_description["attribute_description"]["c"]
                    shares = dict(
                        zip(
                            column["distribution_bins"],
                            column["distribution_probabilities"],
                            strict=True,
                        )
                    )
                    several.append(shares["a"] - shares["b"])
                scores.append(several)
            found.append({"case": case, "epsilon": epsilon, "delta": 0.0, "scores": scores})
    return found


if __name__ == "__main__":
    _, given_path, found_path = sys.argv[1:]
    warnings.simplefilter("ignore")
    with np.load(given_path) as arrays:
        answer = audit(dict(arrays))
    with open(found_path, "w") as file:
        json.dump(answer, file)
