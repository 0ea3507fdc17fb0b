"""
A published Bayesian network, and synthetic records
===================================================

`PrivateBayesNetMLE` learns the tables of a Bayesian network whose structure is known. What comes
out is a pgmpy network that may be published, and from which any number of synthetic records can
be drawn at no further cost in privacy.
"""

# %%
# Data with public states
# -----------------------
#
# Four columns of the breast cancer data and the diagnosis. Numbers are cut at round values that
# were fixed beforehand, so the states are public. Cutting at the data's own quantiles would not be
# private.

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
# The structure comes from what is known of the matter, not from the data. One table is released per
# node, five in all; a record moves one count in each.

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
# The whole network, with its tables: a row for each configuration of the parents, a column for
# each state.

import matplotlib.pyplot as plt

from skdirdp.displays import BayesNetDisplay

BayesNetDisplay.from_estimator(network)
plt.show()

# %%
# It is an ordinary pgmpy network:

print(network.model_.check_model())
print(network.model_.get_cpds("radius"))

# %%
# pgmpy answers questions from the released tables:

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
# A sample is computed from the released tables alone. It costs nothing, and a seed is safe here.

synthetic = network.sample(5000, random_state=0)
synthetic.head()

# %%
# Large and small tumours by diagnosis, and the other columns likewise, in the records and in the
# sample. (The left bars are exact counts of the data. This comparison is not private; it is here
# to show what the noise does.)

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
# A model that is learnt from synthetic records is post-processing of the release, hence as private
# as the network. Here is one, scored on the real records, beside one that learnt from those:

from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

encoder = OrdinalEncoder(categories=[states[name] for name in cuts])
for name, table in (("synthetic", synthetic), ("real", records)):
    model = make_pipeline(encoder, CategoricalNB())
    model.fit(table[list(cuts)], table["diagnosis"])
    accuracy = model.score(records[list(cuts)], records["diagnosis"])
    print(f"learnt from {name} records: accuracy {accuracy:.3f}")
