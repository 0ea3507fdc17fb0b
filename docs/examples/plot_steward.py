"""
A steward's day
===============

A data steward is responsible for the privacy budget of a survey. Analysts fit models, and the
steward decides how much may be published. The steward uses the command ``skdirdp``, which this
example calls from Python. The survey is the `fair` data set of statsmodels: 6366 women on their
marriages.
"""

# %%
# 9:00, a ledger
# --------------
#
# The steward creates a ledger with a limit. Each charge is stored in this file before noise is
# drawn.

import subprocess
import sys
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())


def skdirdp(*arguments):
    command = [sys.executable, "-m", "skdirdp", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    print(f"$ skdirdp {' '.join(arguments)}\n{done.stdout}{done.stderr}")


limit = ["--epsilon", "2", "--delta", "1e-5"]
skdirdp("ledger", "create", "survey.sqlite", "--name", "Survey", *limit)

# %%
# 10:00, an analyst
# -----------------
#
# An analyst opens the ledger by its path. Every fit with this accountant is charged.

from statsmodels.datasets import fair

from skdirdp import PrivacyAccountant, PrivateCrosstab, PrivateTableClassifier, Schema

survey = fair.load_pandas().data
survey["affair"] = (survey.pop("affairs") > 0).astype(int)
codes = [1, 2, 3, 4, 5, 6]
schema = Schema(
    {
        "rate_marriage": codes[:5],
        "age": (15, 60),
        "yrs_married": (0, 40),
        "children": (0.0, 10.0),
        "religious": codes[:4],
        "educ": (8, 20),
        "occupation": codes,
        "occupation_husb": codes,
        "affair": [0, 1],
    }
)
accountant = PrivacyAccountant(path=folder / "survey.sqlite")
model = PrivateTableClassifier(schema, epsilon=1.0, accountant=accountant, label="risk model")
model.fit(survey, y="affair")
print(model.privacy_)

# %%
# 11:00, tables for a report
# --------------------------
#
# Another analyst needs tables with confidence intervals. The intervals account for the noise.

wanted = [("rate_marriage", "affair"), ("religious", "affair"), ("occupation",)]
tables = PrivateCrosstab(schema, tables=wanted, epsilon=1.0, accountant=accountant, label="tables")
tables.fit(survey)
tables.table("rate_marriage", "affair").round()

# %%

from skdirdp.displays import ForestDisplay

display = ForestDisplay.from_estimator(tables, {"affair": 1}, "rate_marriage")

# %%
# 14:00, a request that is too large
# ----------------------------------
#
# A fit that would exceed the limit is refused before any noise is drawn, and nothing is charged.

from skdirdp import BudgetExceededError

try:
    PrivateCrosstab(schema, epsilon=2.0, accountant=accountant, label="all pairs").fit(survey)
except BudgetExceededError as error:
    print(error)

# %%
# 16:00, what is spent
# --------------------

skdirdp("ledger", "show", "survey.sqlite")
skdirdp("ledger", "total", "survey.sqlite")

# %%
# 17:00, the records of the day
# -----------------------------
#
# The steward verifies the ledger, stores its anchor in another place, and writes the report for
# the data protection officer: one HTML file.

anchor = accountant.anchor()
skdirdp("ledger", "verify", "survey.sqlite", "--expect", str(anchor))
skdirdp("ledger", "report", "survey.sqlite", "-o", "survey.html")
accountant.history()
