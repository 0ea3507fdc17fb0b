"""
Data larger than memory
=======================

Fitting a private model of counts needs one pass over the records. In this example, the records are
in a folder of Parquet files that is larger than the memory used by the fit.
"""

# %%
# A large folder
# --------------
#
# The data are 1.5 million variants of the 1797 scanned digits in scikit-learn: each pixel is up to
# one step lighter or darker. One file is written at a time.

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits

digits = load_digits()
rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())
for number in range(15):
    rows = rng.integers(0, len(digits.target), 100_000)
    pixels = digits.data[rows].astype(np.int8) + rng.integers(-1, 2, (len(rows), 64), dtype=np.int8)
    columns = dict(zip(digits.feature_names, pixels.clip(0, 16).T, strict=True))
    table = pa.table({**columns, "digit": digits.target[rows].astype(np.int8)})
    pq.write_table(table, folder / f"{number:02}.parquet", use_dictionary=False, compression="none")

on_disk = sum(path.stat().st_size for path in folder.iterdir()) / 2**20
print(f"{on_disk:.0f} MiB on disk; {1.5e6 * 65 * 8 / 2**20:.0f} MiB as an array of floats")

# %%
# Memory usage of the fit
# -----------------------
#
# ``fit`` takes the folder as a PyArrow dataset, and the name of the label column. The classes, the
# 16 shades of a pixel and a bound on their sum are public. The fit runs in a separate process that
# returns the increase of its peak memory.

import subprocess
import sys

FIT = f"""
import pickle, re, sys
import numpy as np
import pyarrow.dataset
from skdirdp import DirichletNB

def peak():  # in MiB, on Linux
    return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / 1024

model = DirichletNB(epsilon=0.1, classes=range(10), max_count=16, max_total=400)
files = sorted({[str(path) for path in folder.iterdir()]!r})
model.fit(np.eye(64)[:10], range(10))  # imports all modules
before = peak()
model.fit(pyarrow.dataset.dataset(files), "digit")
pickle.dump((model, peak() - before), sys.stdout.buffer)
"""
import pickle

done = subprocess.run([sys.executable, "-c", FIT], check=True, capture_output=True)
model, growth = pickle.loads(done.stdout)
print(model.privacy_)
print(f"increase of the peak memory: {growth:.0f} MiB")

# %%
# Comparison of the sizes
# -----------------------

import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(7, 2.2))
sizes = {"memory of the fit": growth, "size of the folder": on_disk}
axis.barh(list(sizes), list(sizes.values()), color=["C0", "0.6"])
axis.set_xlabel("MiB")
plt.tight_layout()

# %%
# The model
# ---------
#
# The released model is small and predicts like any other model. We test it on the original scans.

import pandas as pd

scans = pd.DataFrame(digits.data, columns=digits.feature_names)
print(f"accuracy on the scans: {model.score(scans, digits.target):.3f}")

# %%
# ``fit`` also accepts a Polars query or a DuckDB relation over the folder, or a Dask frame whose
# workers count the records. See :doc:`../scale`.

import shutil

shutil.rmtree(folder)
