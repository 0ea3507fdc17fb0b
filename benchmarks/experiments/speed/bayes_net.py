"""A network of 37 nodes: its fit, predictions and samples."""

from collections.abc import Iterator
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd

from skdirdp import PrivateBayesNetMLE

from ... import workloads
from ...timing import alternate, processor_seconds
from .promise import Timing

INFINITE = float("inf")


def time_network(quick: bool) -> Iterator[Timing]:
    from pgmpy.global_vars import config
    from pgmpy.parameter_estimator import DiscreteMLE

    config.set_show_progress(False)
    n, asked = (2000, 5) if quick else (50_000, 1000)
    network, strings = workloads.alarm(n)
    model = PrivateBayesNetMLE(network, states=network.states, target="HR").fit(strings)
    exact = PrivateBayesNetMLE(network, states=network.states, epsilon=INFINITE, alpha=0.0)
    exact.fit(strings)
    cells = _family_cells(exact, strings)
    for kind, faster in (("strings", 2), ("categoricals", 4)):
        table = strings if kind == "strings" else strings.astype("category")
        theirs = DiscreteMLE(state_names=network.states)
        times = alternate(
            partial(model.fit, table),
            partial(theirs.fit, network, table),
            lambda: [np.bincount(column) for column in cells.values()],
            repeats=1 if quick else 3,
        )
        yield Timing(
            f"PrivateBayesNetMLE.fit of {kind}",
            f"alarm, {n} records",
            times[0],
            times[1],
            "pgmpy's DiscreteMLE",
            times[2],
            "bincount of known cells",
            at_most_ratio=1 / faster,
            difference=_table_gap(exact.model_, theirs.parameters_),
        )

    some = strings.iloc[:asked].drop(columns="HR")
    blanket = [
        np.log(model.probabilities_[node]).ravel()
        for node, parents in model.structure_.items()
        if "HR" in (node, *parents)
    ]
    states = len(model.classes_)
    chosen = [
        np.random.default_rng(0).integers(0, table.size, (asked, states)) for table in blanket
    ]
    answers: dict[str, Any] = {}
    ours, plain = alternate(
        lambda: answers.update(ours=model.predict(some)),
        lambda: sum(table[rows] for table, rows in zip(blanket, chosen, strict=True)),
        repeats=10,
    )
    with redirect_stderr(StringIO()):  # a progress bar that cannot be turned off
        theirs_seconds = processor_seconds(  # once: it takes too long for more
            lambda: answers.update(theirs=model.model_.predict(some, n_jobs=1))
        )
    yield Timing(
        "PrivateBayesNetMLE.predict",
        f"alarm, one column of {asked} records",
        ours,
        theirs_seconds,
        "pgmpy's predict",
        plain,
        "gather and add over the Markov blanket",
        at_most_ratio=1 / 500,
        difference=float(np.mean(answers["ours"] != answers["theirs"]["HR"].to_numpy())),
    )

    ours, theirs_seconds, plain = alternate(
        lambda: answers.update(ours=model.sample(n)),
        lambda: answers.update(theirs=model.model_.simulate(n)),
        partial(np.random.default_rng(0).random, strings.shape),
        repeats=1 if quick else 2,
    )
    shares = [answers[side]["HR"].value_counts(normalize=True) for side in ("ours", "theirs")]
    yield Timing(
        "PrivateBayesNetMLE.sample",
        f"alarm, {n} records",
        ours,
        theirs_seconds,
        "pgmpy's simulate",
        plain,
        "the uniform numbers",
        at_most_ratio=1 / 5,
        difference=float(shares[0].sub(shares[1], fill_value=0).abs().max()),
    )


def _family_cells(model: PrivateBayesNetMLE, table: pd.DataFrame) -> dict[str, np.ndarray]:
    """The cell of each record in each node's table."""
    codes = {
        node: pd.Categorical(table[node], categories=states).codes
        for node, states in model.states_.items()
    }
    cells = {}
    for node, parents in model.structure_.items():
        family = (*parents, node)
        sizes = [len(model.states_[name]) for name in family]
        cells[node] = np.ravel_multi_index([codes[name] for name in family], sizes)
    return cells


def _table_gap(network, tables) -> float:
    """The largest difference between two networks' tables, parents in any order."""
    largest = 0.0
    for theirs in tables:
        ours = network.get_cpds(theirs.variable)
        order = [theirs.variables.index(name) for name in ours.variables]
        largest = max(largest, float(np.abs(ours.values - theirs.values.transpose(order)).max()))
    return largest
