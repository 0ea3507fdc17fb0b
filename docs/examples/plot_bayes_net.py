"""
Bayesian networks and synthetic records
=======================================

`PrivateBayesNetMLE` learns the tables of a Bayesian network with a known structure. The result is a
pgmpy network that may be published. Any number of synthetic records can be drawn from it without
additional privacy cost.
"""

# %%
# Data with public states
# -----------------------
#
# The table contains four columns of the breast cancer data and the diagnosis. Numbers are binned at
# round values that were fixed in advance, so the states are public. Binning at the quantiles of the
# data would not be private.

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

data = load_breast_cancer(as_frame=True)
cuts = {
    "radius": ("mean radius", [0, 12, 16, 100], ["small", "medium", "large"]),
    "texture": ("mean texture", [0, 20, 100], ["fine", "coarse"]),
    "concavity": ("mean concavity", [-1, 0.05, 0.1, 10], ["low", "middle", "high"]),
    "symmetry": ("mean symmetry", [0, 0.18, 10], ["low", "high"]),
}
records = pd.DataFrame(
    {
        name: pd.cut(data.data[column], edges, labels=labels).astype(str)
        for name, (column, edges, labels) in cuts.items()
    }
)
records["diagnosis"] = np.where(data.target == 1, "benign", "malignant")
states = {name: labels for name, (_, _, labels) in cuts.items()}
states["diagnosis"] = ["benign", "malignant"]
records.head()

# %%
# Fit and publish
# ---------------
#
# The structure comes from domain knowledge, not from the data. One table is released per node, five
# in total. A record contributes one count to each of them.

from skdirdp import PrivacyAccountant, PrivateBayesNetMLE

structure = {
    "radius": ["diagnosis"],
    "texture": ["diagnosis"],
    "concavity": ["diagnosis", "radius"],
    "symmetry": ["concavity"],
}
accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
network = PrivateBayesNetMLE(
    structure, states=states, target="diagnosis", epsilon=1.0, accountant=accountant
).fit(records)
print(network.privacy_.epsilon, network.privacy_.delta, network.privacy_.releases)

# %%
# `BayesNetDisplay` plots the network with its tables. A table has one row per configuration of the
# parents and one column per state.

import matplotlib.pyplot as plt

from skdirdp.displays import BayesNetDisplay

BayesNetDisplay.from_estimator(network)
plt.show()

# %%
# ``model_`` is a regular pgmpy network:

print(network.model_.check_model())
print(network.model_.get_cpds("radius"))

# %%
# Use pgmpy to query the released tables:

from pgmpy.inference import VariableElimination

print(
    VariableElimination(network.model_).query(
        ["diagnosis"], evidence={"radius": "large", "concavity": "high"}, show_progress=False
    )
)

# %%
# Synthetic records
# -----------------
#
# Sampling uses only the released tables. It has no privacy cost, and a seed is safe here.

synthetic = network.sample(5000, random_state=0)
synthetic.head()

# %%
# The figure compares the malignant cases of the records and of the sample. The left bars are exact
# counts of the data, so this comparison is not private. It shows the effect of the noise.

_, axes = plt.subplots(1, 4, figsize=(10, 3.2), sharey=True)
for ax, column in zip(axes, cuts, strict=True):
    order = states[column]
    for shift, (table, colour, name) in enumerate(
        [(records, "0.6", "records"), (synthetic, "C0", "synthetic")]
    ):
        malignant = table[table["diagnosis"] == "malignant"][column]
        shares = malignant.value_counts(normalize=True).reindex(order, fill_value=0)
        ax.bar(np.arange(len(order)) + 0.4 * (shift - 0.5), shares, 0.4, color=colour, label=name)
    ax.set_xticks(range(len(order)), order)
    ax.set_title(column)
axes[0].set_ylabel("share of the malignant cases")
axes[0].legend()
plt.tight_layout()

# %%
# A model that is fitted on synthetic records is post-processing of the release and has the same
# guarantee as the network. Compare its accuracy on the real records with a model that is fitted on
# the real records:

from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

encoder = OrdinalEncoder(categories=[states[name] for name in cuts])
for name, table in (("synthetic", synthetic), ("real", records)):
    model = make_pipeline(encoder, CategoricalNB())
    model.fit(table[list(cuts)], table["diagnosis"])
    accuracy = model.score(records[list(cuts)], records["diagnosis"])
    print(f"fitted on {name} records: accuracy {accuracy:.3f}")
