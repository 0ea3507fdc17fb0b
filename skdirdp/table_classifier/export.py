"""Fitted additive classifiers as pipelines of scikit-learn."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder

from ..schema import OUTSIDE, Categories, Dates
from .model import AdditiveModel
from .releases import Column

# In exported models, missing numbers are replaced by the first, and have the bin below the second.
# Both are floats of single precision, which ONNX uses.
_MISSING, _BELOW = -1e38, -1e37


def _check_exportable(columns: Sequence[Column]) -> None:
    """Raise an error for columns that the steps of scikit-learn cannot encode."""
    dated = [column.name for column in columns if isinstance(column.kind, Dates)]
    if dated:
        raise ValueError(f"columns must be categories or numbers to be exported; {dated} are dates")
    mixed = [
        column.name
        for column in columns
        if isinstance(column.kind, Categories)
        and len({isinstance(value, str) for value in column.kind.values}) > 1
    ]
    if mixed:
        raise ValueError(
            "columns must have categories of one type to be exported, because encoders of "
            f"scikit-learn require it; {mixed} mix text and numbers"
        )


def linear_pipeline(
    columns: Sequence[Column],
    bins: Sequence[np.ndarray],
    model: AdditiveModel,
    classes: np.ndarray,
) -> Any:
    """Return an encoder of the columns, and a logistic regression on their categories and bins."""
    _check_exportable(columns)
    steps: list[tuple[str, Any, list]] = []
    effects, sample, edges = [], {}, {}
    intercept = model.intercept
    for column, groups, effect in zip(columns, bins, model.effects, strict=True):
        kind, name = column.kind, column.name
        if isinstance(kind, Categories):
            # Other values are encoded as zeros, so their effect is in the intercept.
            other = effect[kind.finish(np.array([OUTSIDE]))[0]]
            intercept = intercept + other
            if not kind.values:
                continue
            effects.append(effect[: len(kind.values)] - other)
            encoder: Any = OneHotEncoder(
                categories=[list(kind.values)], handle_unknown="ignore", sparse_output=False
            )
            sample[name] = [kind.values[0]] * 2
        else:
            edges[name] = [-np.inf, _BELOW, *column.inner_edges(groups), np.inf]
            missing = effect[-1:] if kind.missing else effect[:1]
            effects.append(np.vstack([missing, effect[: len(edges[name]) - 2]]))
            encoder = make_pipeline(
                SimpleImputer(strategy="constant", fill_value=_MISSING),
                KBinsDiscretizer(len(edges[name]) - 1, encode="onehot-dense", strategy="uniform"),
            )
            sample[name] = [0.0, 1.0]
        steps.append((f"column_{len(steps)}", encoder, [name]))
    encoder = ColumnTransformer(steps).fit(pd.DataFrame(sample))
    for _, fitted, (name,) in encoder.transformers_:
        if name in edges:
            fitted[-1].bin_edges_[0] = np.array(edges[name])
    linear, coef = LogisticRegression(), np.vstack(effects).T
    linear.classes_, linear.n_features_in_ = classes, coef.shape[1]
    linear.coef_, linear.intercept_ = coef, intercept
    if len(classes) == 2:
        linear.coef_, linear.intercept_ = coef[1:] - coef[:1], np.diff(intercept)
    linear.n_iter_ = np.zeros(1, dtype=np.int32)
    return make_pipeline(encoder, linear)
