"""A network that nobody knows: structure and parameters from one budget, for synthetic records."""

from collections.abc import Callable, Hashable, Mapping
from math import isqrt
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from .._contributions import count_cells
from .._persons import CountedRows, select_rows
from .._random import sampling_generator
from .._sklearn_compat import Interval, _fit_context
from .._validation import check_integer
from ..base import Budget, CountingEstimator, PrivacyReport
from ..mechanisms import CountTable, GaussianMechanism, JointMechanism
from ..mechanisms.additive import SelectionMechanism
from ..mechanisms.splitting import calibrate_gaussian, split_with_selection
from ..records import has_float_dtype
from .clique_tree import CliqueTree, Measurement, clipped, fit_tables, spread, with_columns
from .columns import Records, as_records, check_states, factorise
from .domains import NO_VALUE, Categories, Domain, Numbers
from .inference import MOST_CELLS, eliminated, family_table, in_order, potentials
from .network import ReleasedNetwork
from .released import ReleasedColumn
from .scores import above_chance, distances
from .search import grow_families, parse_knowledge
from .steps import Steps, Unlisted, found_categories, total_of
from .tables import Family, draw_codes, log_likelihood

# What finding names gets of the budget, where some are sought. Chosen on adult, as all numbers
# here.
_PART_OF_NAMES = 0.1
# Cells with fewer records than so many deviations are not told from noise.
_TOLD = 3.0
# What a cell of a clique costs, in parts of the error that its noise is expected to add.
_PRICE = 0.5
# Smoothing beside alpha, in deviations of the noise.
_SMOOTHING = 0.5
_STEPS = 150
# All pairs of columns are counted, and all states.
_MOST_COLUMNS = 1000
_MOST_STATES = 10**6


class NetworkReport(PrivacyReport):
    """The report of a network whose steps were paid for as one Gaussian release."""

    def _means(self) -> str:
        *finding, gaussian = (mechanism for mechanism, _ in self.mechanisms)
        steps = "counts of columns, scores of pairs and tables of cliques"
        names = "".join(f", and names by {mechanism}" for mechanism in finding)
        return f"{steps} released for the price of one table by {gaussian}{names}"


