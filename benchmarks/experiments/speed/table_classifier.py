"""Fits of PrivateTableClassifier beside naive Bayes."""

from collections.abc import Iterator

from ..table_classifier_cost import AT_MOST_RATIO, CLASSES, N_COLUMNS, time_long
from .promise import Timing


def time_table_classifier(quick: bool) -> Iterator[Timing]:
    n = 10_000 if quick else 1_000_000
    for n_classes in CLASSES:
        for row in time_long(n, n_classes, has_signal=True):
            peer = "DirichletCategoricalNB"
            yield Timing(
                f"PrivateTableClassifier.fit of {row['input']}",
                f"{n} x {N_COLUMNS}, {n_classes} classes",
                row["seconds"],
                row["naive_bayes"],
                peer if row["input"] == "arrays" else f"schema.encoder() and {peer}",
                at_most_ratio=AT_MOST_RATIO,
            )
