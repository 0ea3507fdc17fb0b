"""
From a raw table to synthetic records
=====================================

`PrivateBayesNet` takes a table of which nothing is known but the schema. Which columns depend on
each other is learnt within the same budget as all else, and any number of synthetic records can
be drawn from what comes out.
"""

# %%
# A table, and what is public of it
# ---------------------------------
#
# Made-up answers to a survey, with gaps, and with towns that nobody has listed.

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
model = PrivateBayesNet(states, bounds, target="works", epsilon=1.0, accountant=accountant)
model.fit(answers)
print(model.privacy_)
print(len(accountant), "charge")

# %%
# The network that was learnt. Numbers have become ranges, with about equally many records in each.

from skdirdp.displays import BayesNetDisplay

BayesNetDisplay.from_estimator(model)

# %%
# Synthetic records
# -----------------
#
# In the columns and types of the table, with its gaps; as many as wanted, and under conditions.

model.sample(5, random_state=0)

# %%

model.sample(5, random_state=0, given={"age": (70, 90), "works": "yes"})

# %%
# How far they are from others
# ----------------------------
#
# Where records of the same kind are public, those of an earlier survey say, margins can be compared
# with theirs. Here they are made up like the first, so that what differs is noise and chance.

from skdirdp.displays import MarginsDisplay

MarginsDisplay.from_estimator(model, survey(20_000))

# %%
# What noise alone adds to a share of two columns is known: it follows from the budget and the sizes
# of tables.

print(model.marginal(["education", "works"]).round(3))
print(f"{model.marginal_error(['education', 'works']):.4f}")
