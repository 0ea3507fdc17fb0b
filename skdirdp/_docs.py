"""Docstring entries for parameters and attributes shared by several estimators."""

import re
from textwrap import indent
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)

_ENTRIES = """\
alpha : float or array-like of shape (n_features,), default=1.0
    Additive smoothing parameter, in counts: one value or one per feature. Without
    post-processing, the budget may require more smoothing; see `alpha_`.
fit_prior : bool, default=True
    Whether to learn class priors. If False, they are uniform.
class_prior : array-like of shape (n_classes,), default=None
    Prior probabilities of the sorted classes. If given, the priors are not learnt from
    the data, and `classes`, if also given, must be sorted.
force_alpha : bool, default=True
    If False, an `alpha` below 1e-10 is set to 1e-10, with a warning.
classes : array-like of shape (n_classes,), default=None
    All labels that may occur. They are public: the presence of a label is not protected.
max_count : float, default=None
    Public bound on every entry of X.
max_total : float or "auto", default=None
    Public bound on the total of every row. Values above `max_count` times the number of
    features have no additional cost. "auto" uses the bound that the previous pipeline step
    declares, or else `max_count` times the square root of the number of features.
epsilon : float, default=1.0
    Privacy budget of one fit. With `float("inf")` no noise is added.
delta : float, default=1e-5
    The fit is (epsilon, delta)-differentially private.
order : float, default=None
    If given, the fit satisfies (order, epsilon)-Renyi differential privacy instead, and
    `delta` is ignored.
mechanism : {"dirichlet", "gaussian", "laplace", "auto"}, default="dirichlet"
    Noise distribution. "laplace" allows `delta=0`. "auto" selects the mechanism with the
    smallest expected KL divergence for the public table sizes and the budget.
calibration : {"exact", "algorithm1", "tcdp"}, default="exact"
    How the noise is calibrated. "algorithm1" and "tcdp" reproduce published methods.
adjacency : {"replace", "add_remove"}, default="replace"
    Whether neighbouring data sets differ by replacing one record, or by adding or
    removing one.
n_samples : float, default=None
    Public number of records, used to calibrate the noise. If None, the actual number
    is used, which is public only if `adjacency` is "replace".
max_weight : float, default=None
    Public bound on `sample_weight`. If None, the bound is 1 or the largest weight,
    whichever is larger; a weight above 1 causes a warning.
max_rows : int, default=1
    Public bound on the number of records per person; a person's records are protected
    together. If `groups` is passed to `fit`, only the first `max_rows` records of each
    person are counted. Otherwise the bound is assumed to hold.
postprocess : bool, default=True
    Whether to post-process the noisy counts, at no privacy cost: estimates borrow
    strength from similar rows and shared margins. If False, the noisy counts are used
    as drawn.
accountant : PrivacyAccountant, default=None
    Accountant to which every fit is charged before noise is drawn.
label : str, default=None
    Name of the fit in the accountant's history. If None, the name of the class.
random_state : int, Generator, RandomState or None, default=None
    If None, the noise is cryptographically secure. Any other value makes the noise
    reproducible, and anyone who knows it can remove the noise.
classes_ : ndarray of shape (n_classes,)
    Class labels.
class_count_ : ndarray of shape (n_classes,)
    Number of records in each class: exact if no noise is added, otherwise the released
    prior times the public number of records.
class_log_prior_ : ndarray of shape (n_classes,)
    Released log probability of each class.
feature_log_prob_ : ndarray of shape (n_classes, n_features)
    Released log probability of each feature given a class.
alpha_ : float or ndarray
    Smoothing in counts: `alpha`, or the larger value that the budget requires without
    post-processing.
privacy_ : PrivacyReport
    Privacy guarantee of the fit.
n_features_in_ : int
    Number of features seen during fit.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of features seen during fit, if all names are strings.
columns : array-like of column names, default=None
    Names of the columns of X if it is an array. If None, they are numbered from 0.
model_ : pgmpy DiscreteBayesianNetwork
    Released network, built when first accessed.
"""
_ENTRY = re.compile(r"^(\w+) :.*\n(?:    .*\n)*", re.MULTILINE)
_TEXTS = {entry[1]: entry[0] for entry in _ENTRY.finditer(_ENTRIES)}
_PLACEHOLDER = re.compile(r"^( *)\{([\w, ]+)\}\n", re.MULTILINE)


def shared_docs(cls: _Class) -> _Class:
    """Replace lines such as ``{epsilon, delta}`` in a class docstring with the shared entries."""

    def expand(line: re.Match[str]) -> str:
        return indent("".join(_TEXTS[name] for name in line[2].split(", ")), line[1])

    if cls.__doc__ is not None:  # None with `python -OO`
        cls.__doc__ = _PLACEHOLDER.sub(expand, cls.__doc__)
    return cls