class PrivateBayesNet(ReleasedNetwork):
    """A Bayesian network learnt privately from a table, for synthetic records.

    Structure and parameters come from one budget, in steps of which each uses what the ones
    before released: the names of columns that nobody could list; the counts of every column;
    a score of how much each pair of columns depends on each other; and the counts of small
    sets of columns, chosen by the scores, together with those of columns whose rare categories
    the sets do not tell apart. Everything else is made of these.

    Parameters
    ----------
    states : dict of list, default=None
        The values that columns of categories can take. Public.
    bounds : dict of (low, high), default=None
        The range of columns of numbers. Public. Two integers say that values are whole
        numbers. Values beyond the bounds count as at them. Where a column has neither states
        nor bounds, values that enough records hold are found, which takes a part of the
        budget; the others become "other".
    structure : dict, default=None
        What is publicly known of it: edges (parent, child) under "required" and
        "forbidden", and under "order" columns of which none has a later one as parent.
    max_parents : int, default=3
        The most parents of a column. There are fewer where noise would drown them.
    target : column, default=None
        The variable that `predict` and `predict_proba` are about. Its rare states are kept
        apart.
    alpha : float, default=1.0
        The least smoothing: so many records more for each configuration of a column's
        parents, spread as the column is. With noise there are more of them, unless it is
        read plainly.
    columns : array-like of column names, default=None
        The names of the columns of X when it is an array. None numbers them from 0.
    max_cells : int, default=10_000
        The largest table of a column with its parents.
    epsilon : float, default=1.0
        The budget of one `fit`. Infinite for no noise.
    delta : float, default=1e-5
        The whole fit is (epsilon, delta)-differentially private.
    order : float, default=None
        Given, the fit is (order, epsilon)-RDP instead, and `delta` is not used.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether a neighbouring data set has one record replaced, or one more or fewer.
    max_rows : int, default=1
        A public bound on the records of one person, who is then protected with all of them.
        Given `groups`, `fit` counts no more; otherwise it is a declaration.
    postprocess : bool, default=True
        Whether the noisy tables of cliques are post-processed, at no privacy cost: they are made
        to agree with each other and with the counts of columns, and smoothed. False uses each
        table as drawn, with negative counts as 0. The structure is the same.
    accountant : PrivacyAccountant, default=None
        Charged by every fit before any noise is drawn.
    label : str, default=None
        What the accountant's history calls the fit; by default, the name of the class.
    random_state : None, int, Generator or RandomState, default=None
        None draws cryptographically secure noise. Anything else is reproducible, and
        whoever knows it can remove the noise.

    Attributes
    ----------
    model_ : pgmpy DiscreteBayesianNetwork
        Released. Built when first asked for.
    structure_ : dict of tuple
        The parents of each column, which stand before it. Released.
    states_ : dict of list
        The states of each column in the network. Released: single values, tuples of rare
        ones that are counted together, ranges of numbers, and "(missing)".
    probabilities_ : dict of ndarray of shape (n_configurations, n_states)
        Released: P(column | parents). The configurations of the parents are in the order of
        `itertools.product` over their states.
    n_records_ : float
        The number of records: public under replacement, otherwise estimated from what was
        released.
    sigma_ : dict
        The deviation of the noise on counts of "columns", on scores of "pairs", and on counts
        of "cliques", a dict by their columns. The first two follow from public sizes.
    classes_ : ndarray
        The states of `target`.
    privacy_ : PrivacyReport
        What was guaranteed.
    columns_ : list
        The columns of X.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where all columns have names that are strings.

    See Also
    --------
    PrivateBayesNetMLE : Parameters for a structure that is publicly known.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdirdp import PrivateBayesNet
    >>> rng = np.random.default_rng(0)
    >>> age = rng.integers(18, 80, 20_000)
    >>> works = np.where(rng.random(20_000) < np.where(age < 65, 0.8, 0.1), "yes", "no")
    >>> X = pd.DataFrame({"age": age, "works": works})
    >>> model = PrivateBayesNet({"works": ["yes", "no"]}, {"age": (18, 80)}).fit(X)
    >>> records = model.sample(1000)
    >>> records.dtypes["age"], set(records["works"]) == {"yes", "no"}
    (dtype('int64'), True)
    >>> old = model.sample(1000, given={"age": (70, 80)})
    >>> bool((old["works"] == "yes").mean() < 0.3)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            name: constraint
            for name, constraint in CountingEstimator._parameter_constraints.items()
            if name not in ("mechanism", "calibration", "n_samples")
        },
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "states": [dict, None],
        "bounds": [dict, None],
        "structure": [dict, None],
        "max_parents": [Interval(Integral, 0, None, closed="left")],
        "target": [object],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "columns": ["array-like", None],
        "max_cells": [Interval(Integral, 16, MOST_CELLS, closed="both")],
        "postprocess": ["boolean"],
    }

    # Gaussian noise alone can be spent step by step without loss.
    mechanism: ClassVar[str] = "gaussian"  # type: ignore[misc]
    calibration: ClassVar[str] = "exact"  # type: ignore[misc]
    n_samples: ClassVar[None] = None  # type: ignore[misc]

    def __init__(
        self,
        states=None,
        bounds=None,
        *,
        structure=None,
        max_parents=3,
        target=None,
        alpha=1.0,
        columns=None,
        max_cells=10_000,
        epsilon=1.0,
        delta=1e-5,
        order=None,
        adjacency="replace",
        max_rows=1,
        postprocess=True,
        accountant=None,
        label=None,
        random_state=None,
    ):
        self.states = states
        self.bounds = bounds
        self.structure = structure
        self.max_parents = max_parents
        self.target = target
        self.alpha = alpha
        self.columns = columns
        self.max_cells = max_cells
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.adjacency = adjacency
        self.max_rows = max_rows
        self.postprocess = postprocess
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    # Fitting -----------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, groups=None):
        """Learn structure and parameters, and release them.

        Parameters
        ----------
        X : DataFrame, or array of shape (n_records, n_columns)
            All columns are learnt.
        y : ignored
        groups : array-like of shape (n_samples,), default=None
            The person that each record is of, by whole numbers or strings. Only the first
            `max_rows` records of each are counted. None if no person has more.

        Returns
        -------
        self
        """
        with self._fitting() as context:
            records = as_records(X, self.columns)
            if records.n_records == 0:
                raise ValueError("X must hold at least one record; got 0")
            if self.target is not None and self.target not in records.names:
                raise ValueError(f"target must be a column of X; got {self.target!r}")
            knowledge = parse_knowledge(self.structure, records.names, int(self.max_parents))
            counted = select_rows(groups, records.n_records, self.max_rows)
            domains, cells, unlisted = self._encode(records, counted)
            self._check_sizes(domains, len(unlisted), knowledge.required)
            whole, finding = self._noise(len(unlisted), counted, context.budget)
            steps = Steps(whole, len(records.names), int(self.max_cells))
            n_records = counted.n_rows if context.budget.publishes_size(counted.unit) else None

            joint = JointMechanism.from_mechanisms([*finding, whole])
            generator = self._charge(*joint.as_charge(), counted.unit)
            steps.start(generator)
            for (name, numbered), mechanism in zip(unlisted.items(), finding, strict=True):
                domains[name] = found_categories(mechanism, numbered, generator)
                cells[name] = domains[name].place(name, numbered.codes, numbered.distinct)
            domains = {name: domains[name] for name in records.names}
            self._learn(domains, cells, steps, n_records, knowledge)

            report = self._report(context.budget, joint.parts, (), counted.unit, n_records)
            self.privacy_ = NetworkReport(**vars(report))
            self.columns_ = records.names
            self.n_features_in_ = len(records.names)
            if all(isinstance(name, str) for name in records.names):
                self.feature_names_in_ = np.array(records.names, dtype=object)
        return self

    def _encode(self, records: Records, counted: CountedRows):
        """Public domains and exact cells of columns, and of unlisted ones their numbered values."""
        states, bounds = self.states or {}, self.bounds or {}
        both = [name for name in states if name in bounds]
        if both:
            raise ValueError(f"states and bounds must not both be given for {both[0]!r}")
        for what, given in (("states", states), ("bounds", bounds)):
            strange = [name for name in given if name not in records.names]
            if strange:
                raise ValueError(f"{what} must name columns of X; {strange[0]!r} is none")
        listed = check_states(states, dict.fromkeys(states))
        taken = [name for name, values in listed.items() if NO_VALUE in values]
        if taken:
            raise ValueError(
                f"states must not hold {NO_VALUE!r}, which stands for missing values; those of "
                f"{taken[0]!r} do"
            )
        domains: dict[Hashable, Any] = {}
        cells: dict[Hashable, np.ndarray] = {}
        unlisted: dict[Hashable, Unlisted] = {}
        for name in records.names:
            values = records.column(name)
            is_categorical = isinstance(getattr(values, "dtype", None), pd.CategoricalDtype)
            if name in bounds:
                domains[name] = Numbers.between(name, bounds[name])
            elif name in listed:
                domains[name] = Categories(tuple(listed[name]), is_categorical=is_categorical)
            else:
                codes, distinct = factorise(name, values, counted.rows)
                fractions = (isinstance(v, float) and not v.is_integer() for v in distinct)
                if has_float_dtype(values) or any(fractions):
                    raise ValueError(
                        f"bounds must be given for columns of numbers; {name!r} has none. States "
                        "are found privately for text and whole numbers alone"
                    )
                unlisted[name] = Unlisted(codes, distinct, is_categorical)
                continue
            cells[name] = domains[name].cells(name, values, counted.rows)
        return domains, cells, unlisted

    def _check_sizes(
        self,
        domains: Mapping[Hashable, Domain],
        n_unlisted: int,
        required: Mapping[Hashable, frozenset[Hashable]],
    ) -> None:
        """Refuse what would not fit, by public sizes."""
        most = isqrt(int(self.max_cells))
        n_columns = len(domains) + n_unlisted

        def size(name: Hashable) -> int:
            return min(domains[name].n_cells, most) if name in domains else most

        if n_columns > _MOST_COLUMNS:
            raise ValueError(f"X must have at most {_MOST_COLUMNS} columns; got {n_columns}")
        if int(self.max_cells) * n_columns > MOST_CELLS:
            raise ValueError(
                f"max_cells must be at most {MOST_CELLS // n_columns} for {n_columns} columns, so "
                f"that all tables fit into memory; got {self.max_cells}"
            )
        for name, domain in domains.items():
            if domain.n_cells > _MOST_STATES:
                raise ValueError(
                    f"states of {name!r} must be fewer than {_MOST_STATES}; got more of them"
                )
        for child, parents in required.items():
            cells = size(child)
            for parent in parents:
                cells *= size(parent)
            if cells > int(self.max_cells):
                raise ValueError(
                    f"max_cells={self.max_cells} must be at least the size of tables that the "
                    f"required edges need; that of {child!r} may have {cells} cells"
                )

    def _noise(
        self, n_unlisted: int, counted: CountedRows, budget: Budget
    ) -> tuple[GaussianMechanism, list[SelectionMechanism]]:
        """The one Gaussian release that all steps are parts of, and what finds names."""
        table = CountTable(1.0, 2)
        if counted.unit.is_person:
            table = table.per_person(counted.unit.max_rows)
        relation, bound = table.relation(budget.adjacency), table.contribution
        finding: list[SelectionMechanism] = []
        if not n_unlisted:
            whole = calibrate_gaussian(budget.epsilon, budget.delta, budget.order, relation, bound)
        elif budget.order is not None and np.isfinite(budget.epsilon):
            raise ValueError(
                "order must be None where columns have neither states nor bounds: a value of one "
                "record is published with a small probability, which no Renyi divergence allows "
                "for. State the budget with delta, or give the states"
            )
        else:
            whole, finding = split_with_selection(
                budget.epsilon, budget.delta, relation, bound, n_unlisted, _PART_OF_NAMES
            )
        for mechanism in (whole, *finding):
            mechanism.check_table(np.zeros(1))
        return whole, finding

    def _learn(
        self,
        domains: Mapping[Hashable, Domain],
        cells: Mapping[Hashable, np.ndarray],
        steps: Steps,
        n_records: int | None,
        knowledge: Any,
    ) -> None:
        """All steps after the charge. What is exact is forgotten when it returns."""
        names, max_cells = list(domains), int(self.max_cells)
        exact = {name: count_cells(cells[name], domains[name].n_cells) for name in names}
        counts = steps.release_columns(list(exact.values()))
        total = total_of(counts) if n_records is None else float(n_records)
        least = _TOLD * max(steps.column.sigma, steps.clique_sigma)
        columns = {
            name: ReleasedColumn.of(
                domains[name],
                noisy,
                total,
                sigma=steps.column.sigma,
                least=least,
                most=isqrt(max_cells),
                keep_all=name == self.target,
            )
            for name, noisy in zip(names, counts, strict=True)
        }
        codes = {name: columns[name].groups[cells[name]] for name in names}
        shares = {name: columns[name].group_shares for name in names}
        sizes = {name: columns[name].n_groups for name in names}
        scores = above_chance(steps.release_scores(distances(codes, shares, total)), shares, total)
        price = _PRICE * np.sqrt(2 / np.pi) * steps.clique_sigma
        parents = grow_families(
            names, sizes, scores, price, int(self.max_parents), max_cells, knowledge
        )
        tree = CliqueTree.of(parents, sizes)
        families = [
            Family(clique[-1], clique[:-1], sizes[clique[-1]], tree.shape(clique[:-1]))
            for clique in tree.cliques
        ]
        pooled = [name for name in names if columns[name].is_pooled]
        tables, again = steps.release_cliques(
            [family.count(codes) for family in families], [exact[name] for name in pooled]
        )
        measured = {
            clique: Measurement(clique, table.reshape(tree.shape(clique)), sigma)
            for clique, (table, sigma) in zip(tree.cliques, tables, strict=True)
        }
        own = {
            name: Measurement((name,), noisy, steps.column.sigma)
            for name, noisy in zip(names, counts, strict=True)
        }
        for name, (table, sigma) in zip(pooled, again, strict=True):
            own[name] = both = own[name] & Measurement((name,), table, sigma)
            columns[name] = columns[name].counted_again(both.values, total, float(both.sigma))
        alone = [
            Measurement((name,), *columns[name].grouped(each.values, float(each.sigma)))
            for name, each in own.items()
        ]
        if not self.postprocess:
            beliefs = [clipped(measured[clique].values) for clique in tree.cliques]
        else:
            beliefs = fit_tables(tree, with_columns(measured, alone, total), total, _STEPS)

        self.structure_ = parents
        self.states_ = {name: columns[name].states for name in names}
        self.n_records_ = total
        self.sigma_ = {
            "columns": steps.column.sigma,
            "pairs": steps.pair.sigma,
            "cliques": {clique: each.sigma for clique, each in measured.items()},
        }
        self._released_ = columns
        self.probabilities_ = {
            node: self._smoothed(tree, beliefs, family, columns[node].group_shares)
            for node, family in self._families.items()
        }

    def _smoothed(
        self, tree: CliqueTree, beliefs: list[np.ndarray], family: Family, shares: np.ndarray
    ) -> np.ndarray:
        """P(node | parents), with some records more that are spread as the column is."""
        home = tree.home((*family.parents, family.node))
        assert home is not None
        sigma = self.sigma_["cliques"][tree.cliques[home]]
        by_noise = _SMOOTHING * sigma if self.postprocess else 0.0
        # Where a row has no records at all, it is that of the column.
        more = max(float(self.alpha) + by_noise, 1e-9)
        weights = self.n_records_ * family_table(tree, beliefs, family) + more * shares
        return weights / weights.sum(axis=1, keepdims=True)

    # What the network says -----------------------------------------------------------

    sigma_: dict[str, Any]

    def _partial_codes(self, records: Records, node: Hashable) -> np.ndarray:
        column = self._released_[node]
        cells = column.domain.cells(node, records.column(node))
        codes = column.groups[cells]
        if not column.has_missing:  # no state of its own: what is missing is not known
            codes = np.where(cells == column.domain.n_cells - 1, -1, codes)
        return codes

    def score_samples(self, X):
        """The log-likelihood of each record.

        A number counts as the fine bin that it lies in: bins follow from the bounds, so that
        models with the same schema can be compared.

        Parameters
        ----------
        X : DataFrame, or array of shape (n_records, n_columns)

        Returns
        -------
        ndarray of shape (n_records,)
        """
        check_is_fitted(self)
        records = as_records(X, self.columns_)
        self._check_columns(records.names)
        codes, total = {}, 0.0
        for node in self.structure_:
            column = self._released_[node]
            cells = column.domain.cells(node, records.column(node))
            codes[node] = column.groups[cells]
            total = total + np.log(column.cell_shares[cells])
        return log_likelihood(self._families, self.probabilities_, codes) + total

    def marginal(self, columns):
        """The joint distribution of some columns, computed exactly from the network.

        Parameters
        ----------
        columns : list
            A few columns: there is a number for each combination of their states.

        Returns
        -------
        Series
            Probabilities, indexed by the columns' `states_`.
        """
        check_is_fitted(self)
        wanted = self._check_wanted(columns)
        tree, products = potentials(self._families, self.probabilities_)
        home = tree.home(wanted)
        if home is not None:
            beliefs = tree.calibrate(products)
            table = in_order(beliefs[home], tree.cliques[home], wanted)
        else:
            table = eliminated(list(zip(tree.cliques, products, strict=True)), wanted)
        index = [pd.Index(self.states_[n], tupleize_cols=False, name=n) for n in wanted]
        several = pd.MultiIndex.from_product(index) if len(wanted) > 1 else index[0]
        return pd.Series(table.ravel(), several, name="probability")

    def planned_sigma(self, n_columns, n_unlisted=0):
        """The noise that a fit would have, without any data.

        Parameters
        ----------
        n_columns : int
            Of the table.
        n_unlisted : int, default=0
            Those of them that have neither states nor bounds.

        Returns
        -------
        dict of float
            The deviation of noise on counts of "columns", on scores of "pairs", and, if all
            parts are equal, on counts of "cliques". Divided by the number of records it is that
            of a share.

        Examples
        --------
        >>> from skdirdp import PrivateBayesNet
        >>> planned = PrivateBayesNet(epsilon=1.0).planned_sigma(14)
        >>> {step: round(sigma) for step, sigma in planned.items()}
        {'columns': 39, 'pairs': 318, 'cliques': 23}
        """
        n_columns = check_integer("n_columns", n_columns, at_least=1, at_most=_MOST_COLUMNS)
        n_unlisted = check_integer("n_unlisted", n_unlisted, at_least=0, at_most=n_columns)
        selection = select_rows(None, 1, self.max_rows)
        whole, _ = self._noise(n_unlisted, selection, Budget.from_estimator(self))
        steps = Steps(whole, n_columns, int(self.max_cells))
        sigmas = (steps.column.sigma, steps.pair.sigma, steps.clique_sigma)
        return dict(zip(("columns", "pairs", "cliques"), map(float, sigmas), strict=True))

    def marginal_error(self, columns):
        """The deviation of the noise in a cell of a marginal, as a probability.

        It follows from the noise alone, without looking at what was drawn: each cell of the
        marginal is a sum of cells of a table that was released. What is made of them
        (probabilities that are not negative, and agree with each other) is usually nearer.
        Where the columns share no table, the network's assumption of independence errs too,
        by an amount that noise does not tell.

        Parameters
        ----------
        columns : list

        Returns
        -------
        float
            Infinite where no released table has all columns.
        """
        check_is_fitted(self)
        wanted = self._check_wanted(columns)
        sizes = {name: len(states) for name, states in self.states_.items()}
        cells = np.prod([sizes[name] for name in wanted])
        errors = [
            sigma * np.sqrt(np.prod([sizes[name] for name in clique]) / cells)
            for clique, sigma in self.sigma_["cliques"].items()
            if set(wanted) <= set(clique)
        ]
        return float(min(errors, default=np.inf) / self.n_records_)

    def count_margins(self, X, margins):
        """Shares of given records in the cells of margins, to compare `marginal` with.

        They are exact: only public records should be looked at so.

        Parameters
        ----------
        X : DataFrame, or array of shape (n_records, n_columns)
        margins : list of tuples of columns

        Returns
        -------
        dict of ndarray
            By margin, an array with an axis for each of its columns' `states_`.
        """
        check_is_fitted(self)
        records = as_records(X, self.columns_)
        self._check_columns(records.names)
        codes = {}
        for name in dict.fromkeys(name for nodes in margins for name in self._check_wanted(nodes)):
            column = self._released_[name]
            codes[name] = column.groups[column.domain.cells(name, records.column(name))]
        sizes = {name: len(self.states_[name]) for name in codes}
        shares = {}
        for nodes in margins:
            *parents, node = nodes
            above = tuple(sizes[parent] for parent in parents)
            counts = Family(node, tuple(parents), sizes[node], above).count(codes)
            shares[tuple(nodes)] = (counts / records.n_records).reshape(*above, sizes[node])
        return shares

    def _check_wanted(self, columns: Any) -> list[Hashable]:
        wanted = [columns] if isinstance(columns, str) else list(columns)
        if not wanted or any(name not in self.columns_ for name in wanted):
            raise ValueError("columns must be columns that were fitted, at least one")
        if len(set(wanted)) < len(wanted):
            raise ValueError("columns must be distinct; some are duplicates")
        return wanted

    # Synthetic records ---------------------------------------------------------------

    def sample(
        self,
        n_samples=1,
        random_state=None,
        *,
        given: Mapping[Hashable, Any] | None = None,
        where: Callable[[pd.DataFrame], Any] | None = None,
    ):
        """Draw synthetic records from the released network, at no further cost.

        Each record is a draw from the network; together they are drawn so that counts are
        near to what the network expects, nearer than independent draws would be.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : None, int, Generator or RandomState, default=None
            Not the noise: a known seed gives nothing away.
        given : dict, default=None
            Conditions: for a column of categories a state or a list of states, for one of
            numbers a number or a pair (low, high), and None for a missing value. Records
            are drawn from the network's distribution given these.
        where : callable, default=None
            A public constraint: takes a DataFrame of records, and gives for each whether it
            may be. Others are drawn again.

        Returns
        -------
        DataFrame
            Columns in the order of those that were fitted. Types follow from the schema:
            states as they are, whole numbers as integers, others as floats. Numbers are
            spread within their bins.
        """
        check_is_fitted(self)
        n_samples = check_integer("n_samples", n_samples, at_least=0)
        generator = sampling_generator(random_state)
        draw = self._sampler(dict(given or {}), generator)
        if where is None:
            return draw(n_samples)
        parts: list[pd.DataFrame] = []
        found, tried = 0, 0
        while found < n_samples or not parts:
            size = max(1000, 2 * (n_samples - found))
            drawn = draw(size)
            kept = drawn[np.asarray(where(drawn), dtype=bool)]
            parts.append(kept)
            found, tried = found + len(kept), tried + size
            if tried > 1000 * (found + 100):
                raise ValueError(
                    "where must hold for at least one in a thousand records of the network; it "
                    "holds for fewer. Conditions on single columns are met by given"
                )
        return pd.concat(parts, ignore_index=True).iloc[:n_samples]

    def _sampler(
        self, given: dict[Hashable, Any], generator: np.random.Generator
    ) -> Callable[[int], pd.DataFrame]:
        strange = [name for name in given if name not in self.columns_]
        if strange:
            raise ValueError(f"given must name columns that were fitted; {strange[0]!r} is none")
        weights = {name: self._released_[name].condition(name, given[name]) for name in given}
        tables: Mapping[Hashable, np.ndarray] = self.probabilities_
        if given:
            tables = self._conditioned(weights)

        def draw(n_samples: int) -> pd.DataFrame:
            codes = draw_codes(self._families, tables, n_samples, generator, even=True)
            drawn = {
                name: self._released_[name].draw(
                    codes[name], given.get(name), weights.get(name), generator
                )
                for name in self.columns_
            }
            return pd.DataFrame(drawn, columns=self.columns_)

        return draw

    def _conditioned(self, weights: Mapping[Hashable, np.ndarray]) -> dict[Hashable, np.ndarray]:
        """P(node | parents, conditions): the same network, with what is given told by all."""
        tree, products = potentials(self._families, self.probabilities_)
        for name, each in weights.items():
            home = tree.home([name])
            assert home is not None
            factor = self._released_[name].group_weights(each)
            products[home] = products[home] * spread(factor, [name], tree.cliques[home])
        with np.errstate(invalid="ignore"):
            beliefs = tree.calibrate(products)
        if not np.isfinite(beliefs[0]).all():
            raise ValueError(
                "given is impossible in the network: its conditions exclude each other"
            )
        tables = {}
        for node, family in self._families.items():
            table = family_table(tree, beliefs, family)
            sums = table.sum(axis=1, keepdims=True)
            # No record comes to a row that is impossible.
            tables[node] = np.divide(
                table, sums, out=np.full_like(table, 1 / family.n_states), where=sums > 0
            )
        return tables
