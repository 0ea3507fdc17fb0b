"""
Synthetic records from a raw table
==================================

`PrivateBayesNet` needs only the schema of a table. It learns which columns depend on each other
within the same budget as the parameters. Any number of synthetic records can be drawn from the
fitted network.
"""

# %%
# Data and public parameters
# --------------------------
#
# The data are artificial answers to a survey, with missing values. The towns are not declared.

import numpy as np
import pandas as pd

rng = np.random.default_rng(0)


def survey(n):
    age = rng.integers(18, 91, n)
    education = np.clip((rng.normal(2, 1, n) - (age > 65)).round(), 0, 3).astype(int)
    works = rng.random(n) < np.where(age < 66, 0.6 + 0.1 * education, 0.1)
    income = np.where(works, rng.gamma(3, 400 + 250 * education), 0.0)
    table = pd.DataFrame(
        {
            "age": age,
            "education": np.array(["none", "school", "college", "university"])[education],
            "works": np.where(works, "yes", "no"),
            "income": income,
            "town": rng.choice(["Aarhus", "Bergen", "Cork", "Delft"], n, p=[0.4, 0.3, 0.2, 0.1]),
        }
    )
    table.loc[rng.random(n) < 0.05, "income"] = np.nan
    return table


answers = survey(20_000)
states = {"education": ["none", "school", "college", "university"], "works": ["yes", "no"]}
bounds = {"age": (18, 90), "income": (0.0, 10_000.0)}
answers.head()

# %%
# One fit, one charge
# -------------------

from skdirdp import PrivacyAccountant, PrivateBayesNet

accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
model = PrivateBayesNet(
    states=states, bounds=bounds, target="works", epsilon=1.0, accountant=accountant
)
model.fit(answers)
print(model.privacy_)
print(len(accountant), "charge")

# %%
# The learnt network. Numbers are binned into ranges with about equally many records.

from skdirdp.displays import BayesNetDisplay

BayesNetDisplay.from_estimator(model)

# %%
# Synthetic records
# -----------------
#
# Samples have the same columns and types as the table, and also contain missing values. They can
# be conditioned on values.

model.sample(5, random_state=0)

# %%

model.sample(5, random_state=0, given={"age": (70, 90), "works": "yes"})

# %%
# Comparison with public records
# ------------------------------
#
# If similar records are public, such as an earlier survey, margins can be compared with their
# margins. In this example they come from the same distribution, so all differences are due to
# privacy noise and sampling.

from skdirdp.displays import MarginsDisplay

MarginsDisplay.from_estimator(model, survey(20_000))

# %%
# The standard deviation of the noise in a joint share of two columns is known. It follows from
# the budget and the sizes of the tables.

print(model.marginal(["education", "works"]).round(3))
print(f"{model.marginal_error(['education', 'works']):.4f}")

# %%
# Inference from several tables
# -----------------------------
#
# Synthetic records are not real records: intervals that treat them as such are too short. For
# inference, draw several tables, compute the estimate and its variance on each, and combine them.
# The structure should be given, because a learnt structure may lack the dependence in question.
# Here we compare the shares of those who work, with and without a university degree.

from skdirdp import PrivateBayesNetMLE
from skdirdp.inference import combine

known = answers[["education", "works"]]
network = PrivateBayesNetMLE([("education", "works")], states=states, epsilon=1.0).fit(known)
values, variances = [], []
for table in network.sample_tables(20):
    works = (table["works"] == "yes").groupby(table["education"] == "university")
    shares, sizes = works.mean(), works.size()
    values.append(shares[True] - shares[False])
    variances.append((shares * (1 - shares) / sizes).sum())
print("several tables:", combine(values, variances))

# %%
# The difference in the population that the answers were drawn from:

population = survey(1_000_000)
works = (population["works"] == "yes").groupby(population["education"] == "university").mean()
print(f"population: {works[True] - works[False]:.4f}")
