"""Every speed and every use of memory that the library promises, beside the peers'."""

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import asdict, dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import digamma, gammaln

from skdirdp import PrivacyAccountant, PrivateBayesNetMLE, PrivateDirichletPosterior
from skdirdp.accounting import Composition, PureDP
from skdirdp.mechanisms import DirichletMechanism, GaussianMechanism, LaplaceMechanism

from .. import figures, workloads
from ..experiment import Claim, Experiment, Row, Settings
from ..timing import alternate, peak_memory, seconds

INFINITE = float("inf")


@dataclass(frozen=True)
class Timing:
    """One thing that was timed.

    Attributes
    ----------
    what, case : what is promised for, and which of its cases this is.
    ours, theirs : seconds; theirs is nan where the promise is in seconds.
    peer : who they are.
    plain : seconds of the barest numpy operation that any implementation needs.
    plain_is : which that is.
    at_most_ratio, at_most_seconds : what is promised of ours/theirs, or of ours.
    difference : how far our result without noise is from theirs, or from what it should be.
    """

    what: str
    case: str
    ours: float
    theirs: float = np.nan
    peer: str = ""
    plain: float = np.nan
    plain_is: str = ""
    at_most_ratio: float = np.nan
    at_most_seconds: float = np.nan
    difference: float = np.nan


# What is timed ---------------------------------------------------------------------


