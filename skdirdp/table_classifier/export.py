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


def linear_pipeline(
    columns: Sequence[Column],
    bins: Sequence[np.ndarray],
    model: AdditiveModel,
    classes: np.ndarray,
) -> Any:
    """Return an encoder of the columns, and a logistic regression on their categories and bins."""
    dated = [column.name for column in columns if isinstance(column.kind, Dates)]
    if dated:
        raise ValueError(f"columns must be categories or numbers to be exported; {dated} are dates")
    steps, effects, sample, edges = [], [], {}, {}
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
        steps.append((str(name), encoder, [name]))
    encoder = ColumnTransformer(steps).fit(pd.DataFrame(sample))
    for name, bin_edges in edges.items():
        encoder.named_transformers_[str(name)][-1].bin_edges_[0] = np.array(bin_edges)
    linear, coef = LogisticRegression(), np.vstack(effects).T
    linear.classes_, linear.n_features_in_ = classes, coef.shape[1]
    linear.coef_, linear.intercept_ = coef, intercept
    if len(classes) == 2:
        linear.coef_, linear.intercept_ = coef[1:] - coef[:1], np.diff(intercept)
    linear.n_iter_ = np.zeros(1, dtype=np.int32)
    return make_pipeline(encoder, linear)
