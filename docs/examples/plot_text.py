"""
Private text classification
===========================

This example fits a bag-of-words classifier that may be published, although its training texts may
not.

The texts are paragraphs from the docstrings of two libraries, and the classifier predicts the
library of a paragraph. These texts are not secret, but they are real and available wherever this
example runs. The same steps apply to letters or case notes. One *record* is one paragraph: the
guarantee protects single paragraphs, not an author of many paragraphs.
"""

# %%
# The texts
# ---------
#
# The docstrings are parsed from the source files, so nothing is imported or downloaded.

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np


def paragraphs(package, parts):
    root = Path(find_spec(package).origin).parent
    found = []
    for part in parts:
        for file in sorted((root / part).rglob("*.py")):
            if "tests" in file.parts:
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    found += (ast.get_docstring(node) or "").split("\n\n")
    prose = [p for p in found if len(re.findall("[A-Za-z]{3,}", p)) >= 8 and ">>>" not in p]
    return list(dict.fromkeys(prose))  # removes duplicate paragraphs


sklearn_parts = ["linear_model", "ensemble", "model_selection", "preprocessing", "metrics", "utils"]
scipy_parts = ["optimize", "signal", "interpolate", "integrate", "linalg"]
texts = {
    "sklearn": paragraphs("sklearn", sklearn_parts),
    "scipy": paragraphs("scipy", scipy_parts),
}
documents = np.array([*texts["sklearn"], *texts["scipy"]])
labels = np.repeat(list(texts), [len(found) for found in texts.values()])
print({name: len(found) for name, found in texts.items()})
print(documents[0])

# %%
# Public parameters
# -----------------
#
# Four parameters must be known without looking at the private texts:
#
# * the classes;
# * the vocabulary. A vocabulary learnt from the texts would reveal which words occur in them, and
#   one rare word can be enough to identify a person. We use the thousand most frequent words of a
#   third text, the docstrings of NumPy;
# * ``max_count``, the largest count of one word in one paragraph: one;
# * ``max_total``, the largest number of words that one paragraph contributes: twenty.
#
# A paragraph with more than twenty words of the vocabulary is scaled down to a total of twenty.
# Smaller bounds need less noise but discard more of long paragraphs.

from sklearn.feature_extraction.text import CountVectorizer

words = {"stop_words": "english", "token_pattern": "[a-z]{3,}"}
public_text = paragraphs("numpy", ["lib", "linalg", "ma", "random", "polynomial"])
vocabulary = CountVectorizer(max_features=1000, **words).fit(public_text).get_feature_names_out()
print(vocabulary[::100])

# %%
# The pipeline
# ------------
#
# The data are split by position (`train_test_split` without ``stratify``), so replacing one record
# changes at most one row of the training set.

from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from skdirdp import DirichletNB, PrivacyAccountant

train, test, y_train, y_test = train_test_split(documents, labels, random_state=0)

accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
private = make_pipeline(
    CountVectorizer(vocabulary=vocabulary, **words),
    DirichletNB(
        classes=["scipy", "sklearn"], max_count=1, max_total=20, epsilon=1.0, accountant=accountant
    ),
)
private.fit(train, y_train)
print(private[-1].privacy_)
print(accountant)

# %%
# Compare it with `MultinomialNB` of scikit-learn, which is not private:

plain = make_pipeline(CountVectorizer(vocabulary=vocabulary, **words), MultinomialNB())
plain.fit(train, y_train)
print(f"not private:  {plain.score(test, y_test):.3f}")
print(f"epsilon = 1:  {private.score(test, y_test):.3f}")

# %%
# Accuracy and budget
# -------------------
#
# Every fit in this figure is an additional release. Before publishing such a figure, all fits must
# be charged to one accountant. The accuracies are computed from exact test records, so they are not
# private either.

import matplotlib.pyplot as plt

from skdirdp.displays import BudgetCurveDisplay

counts = plain[:-1].transform(train)
test_counts = plain[:-1].transform(test)
_, ax = plt.subplots(figsize=(6, 4))
for mechanism in ("dirichlet", "auto"):
    BudgetCurveDisplay.from_estimator(
        DirichletNB(classes=["scipy", "sklearn"], max_count=1, max_total=20, mechanism=mechanism),
        counts,
        y_train,
        X_test=test_counts,
        y_test=y_test,
        epsilons=[0.1, 0.3, 1, 3, 10],
        n_repeats=2,
        name=f'mechanism="{mechanism}"',
        ax=ax,
    )
ax.axhline(plain.score(test, y_test), color="0.5", linestyle="--", label="MultinomialNB")
ax.legend()
plt.tight_layout()

# %%
# ``mechanism="auto"`` selects Gaussian noise in this example: according to the public sizes, a row
# of this table may contain a few times more counts than the number of its cells times the standard
# deviation of the noise. See :doc:`/choosing`.

automatic = DirichletNB(classes=["scipy", "sklearn"], max_count=1, max_total=20, mechanism="auto")
print(automatic.fit(counts, y_train).privacy_.mechanism)