def time_release(quick: bool) -> Iterator[Timing]:
    rng = np.random.default_rng(0)
    shrink = 100 if quick else 1
    for rows, cells in ((1000, 1000), (100_000, 10), (500_000, 2)):
        counts = rng.integers(0, 100, (rows // shrink, cells)).astype(float)
        for r, alpha in ((0.05, 2.0), (1.0, 5.0), (0.01, 0.5), (0.001, 0.05)):
            shapes = r * counts + alpha
            mechanism = DirichletMechanism(r, alpha)
            ours, theirs = alternate(
                partial(mechanism.release, counts),
                partial(np.random.default_rng(1).standard_gamma, shapes),
                repeats=3 if quick else 9,
            )
            expected = digamma(shapes) - digamma(shapes.sum(axis=1, keepdims=True))
            released = mechanism.release(counts, random_state=0)
            yield Timing(
                f"release of {len(counts)} x {cells} cells",
                f"r = {r:g}, alpha = {alpha:g}",
                ours,
                theirs,
                "numpy's standard_gamma",
                theirs,
                "the same",
                at_most_ratio=1.5,
                difference=float(np.log(released).mean() / expected.mean() - 1),
            )


def time_calibration(quick: bool) -> Iterator[Timing]:
    sizes = {"n_samples": 34_189, "n_categories": 10, "n_rows": 2, "releases": 14}
    DirichletMechanism.calibrate(epsilon=0.7, delta=1e-6, **sizes)  # imports
    for case, kind in (("(1, 1e-5)-DP", {"delta": 1e-5}), ("(5, 1)-RDP", {"order": 5.0})):
        # Results are cached, so a cold call is one for a budget that was not asked before.
        calls = [
            partial(DirichletMechanism.calibrate, epsilon=epsilon, **kind, **sizes)
            for epsilon in (1.0, 1.001, 1.002)
        ]
        cold = min(seconds(call) for call in calls)
        warm = min(seconds(call) for call in calls)
        composed = Composition([(calls[0](), sizes["releases"])])
        spent = composed.epsilon(1e-5) if "delta" in kind else composed.rdp(5.0)
        for state, found, promised in (("cold", cold, 1.0), ("warm", warm, 1e-3)):
            yield Timing(
                f"calibration, {state}",
                case,
                found,
                at_most_seconds=promised,
                difference=float(spent) - 1,
            )


def time_categorical(quick: bool) -> Iterator[Timing]:
    n, features, sizes, classes = (10_000 if quick else 1_000_000), 20, 10, 5
    X, y = workloads.categories(n, features, sizes, classes)
    ours, theirs = workloads.private_categorical(sizes, classes), workloads.plain_categorical(sizes)
    exact = workloads.private_categorical(sizes, classes, epsilon=INFINITE).fit(X, y)
    cells = ((X + sizes * np.arange(features)) * classes + y[:, np.newaxis]).ravel()
    ours.fit(X, y)  # calibrates
    times = alternate(
        partial(ours.fit, X, y), partial(theirs.fit, X, y), partial(np.bincount, cells), repeats=5
    )
    yield Timing(
        "DirichletCategoricalNB.fit",
        f"{n} x {features}",
        times[0],
        times[1],
        "CategoricalNB",
        times[2],
        "bincount of known cells",
        at_most_ratio=1 / 6,
        difference=_largest_gap(exact.feature_log_prob_, theirs.feature_log_prob_),
    )
    times = alternate(
        partial(ours.predict, X),
        partial(theirs.predict, X),
        partial(_gather, [table.T.copy() for table in theirs.feature_log_prob_], X),
        repeats=3,
    )
    yield Timing(
        "DirichletCategoricalNB.predict",
        f"{n} x {features}",
        times[0],
        times[1],
        "CategoricalNB",
        times[2],
        "gather and add, column by column",
        at_most_ratio=1 / 1.5,
        difference=float(np.mean(exact.predict(X) != theirs.predict(X))),
    )
    few, labels = X[:150], y[:150]
    small = workloads.private_categorical(sizes, classes).fit(few, labels)
    times = alternate(
        partial(small.fit, few, labels),
        partial(theirs.fit, few, labels),
        partial(np.bincount, cells[: few.size]),
        repeats=3 if quick else 100,
    )
    yield Timing(
        "DirichletCategoricalNB.fit of 150 rows",
        f"150 x {features}",
        times[0],
        times[1],
        "CategoricalNB",
        times[2],
        "bincount of known cells",
        at_most_seconds=5e-3,
    )


def time_multinomial(quick: bool) -> Iterator[Timing]:
    n, features, entries, classes = 100_000, 50_000, 10_000_000, 20
    if quick:
        n, features, entries = 1000, 500, 100_000
    X, y = workloads.words(n, features, entries, classes)
    ours, theirs = workloads.private_multinomial(classes), workloads.plain_multinomial()
    exact = workloads.private_multinomial(classes, epsilon=INFINITE).fit(X, y)
    cells = np.repeat(y * features, np.diff(X.indptr)) + X.indices
    case = f"{n} x {features}, {entries} entries"
    # A first fit is one with a budget that was not calibrated for yet.
    others = iter(
        [workloads.private_multinomial(classes, epsilon=1 + k / 1000) for k in range(1, 10)]
    )
    ours.fit(X, y)
    first, warm, peer, plain = alternate(
        lambda: next(others).fit(X, y),
        partial(ours.fit, X, y),
        partial(theirs.fit, X, y),
        partial(np.bincount, cells, X.data),
        repeats=3 if quick else 9,
    )
    for what, found in (
        ("DirichletNB.fit", warm),
        ("DirichletNB.fit, the first, calibration included", first),
    ):
        yield Timing(
            what,
            case,
            found,
            peer,
            "MultinomialNB",
            plain,
            "weighted bincount of known cells",
            at_most_ratio=1.3,
            difference=_largest_gap(exact.feature_log_prob_, theirs.feature_log_prob_),
        )
    times = alternate(
        partial(ours.predict, X),
        partial(theirs.predict, X),
        partial(X.__matmul__, theirs.feature_log_prob_.T),
        repeats=5,
    )
    yield Timing(
        "DirichletNB.predict",
        case,
        times[0],
        times[1],
        "MultinomialNB",
        times[2],
        "the sparse product",
        at_most_ratio=1.05,
        difference=float(np.mean(exact.predict(X) != theirs.predict(X))),
    )


def time_histogram(quick: bool) -> Iterator[Timing]:
    n, features = (10_000 if quick else 1_000_000), 20
    X = workloads.numbers(n, features)
    ours, theirs = workloads.private_bins().fit(X), workloads.plain_bins().fit(X)
    exact = workloads.private_bins(epsilon=INFINITE).fit(X)
    fine = np.ascontiguousarray(((X + 10) * 3276.8).astype(np.int32).T)  # 2**16 cells
    times = alternate(
        partial(ours.fit, X),
        partial(theirs.fit, X),
        lambda: [np.bincount(column) for column in fine],
        repeats=3,
    )
    yield Timing(
        "DirichletHistogramTransformer.fit",
        f"{n} x {features}",
        times[0],
        times[1],
        "KBinsDiscretizer",
        times[2],
        "bincount of known cells",
        at_most_ratio=1 / 2,
        difference=_largest_gap(exact.bin_edges_, theirs.bin_edges_),
    )
    for encode in ("ordinal", "onehot"):
        ours.set_params(encode=encode)
        exact.set_params(encode=encode)
        theirs = workloads.plain_bins(encode).fit(X)
        times = alternate(
            partial(ours.transform, X),
            partial(theirs.transform, X),
            partial(_search, X, [edges[1:-1] for edges in theirs.bin_edges_]),
            repeats=2,
        )
        apart = abs(exact.transform(X) - theirs.transform(X)).max()
        yield Timing(
            f"DirichletHistogramTransformer.transform, {encode}",
            f"{n} x {features}",
            times[0],
            times[1],
            "KBinsDiscretizer",
            times[2],
            "searchsorted, column by column",
            at_most_ratio=1.0,
            difference=float(apart),
        )


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
        theirs_seconds = seconds(  # once: it takes too long for more
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


def time_accountant(quick: bool) -> Iterator[Timing]:
    charges = 60 if quick else 10_000
    smooth = (
        DirichletMechanism(r=0.01, alpha=50.0),
        DirichletMechanism(r=0.02, alpha=90.0),
        GaussianMechanism(sigma=800.0),
    )
    with_atoms = (*smooth, LaplaceMechanism(scale=900.0), PureDP(0.001))
    # Close to the limit, quick bounds no longer decide.
    cases = [(smooth, "far from", 2.0), (with_atoms, "up to", 1.0001)]
    for kinds, place, room in cases[:1] if quick else cases:
        case = f"{charges} charges of {len(kinds)} kinds, {place} the limit"
        composition = Composition([(kind, charges // len(kinds)) for kind in kinds])
        limit = room * composition.epsilon(1e-5)
        with tempfile.TemporaryDirectory() as folder:
            accountant = PrivacyAccountant(limit, 1e-5, path=Path(folder, "ledger.sqlite"))
            commit = _bare_commit(Path(folder, "bare.sqlite"))
            times, bare = [], []
            for i in range(charges // len(kinds) * len(kinds)):
                times.append(
                    seconds(partial(accountant.charge, kinds[i % len(kinds)], label="benchmark"))
                )
                if i % 10 == 0:  # a disk's own time varies with what else it does
                    bare.append(seconds(commit))
            yield Timing(
                "PrivacyAccountant.charge, median",
                case,
                float(np.median(times)),
                plain=float(np.median(bare)),
                plain_is="a bare SQLite commit",
                at_most_seconds=5e-3,
            )
            delta = 1.1e-5  # one that no charge has asked for, so that nothing is cached
            total = seconds(partial(accountant.total, delta))
            yield Timing(
                "PrivacyAccountant.total",
                case,
                total,
                at_most_seconds=1.0,
                difference=accountant.total(delta) / composition.epsilon(delta) - 1,
            )


def time_posterior(quick: bool) -> Iterator[Timing]:
    PrivateDirichletPosterior().fit_counts([2, 3])  # imports
    sizes = (
        ((2, 1500, 0.2), (3, 60, 2.0))
        if quick
        else ((2, 15_000, 0.2), (3, 600, 2.0), (4, 100, 2.0))
    )
    for k, n, promised in sizes:
        # Three sizes that differ by one record: each has to be calibrated anew.
        tables = [_balanced(n - fewer, k) for fewer in range(3)]
        posterior = PrivateDirichletPosterior()
        first = min(seconds(partial(posterior.fit_counts, counts)) for counts in tables)
        candidates = round(np.exp(gammaln(n + k) - gammaln(n + 1) - gammaln(k)))
        parameters = np.random.default_rng(0).integers(1, n, (candidates, k)).astype(float)
        (plain,) = alternate(lambda p=parameters: gammaln(p).sum(axis=1), repeats=3)
        yield Timing(
            f"PrivateDirichletPosterior.fit, the first, {k} categories",
            f"{n} records, {candidates} candidates",
            first,
            plain=plain,
            plain_is="log-gamma of all candidates",
            at_most_seconds=promised,
            difference=float(posterior.concentration_.sum() - tables[-1].sum() - k),
        )


SUBJECTS: dict[str, Callable[[bool], Iterator[Timing]]] = {
    "release": time_release,
    "calibration": time_calibration,
    "categorical naive Bayes": time_categorical,
    "multinomial naive Bayes": time_multinomial,
    "histogram": time_histogram,
    "Bayesian network": time_network,
    "accountant": time_accountant,
    "posterior": time_posterior,
}


def _balanced(n: int, k: int) -> np.ndarray:
    """Counts of n records in k categories, as equal as can be."""
    return n // k + (np.arange(k) < n % k)


def _largest_gap(ours, theirs) -> float:
    """The largest difference between two lists of arrays."""
    return max(float(np.abs(a - b).max()) for a, b in zip(ours, theirs, strict=True))


def _gather(tables: list[np.ndarray], X: np.ndarray) -> np.ndarray:
    return sum(table[column] for table, column in zip(tables, X.T, strict=True))


def _search(X: np.ndarray, borders: list[np.ndarray]) -> list[np.ndarray]:
    return [np.searchsorted(inner, column) for inner, column in zip(borders, X.T, strict=True)]


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


def _bare_commit(path: Path) -> Callable[[], None]:
    """A commit of one row with the accountant's durability, and nothing else."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("CREATE TABLE rows (value TEXT)")

    def commit():
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO rows VALUES ('a row of about the usual length')")
        connection.execute("COMMIT")

    return commit


# The experiments -------------------------------------------------------------------


def promise(row: pd.Series) -> str:
    """What is promised, in words."""
    if row["at_most_seconds"] == row["at_most_seconds"]:
        return f"at most {_time(row['at_most_seconds'])}"
    ratio = row["at_most_ratio"]
    if ratio < 1:
        return f"at least {1 / ratio:g} times faster"
    return "at least as fast" if ratio == 1 else f"at most {ratio:g} times the time"


def _time(value: float) -> str:
    if value != value:
        return ""
    size, unit = (1.0, "s") if value >= 1 else (1e-3, "ms") if value >= 1e-3 else (1e-6, "µs")
    return f"{value / size:.3g} {unit}"


class Speed(Experiment):
    name = "speed"
    title = "Speed"
    reproduces = "every speed that the library promises, both sides in one run"
    parallel = False

    def tasks(self, settings: Settings) -> list[Row]:
        return [{"subject": subject} for subject in SUBJECTS]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        return [
            {**asdict(timing), "ratio": timing.ours / timing.theirs}
            for timing in SUBJECTS[task["subject"]](settings.quick)
        ]

    def worst(self, results: pd.DataFrame) -> pd.DataFrame:
        """The case of each promise that is furthest from being kept, and how far: over 1, it
        is broken."""
        spent = results["ratio"] / results["at_most_ratio"]
        spent = spent.fillna(results["ours"] / results["at_most_seconds"])
        results = results.assign(spent=spent)
        chosen = results.groupby("what", sort=False)["spent"].idxmax()
        return results.loc[chosen].reset_index(drop=True)

    def figure(self, results: pd.DataFrame):
        worst = self.worst(results).iloc[::-1].reset_index(drop=True)
        figure, (axis,) = figures.panels(1, width=10, height=0.27 * len(worst) + 1.6)
        promised = worst["ours"] / worst["spent"]
        for marker, column, label, colour in (
            ("o", "ours", "skdirdp", "#0b61a4"),
            ("s", "theirs", "scikit-learn, pgmpy or numpy", "#c1440e"),
            ("|", "plain", "the barest numpy operation that it takes", "0.35"),
        ):
            axis.plot(
                worst[column] / promised,
                worst.index,
                marker,
                label=label,
                color=colour,
                markersize=10 if marker == "|" else 6,
                markeredgewidth=1.8 if marker == "|" else 0.5,
            )
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set(xscale="log", xlabel="time, in units of what is promised")
        low, high = axis.get_xlim()
        axis.axvspan(1, high, color="0.94", zorder=0, label="slower than promised")
        axis.set_xlim(low, high)
        axis.set_yticks(worst.index, worst["what"])
        axis.grid(axis="y", color="0.92")
        figures.legend_below(figure, [axis], columns=4)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        worst = self.worst(results)
        return pd.DataFrame(
            {
                "what": worst["what"],
                "case": worst["case"],
                "skdirdp": worst["ours"].map(_time),
                "peer": [
                    f"{_time(theirs)} ({peer})" if peer == peer and peer else ""
                    for theirs, peer in zip(worst["theirs"], worst["peer"], strict=True)
                ],
                "times faster": 1 / worst["ratio"],
                "promised": worst.apply(promise, axis=1),
                "plain numpy": [
                    f"{_time(plain)} ({what})" if plain == plain else ""
                    for plain, what in zip(worst["plain"], worst["plain_is"], strict=True)
                ],
            }
        )

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            "Best times of several runs that take turns. Where a promise covers several cases, "
            "the one furthest from keeping it is shown. Plain numpy is the barest operation that "
            "any implementation needs, on arrays made ready for it beforehand; it checks nothing, "
            "and it is no lower bound: a sparse product gathers faster than indexing does. This is "
            "one run; where the machine has other work, ratios of a second run may differ by half."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        return [
            Claim(
                "skdirdp",
                f"{row['what']}: {promise(row)}"
                + ("" if np.isnan(row["at_most_ratio"]) else f" ({row['peer']})"),
                bool(row["spent"] <= 1),
                (
                    _time(row["ours"])
                    if np.isnan(row["at_most_ratio"])
                    else f"{1 / row['ratio']:.3g} times faster"
                    if row["ratio"] < 1
                    else f"{row['ratio']:.3g} times the time"
                )
                + f" ({row['case']})",
            )
            for _, row in self.worst(results).iterrows()
        ]


# Memory ----------------------------------------------------------------------------


def fit_categorical(ours: bool, n: int) -> Callable[[], Any]:
    X, y = workloads.categories(n, 20, 10, 5)
    model = workloads.private_categorical(10, 5) if ours else workloads.plain_categorical(10)
    model.fit(X[:100], y[:100])  # imports are not what is measured
    return partial(model.fit, X, y)


def fit_multinomial(ours: bool, n: int) -> Callable[[], Any]:
    X, y = workloads.words(n, n // 2, 100 * n, 20)
    model = workloads.private_multinomial(20) if ours else workloads.plain_multinomial()
    model.fit(X[:100], y[:100])
    return partial(model.fit, X, y)


def fit_histogram(ours: bool, n: int) -> Callable[[], Any]:
    X = workloads.numbers(n, 20)
    model = workloads.private_bins() if ours else workloads.plain_bins()
    model.fit(X[:100])
    return partial(model.fit, X)


def fit_network(ours: bool, n: int) -> Callable[[], Any]:
    from pgmpy.parameter_estimator import DiscreteMLE

    network, strings = workloads.alarm(n)
    if ours:
        model = PrivateBayesNetMLE(network, states=network.states).fit(strings[:100])
        return partial(model.fit, strings)
    model = DiscreteMLE(state_names=network.states)
    model.fit(network, strings[:100])
    return partial(model.fit, network, strings)


@dataclass(frozen=True)
class Fit:
    """A fit whose memory is measured, of ours and of its peer's."""

    prepare: Callable[[bool, int], Callable[[], Any]]
    n: int
    model: str
    peer: str
    shape: str


FITS = {
    "categorical": Fit(
        fit_categorical, 1_000_000, "DirichletCategoricalNB", "CategoricalNB", "x 20 integers"
    ),
    "multinomial": Fit(
        fit_multinomial, 100_000, "DirichletNB", "MultinomialNB", "rows of 100 words, sparse"
    ),
    "histogram": Fit(
        fit_histogram,
        1_000_000,
        "DirichletHistogramTransformer",
        "KBinsDiscretizer",
        "x 20 numbers",
    ),
    "network": Fit(
        fit_network, 1_000_000, "PrivateBayesNetMLE", "pgmpy's DiscreteMLE", "x 37 strings"
    ),
}
AT_MOST_RATIO = 1.5
AT_MOST_NETWORK = 4096  # MiB, for a million records of 37 strings


class Memory(Experiment):
    name = "memory"
    title = "Memory"
    reproduces = "the peak of resident memory of a fit, each in a process of its own"
    parallel = False

    def tasks(self, settings: Settings) -> list[Row]:
        return [{"fit": name} for name in (["categorical"] if settings.quick else FITS)]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        fit = FITS[task["fit"]]
        n = fit.n // 10 if settings.quick else fit.n
        rows = []
        for ours, model in ((True, fit.model), (False, fit.peer)):
            before, peak = peak_memory(fit.prepare, ours, n)
            rows.append({"model": model, "ours": ours, "n": n, "before": before, "peak": peak})
        return rows

    def _sides(self, results: pd.DataFrame) -> pd.DataFrame:
        """Both sides' memory in one row per fit, in the order they were measured."""
        wide = results.pivot(index="fit", columns="ours", values=["before", "peak", "n"])
        return wide.loc[results["fit"].unique()]

    def figure(self, results: pd.DataFrame):
        sides = self._sides(results).iloc[::-1]
        figure, (axis,) = figures.panels(1, width=8, height=0.75 * len(sides) + 1.5)
        places = np.arange(len(sides))
        for ours, label, colour in ((True, "skdirdp", "#0b61a4"), (False, "the peer", "#c1440e")):
            at = places + (0.2 if ours else -0.2)
            before, peak = sides["before", ours], sides["peak", ours]
            axis.barh(at, before, 0.36, color=colour, alpha=0.35, label=f"{label}: data and code")
            axis.barh(at, peak - before, 0.36, left=before, color=colour, label=f"{label}: the fit")
        axis.set_yticks(places, [f"{FITS[name].model}\n{FITS[name].peer}" for name in sides.index])
        axis.set_xlabel("peak of resident memory, MiB")
        figures.legend_below(figure, [axis], columns=2)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        sides = self._sides(results)
        fits = [FITS[name] for name in sides.index]
        extra = sides["peak"] - sides["before"]
        return pd.DataFrame(
            {
                "fit": [fit.model for fit in fits],
                "of": [
                    f"{n:.0f} {fit.shape}" for n, fit in zip(sides["n", True], fits, strict=True)
                ],
                "peak, MiB": sides["peak", True].round().to_numpy(),
                "peer": [fit.peer for fit in fits],
                "its peak, MiB": sides["peak", False].round().to_numpy(),
                "ratio": (sides["peak", True] / sides["peak", False]).to_numpy(),
                "above data and code, MiB": extra[True].round().to_numpy(),
                "its, MiB": extra[False].round().to_numpy(),
            }
        )

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            "The peak includes the data and the code, as a user's machine must; the last columns "
            "do not."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        sides = self._sides(results)
        claims = [
            Claim(
                "skdirdp",
                f"The peak memory of {FITS[name].model}.fit is at most {AT_MOST_RATIO:g} times "
                f"{FITS[name].peer}'s",
                bool(row["peak", True] <= AT_MOST_RATIO * row["peak", False]),
                f"{row['peak', True] / row['peak', False]:.2f} times",
            )
            for name, row in sides.iterrows()
        ]
        if "network" in sides.index:
            peak = sides.loc["network", ("peak", True)]
            claims.append(
                Claim(
                    "skdirdp",
                    "PrivateBayesNetMLE fits 1 000 000 x 37 strings within 4 GiB",
                    bool(peak <= AT_MOST_NETWORK),
                    f"{peak / 1024:.2f} GiB, data and code included",
                )
            )
        return claims
