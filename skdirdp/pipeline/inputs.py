"""Records, labels and ids of a pipeline fit, read with the schema of the first step."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import TransformerMixin

from .._messages import errors_without_data
from .._persons import SharedGroups, check_person
from .._sklearn_compat import take_records
from ..base import PrivateEstimator
from ..schema import (
    NO_PERSON,
    Names,
    Records,
    Schema,
    SchemaEncoder,
    convert_ids,
    declared_labels,
    is_in_memory,
    labels_or_none,
    read_labels,
)
from .public_steps import reachable


class FitInputs(NamedTuple):
    """Inputs of a pipeline fit, and the public facts that the schema declares about them."""

    X: Any
    y: Any
    params: dict[str, Any]
    groups: Any = None  # person ids
    max_rows: int | None = None  # the schema's bound on the number of records per person
    labelled: np.ndarray | None = None  # mask of the records with a label; None for all
    n_categories: np.ndarray | None = None  # of each column that the encoder returns
    classes: np.ndarray | None = None  # declared values of the label column

    def shared_groups(self) -> SharedGroups:
        return SharedGroups(self.groups, self.max_rows, self.labelled)

    def known_after(self, step: Any) -> dict[str, Any]:
        """Return the public parameters that are known for the estimator right after a step."""
        known = {} if self.classes is None else {"classes": self.classes}
        if type(step) is SchemaEncoder and self.n_categories is not None:
            known["n_categories"] = self.n_categories
        return known


def find_schema(estimator: Any) -> Schema | None:
    """Return the schema of an estimator, a pipeline's first step, or a search's best estimator."""
    model = getattr(estimator, "best_estimator_", estimator)
    if not hasattr(model, "steps"):
        schema = getattr(model, "schema", None)
        return schema if isinstance(schema, Schema) else None
    steps = [step for _, step in model.steps if step not in (None, "passthrough")]
    return steps[0].schema if steps and encodes_with_schema(steps[0]) else None


def encodes_with_schema(step: Any) -> bool:
    """Return whether a step encodes the columns of a table with its schema."""
    if type(step) is SchemaEncoder:
        return True
    is_private = isinstance(step, PrivateEstimator) and isinstance(step, TransformerMixin)
    return is_private and isinstance(getattr(step, "schema", None), Schema)


def read_inputs(pipe: Any, X: Any, y: Any, params: dict[str, Any], groups: Any) -> FitInputs:
    """Read the inputs of a fit, and remove the label column from X if it is given by name."""
    schema = find_schema(pipe)
    _check_encoders(pipe, schema)
    if schema is None:
        return FitInputs(X, y, params, groups)
    _check_no_vectors(X, y, groups, *params.values())
    records = schema.records(X, optional=True)
    labelled = classes = None
    if isinstance(y, str):
        classes = declared_labels(schema, y)
        others = {name: values for name, values in records.columns.items() if name != y}
        y, labelled = read_labels(schema, y, _column(records, y))
        records = Records(others, records.n_records)
    ids, max_rows = schema.person_ids(records), None
    if ids is not None:
        check_person(schema, groups, schema.max_rows)
        groups, max_rows = ids, schema.max_rows
    groups = _mask_unlabelled(groups, labelled)
    kinds = [schema[name] for name in schema.features if name in records.columns]
    n_categories = np.array([kind.n_cells for kind in kinds if not isinstance(kind, Names)])
    return FitInputs(records, y, params, groups, max_rows, labelled, n_categories, classes)


def _check_no_vectors(X: Any, y: Any, *others: Any) -> None:
    """Raise an error if vectors are passed with a table that is not in memory."""
    # The rows of such a table may be in a different order from the entries of the vectors.
    is_given = (y is not None and not isinstance(y, str)) or any(v is not None for v in others)
    if is_given and not is_in_memory(X):
        raise TypeError(
            "y must be the name of a column, and groups and weights must not be given, if X is not "
            f"in memory; X is {type(X).__name__}"
        )


def collect(estimator: Any, X: Any, y: Any, *others: Any) -> Any:
    """Read a table that is not in memory into a DataFrame, with the schema of an estimator."""
    schema = find_schema(estimator)
    if schema is None or is_in_memory(X):
        return X
    _check_no_vectors(X, y, *others)
    return pd.DataFrame(schema.records(X, optional=True).columns)


def _column(records: Records, name: str) -> Any:
    if name not in records.columns:
        raise ValueError(f"y must be the name of a column of X; {name!r} is not one")
    return records.columns[name]


def _mask_unlabelled(groups: Any, labelled: np.ndarray | None) -> Any:
    """Return the ids, with `NO_PERSON` as the id of each record without a label."""
    if groups is None or labelled is None:
        return groups
    with errors_without_data(groups=groups):
        ids = np.array(list(convert_ids(groups)), dtype=object)
    if ids.shape != labelled.shape:
        raise ValueError(f"groups must have one id per row of X ({len(labelled)}); got {len(ids)}")
    ids[~labelled] = NO_PERSON
    return ids


def _check_encoders(pipe: Any, schema: Schema | None) -> None:
    """Raise an error if a schema declares a person column that the fit would not use."""
    encoders = [step for step in reachable(pipe) if encodes_with_schema(step)]
    if any(each.schema.person is not None and each.schema is not schema for each in encoders):
        raise ValueError(
            "a schema with a person column must belong to the first step of the PrivatePipeline: "
            "otherwise the private steps do not receive the person ids. Nothing was charged"
        )


def labels_by_name(estimator: Any, X: Any, y: Any) -> Any:
    """Return the labels in the column that `y` names, with None for records without a label.

    If `y` is not a name, it is returned unchanged.
    """
    if not isinstance(y, str):
        return y
    schema = find_schema(estimator)
    if schema is None:
        raise TypeError(
            "y may be the name of a column only if the estimator has a schema, or is a pipeline "
            "whose first step has one, such as schema.encoder(); got a name"
        )
    return labels_or_none(schema, y, _column(schema.records(X, optional=True), y))


def labelled_records(estimator: Any, X: Any, y: Any) -> tuple[Any, Any, np.ndarray]:
    """Return the records that have a label, their labels and their positions."""
    X = collect(estimator, X, y)
    labels = labels_by_name(estimator, X, y)
    schema: Any = find_schema(estimator)
    rows = np.flatnonzero([label is not None for label in labels])
    labels = np.array(labels[rows].tolist(), dtype=declared_labels(schema, y).dtype)
    return take_records(X, rows), labels, rows


def person_ids_from_schema(estimator: Any, X: Any, y: Any) -> tuple[np.ndarray, int] | None:
    """Return the person ids and `max_rows`, or None if the schema declares no person column."""
    schema = find_schema(estimator)
    if schema is None or schema.person is None:
        return None
    records = schema.records(X, optional=True)
    labelled = read_labels(schema, y, _column(records, y))[1] if isinstance(y, str) else None
    ids: Any = schema.person_ids(records)
    return _mask_unlabelled(ids, labelled), schema.max_rows
