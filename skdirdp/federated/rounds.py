"""One round of a federated fit: the contract, the shares of the parties, the fit to their sum.

A party fits a copy of the estimator in a context that compares the tables with the contract,
charges the party's accountant, draws the party's share, and stops. The server fits the estimator
to artificial records in a context that uses the sum of the shares as the noisy counts. So the same
code counts records and post-processes sums as in a fit of one data owner.
"""

import hashlib
import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import uuid4

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from .._persons import SHARED_GROUPS
from .._random import noise_generator
from .._validation import check_integer
from ..base import Budget, CountingEstimator, Release, ReleaseContext, ReleasePlan, Unit
from ..exceptions import ContractError, DuplicateChargeError
from ..mechanisms import DirichletMechanism, DistributedDirichletMechanism, Mechanism
from ..mechanisms.distributed import MAX_PARTIES
from ..mechanisms.sampling import check_platform
from ..pipeline.inputs import read_inputs
from ..schema import Schema, to_toml

#: Version of the contract and of the messages.
PROTOCOL = 1
#: Maximum number of bits of the modulus: sums of two residues fit into 64 bits.
MAX_BITS = 62
# Parameters of an estimator that belong to one party and not to the contract.
_OWN = ("accountant", "label", "random_state")


@dataclass(frozen=True)
class Share:
    """Share of one party in a round: whole numbers modulo ``2^bits``.

    Only the sum over all parties may be revealed.

    Parameters
    ----------
    digest : str
        Digest of the contract for which the share was drawn.
    values : ndarray of int of shape (n_cells,)
        One number for each cell of all tables.
    checksum : str
        SHA-256 of the above. It detects damaged messages. Forged messages must be prevented by an
        authenticated connection.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.federated import Share
    >>> share = Share.from_values("0f3a", np.array([5, 1]))
    >>> share.is_intact
    True
    >>> Share(share.digest, np.array([5, 2]), share.checksum).is_intact
    False
    """

    digest: str
    values: np.ndarray
    checksum: str

    @classmethod
    def from_values(cls, digest: str, values: np.ndarray) -> "Share":
        """Return a share with its checksum.

        Parameters
        ----------
        digest, values
            As above.
        """
        return cls(digest, values, _checksum(digest, values))

    @property
    def is_intact(self) -> bool:
        """Whether the checksum matches the values."""
        return self.checksum == _checksum(self.digest, self.values)

    def __repr__(self) -> str:
        # A single share is protected less than the sum, so its values are not shown.
        return f"Share(digest={self.digest!r}, {self.values.size} cells)"


def _checksum(digest: str, values: Any) -> str:
    content = np.asarray(values).astype("<i8").tobytes()
    return hashlib.sha256(digest.encode() + content).hexdigest()


class FederatedRound:
    """One fit of an estimator to the records of several parties.

    All parties and the server create the same round. Its public parameters are the contract, and
    a party takes part only if the contract of the server equals its own. The guarantee is the same
    as for a fit to the pooled records, with the estimator's budget. It protects each party's
    records from the server and from up to `max_colluders` other parties. One round is one release:
    a failed round is repeated under another `round_id`, and is charged again.

    Parameters
    ----------
    estimator : estimator
        `DirichletNB` or another naive Bayes model, `PrivateBayesNetMLE`,
        `DirichletHistogramTransformer`, `PrivateCrosstab`, or another estimator that releases
        count tables once. All public parameters are given, including `n_samples`, the expected
        number of all records.
    example : dict
        Artificial records, as arguments of `fit`: "X", and "y", "groups" and "sample_weight" if the
        parties pass them. Only column names and sizes are used. With "groups", persons are
        protected.
    round_id : str
        Name of the round. Each party takes part in a round once.
    n_parties : int
        Number of parties.
    max_dropouts : int, default=0
        Maximum number of parties that may be missing from the sum. With more, there is no result.
    max_colluders : int, default=0
        Maximum number of parties that may reveal their shares to the server.
    schema : Schema, default=None
        Public description of the columns, for an estimator without a schema of its own: X is
        encoded by it, and "y" names the column of labels. If it names a person, the ids and
        `max_rows` are those of the schema.
    person_parties : int, default=1
        Maximum number of parties that hold records of the same person.
    ratio : int, default=1024
        Mean of a share per unit of the gamma variable. The variance of the noise is larger by a
        factor of ``1 + 1 / ratio``.
    bits : int, default=48
        The shares are added modulo ``2^bits``. Parties need 8 bytes per cell for up to 62 bits.

    Attributes
    ----------
    contract : dict
        Public parameters of the round, as JSON values.
    digest : str
        SHA-256 of the contract.
    n_cells : int
        Number of cells of all tables.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletCategoricalNB, PrivacyAccountant
    >>> from skdirdp.federated import Aggregator, FederatedRound
    >>> model = DirichletCategoricalNB(classes=[0, 1], n_categories=3, n_samples=6000)
    >>> example = {"X": np.zeros((1, 2), int), "y": [0]}
    >>> fit = FederatedRound(model, example, round_id="2024-1", n_parties=3)
    >>> aggregator = Aggregator(fit)
    >>> rng = np.random.default_rng(0)
    >>> for hospital in ("a", "b", "c"):
    ...     y = rng.integers(2, size=2000)
    ...     X = np.column_stack([y + (rng.random(2000) < 0.1), rng.integers(3, size=2000)])
    ...     share = fit.draw_share({"X": X, "y": y}, accountant=PrivacyAccountant(epsilon=1.0))
    ...     aggregator.add(hospital, share)
    >>> model = fit.fit(*aggregator.total())
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> model.privacy_.epsilon
    1.0
    """

    def __init__(
        self,
        estimator: CountingEstimator,
        example: Mapping[str, Any],
        *,
        round_id: str,
        n_parties: int,
        max_dropouts: int = 0,
        max_colluders: int = 0,
        schema: Schema | None = None,
        person_parties: int = 1,
        ratio: int = 1024,
        bits: int = 48,
    ) -> None:
        _check_estimator(estimator, schema)
        if not isinstance(round_id, str) or not 1 <= len(round_id) <= 100:
            raise ValueError(f"round_id must be a string of 1 to 100 characters; got {round_id!r}")
        self.round_id = round_id
        self.n_parties = check_integer("n_parties", n_parties, at_least=1, at_most=MAX_PARTIES)
        self.max_dropouts = check_integer("max_dropouts", max_dropouts, at_least=0)
        self.max_colluders = check_integer("max_colluders", max_colluders, at_least=0)
        if self.max_absent >= self.n_parties:
            raise ValueError(
                "max_dropouts + max_colluders must be less than n_parties; got "
                f"{max_dropouts} + {max_colluders} and n_parties={n_parties}"
            )
        self.person_parties = check_integer("person_parties", person_parties, at_least=1)
        self.ratio, self.schema = ratio, schema
        self.bits = check_integer("bits", bits, at_least=8, at_most=MAX_BITS)
        self._estimator = clone(estimator).set_params(**dict.fromkeys(_OWN))
        self.label = type(estimator).__name__ if estimator.label is None else estimator.label
        self.budget = Budget.from_estimator(estimator)
        self._example = dict(example)
        rehearsal = _ServerContext(self, None)
        self._fit(rehearsal, self._example)
        if rehearsal.plan is None:
            raise _unsupported(estimator)
        plan = rehearsal.plan
        self._tables, self._mechanisms = plan.tables, plan.mechanisms
        self._columns = rehearsal.columns
        self.n_cells = sum(request.counts.size for request in plan.requests)
        self._check_modulus(plan)
        self.contract = self._contract(plan)
        text = json.dumps(self.contract, sort_keys=True, separators=(",", ":"))
        self.digest = hashlib.sha256(text.encode()).hexdigest()

    @property
    def max_absent(self) -> int:
        """Maximum number of parties that drop out or collude."""
        return self.max_dropouts + self.max_colluders

    def distributed(self, mechanism: Mechanism) -> DistributedDirichletMechanism:
        """Return the mechanism of the parties for a mechanism of the pooled counts.

        Parameters
        ----------
        mechanism : DirichletMechanism
            Mechanism of one table.
        """
        assert isinstance(mechanism, DirichletMechanism)
        return DistributedDirichletMechanism(mechanism, self.n_parties, self.max_absent, self.ratio)

    def check_offer(self, offer: Mapping[str, Any] | str) -> None:
        """Raise an error if another party's contract, or its digest, differs from this one.

        Parameters
        ----------
        offer : dict or str
            The contract, or its digest. Only a contract shows which parameters differ.
        """
        if isinstance(offer, str):
            if offer != self.digest:
                raise ContractError(
                    "the other side has a different contract; compare the attribute contract on "
                    "both sides. Nothing was charged"
                )
            return
        # The other contract was parsed from JSON, and so may have lists in place of tuples.
        other, own = _as_json(offer), _as_json(self.contract)
        if other != own:
            differences = "; ".join(_differences(own, other))
            raise ContractError(
                f"the parties must agree on all public parameters; these differ: {differences}. "
                "Nothing was charged"
            )

    def draw_share(
        self,
        records: Mapping[str, Any],
        *,
        accountant: Any,
        offer: Mapping[str, Any] | str | None = None,
        random_state: Any = None,
    ) -> Share:
        """Count the records of a party, charge its accountant, and draw its share.

        Parameters
        ----------
        records : dict
            Arguments of `fit`, with the same names as in `example`.
        accountant : PrivacyAccountant
            Accountant of the party's data. Its ledger stores the name of the round with the
            charge, so that a round is charged once, and no second share is drawn for it.
        offer : dict or str, default=None
            Contract of the server, or its digest, to compare with this one.
        random_state : None, int, Generator or RandomState
            If None, the noise is cryptographically secure.

        Returns
        -------
        Share
        """
        if offer is not None:
            self.check_offer(offer)
        if not hasattr(accountant, "charge"):
            raise TypeError(
                "accountant must be a PrivacyAccountant: a party charges its own ledger before it "
                f"sends; got {accountant!r}"
            )
        if set(records) != set(self._example):
            raise ContractError(
                f"records must have the arguments of the example, {sorted(self._example)}; got "
                f"{sorted(records)}. Nothing was charged"
            )
        context = _PartyContext(self, accountant, random_state)
        self._fit(context, records)
        assert context.share is not None
        return context.share

    def fit(self, sums: Any, n_present: int) -> Any:
        """Return the estimator, fitted to the sum of the shares.

        Parameters
        ----------
        sums : array-like of int of shape (n_cells,)
            Sum of the shares, modulo ``2^bits``.
        n_present : int
            Number of parties in the sum.

        Returns
        -------
        estimator
        """
        min_present = self.n_parties - self.max_dropouts
        check_integer("n_present", n_present, at_least=min_present, at_most=self.n_parties)
        values = self.check_values("sums", sums)
        return self._fit(_ServerContext(self, (values, n_present)), self._example)

    def check_values(self, name: str, values: Any) -> np.ndarray:
        """Return a share or a sum as an array; raise an error if it cannot be one.

        Parameters
        ----------
        name : str
            Name in the error.
        values : array-like of int of shape (n_cells,)
        """
        values = np.asarray(values)
        if values.shape != (self.n_cells,) or values.dtype.kind not in "iu":
            raise ContractError(
                f"{name} must be {self.n_cells} whole numbers, one for each cell; got shape "
                f"{values.shape} of {values.dtype}"
            )
        if int(values.min(initial=0)) < 0 or int(values.max(initial=0)) >= 1 << self.bits:
            raise ContractError(f"{name} must be at least 0 and below 2^{self.bits}")
        return values.astype(np.int64)

    def _fit(self, context: "_RoundContext", records: Mapping[str, Any]) -> Any:
        """Fit a copy of the estimator in a context; return None if the context stops it."""
        estimator = clone(self._estimator)
        with ExitStack() as stack:
            stack.enter_context(context.active())
            arguments = dict(records)
            if self.schema is not None:
                encoded = context.encoded(estimator, self.schema, arguments)
                arguments = stack.enter_context(encoded)
            try:
                return estimator.fit(**arguments)
            except _ShareDrawn:
                return None

    def _check_modulus(self, plan: ReleasePlan) -> None:
        """Raise an error if sums for the public number of records may not fit the modulus."""
        for request, table in zip(plan.requests, plan.tables, strict=True):
            # A record of weight w adds w to the total.
            total = table.n_samples * max(table.contribution.largest, 1.0)
            largest = self.distributed(request.mechanism).largest_sum(total, request.grid)
            if largest >= 1 << self.bits:
                raise ValueError(
                    f"bits must be at least {largest.bit_length()} for n_samples="
                    f"{self._estimator.n_samples} and ratio={self.ratio}; got {self.bits}. A "
                    "smaller ratio needs fewer bits"
                )

    def _contract(self, plan: ReleasePlan) -> dict[str, Any]:
        tables = []
        for request, table in zip(plan.requests, plan.tables, strict=True):
            r, alpha = self.distributed(request.mechanism).parameters(request.grid)
            tables.append([table.n_rows, table.n_categories, request.grid, r, alpha])
        parameters = self._estimator.get_params(deep=False)
        return {
            "protocol": PROTOCOL,
            "estimator": type(self._estimator).__name__,
            "parameters": {
                name: _canonical(name, value)
                for name, value in parameters.items()
                if name not in _OWN
            },
            "schema": _canonical("schema", self.schema),
            "columns": self._columns,
            "arguments": sorted(self._example),
            "unit": [plan.unit.max_rows, plan.unit.by_ids],
            "tables": tables,
            **{
                name: getattr(self, name)
                for name in (
                    "round_id",
                    "n_parties",
                    "max_dropouts",
                    "max_colluders",
                    "person_parties",
                    "ratio",
                    "bits",
                )
            },
        }

    def __repr__(self) -> str:
        return (
            f"FederatedRound({type(self._estimator).__name__}, round_id={self.round_id!r}, "
            f"n_parties={self.n_parties}, digest={self.digest[:12]!r})"
        )


class Aggregator:
    """Sum of shares, without secure aggregation: it sees every share.

    For tests and for parties that trust it. It accepts one share of each party, and returns one
    sum. Real rounds use secure aggregation (`skdirdp.federated.flower`).

    Parameters
    ----------
    fit : FederatedRound
        The round.

    Examples
    --------
    See `FederatedRound`.
    """

    def __init__(self, fit: FederatedRound) -> None:
        self._fit = fit
        self._sum: np.ndarray | None = np.zeros(fit.n_cells, np.int64)
        self._present: set[Hashable] = set()

    def add(self, party: Hashable, share: Share) -> None:
        """Add the share of a party.

        Parameters
        ----------
        party : str or int
            Name of the party.
        share : Share
        """
        if self._sum is None:
            raise ContractError(
                "the sum of this round was already returned: a second sum with another party would "
                "reveal that party's share"
            )
        if share.digest != self._fit.digest:
            raise ContractError(
                f"the share of party {party!r} was drawn for another contract or round"
            )
        if party in self._present:
            raise ContractError(
                f"party {party!r} has already sent its share; a repeated message is refused"
            )
        if len(self._present) == self._fit.n_parties:
            raise ContractError(
                f"the round has {self._fit.n_parties} parties, and all have sent a share"
            )
        values = self._fit.check_values(f"the share of party {party!r}", share.values)
        if not share.is_intact:
            raise ContractError(
                f"the share of party {party!r} was modified in transit; request the same message "
                "again"
            )
        self._sum = (self._sum + values) & ((1 << self._fit.bits) - 1)
        self._present.add(party)

    def total(self) -> tuple[np.ndarray, int]:
        """Return the sum and the number of parties in it, once.

        Returns
        -------
        sums : ndarray of int of shape (n_cells,)
        n_present : int
        """
        if self._sum is None:
            raise ContractError("the sum of this round was already returned")
        n_present, min_present = len(self._present), self._fit.n_parties - self._fit.max_dropouts
        if n_present < min_present:
            raise ContractError(
                f"{n_present} of {self._fit.n_parties} parties sent a share, and at least "
                f"{min_present} must: the round has no result. Start a new round with a different "
                "round_id; it is charged again"
            )
        sums, self._sum = self._sum, None
        return sums, n_present


class _ShareDrawn(Exception):
    """Stops the fit of a party after its share is drawn."""


class _RoundContext(ReleaseContext):
    """Context of a fit within a round."""

    role = "fitted in a federated round"

    def __init__(self, fit: FederatedRound):
        super().__init__(fit.budget)
        self.fit = fit

    @contextmanager
    def encoded(
        self, estimator: Any, schema: Schema, arguments: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """Yield arguments with X encoded by the schema of the round, as a pipeline reads it."""
        encoder = schema.encoder()
        pipeline = Pipeline([("schema", encoder), ("estimator", estimator)])
        X, y, groups = (arguments.pop(name, None) for name in ("X", "y", "groups"))
        inputs = read_inputs(pipeline, X, y, {}, groups)
        X = encoder.fit_transform(inputs.X)
        columns = encoder.get_feature_names_out().tolist()
        self.known = {"columns": columns, **inputs.known_after(encoder)}
        # Records without a label are not counted, and ids are those of the schema.
        token = SHARED_GROUPS.set(inputs.shared_groups())
        try:
            yield {"X": X, "y": inputs.y, **arguments}
        finally:
            SHARED_GROUPS.reset(token)

    def protected_unit(self, unit: Unit) -> Unit:
        return Unit(unit.max_rows * self.fit.person_parties, unit.by_ids)

    def has_public_size(self, unit: Unit) -> bool:
        return False

    def check(self, plan: ReleasePlan) -> None:
        """Raise an error if the tables are not those of the contract."""
        if plan.leaks:
            raise ContractError(
                f"{', '.join(dict.fromkeys(plan.leaks))} must be given: public parameters are not "
                "taken from the data of a party. Nothing was charged"
            )

    def calibrate(self, plan: ReleasePlan) -> Sequence[Mechanism]:
        self.check(plan)
        same = plan.tables == self.fit._tables
        if not same or _column_names(plan) != self.fit._columns:
            raise ContractError(
                "X must have the same columns and bounds as the example, in the same order. "
                "Nothing was charged"
            )
        return self.fit._mechanisms


def _column_names(plan: ReleasePlan) -> list[str] | None:
    """Return the names of the columns that a plan counts, None if they have none."""
    known = plan.estimator._declared("columns")
    names = getattr(plan.estimator, "feature_names_in_", known)
    return None if names is None else [str(name) for name in names]


class _PartyContext(_RoundContext):
    """Context of a party: it charges, draws the share, and stops the fit."""

    def __init__(self, fit: FederatedRound, accountant: Any, random_state: Any):
        super().__init__(fit)
        self._accountant, self._random_state = accountant, random_state
        self.share: Share | None = None

    def release(self, plan: ReleasePlan) -> list[Release]:
        fit = self.fit
        requests = [(fit.distributed(r.mechanism), r.counts, r.grid) for r in plan.requests]
        for mechanism, counts, grid in requests:
            mechanism.check_table(counts, grid)
        check_platform()
        generator = noise_generator(self._random_state)
        self._charge(plan)
        drawn = [
            mechanism.draw(counts, generator, grid).reshape(-1)
            for mechanism, counts, grid in requests
        ]
        values = np.concatenate(drawn) if drawn else np.zeros(0, np.int64)
        self.share = Share.from_values(fit.digest, values & ((1 << fit.bits) - 1))
        raise _ShareDrawn

    def _charge(self, plan: ReleasePlan) -> None:
        """Charge for the round, once in this ledger, even if this process is not the first."""
        assert plan.joint is not None
        mechanism, releases = plan.joint.as_charge()
        persons = {"unit": plan.unit} if plan.unit.is_person else {}
        # The label is new in every call. So the ledger refuses a second charge with the key,
        # which it would otherwise take for a repetition of the first one.
        label = f"{self.fit.label}, round {self.fit.round_id}, {uuid4().hex[:12]}"
        key = f"federated round {self.fit.round_id}"
        try:
            self._accountant.charge(mechanism, releases=releases, label=label, key=key, **persons)
        except DuplicateChargeError:
            raise ContractError(
                f"round {self.fit.round_id!r} is already charged in this ledger, and a share was "
                "or may have been sent. Take part in a new round with a different round_id; it "
                "is charged again"
            ) from None


class _ServerContext(_RoundContext):
    """Context of the server, which uses the sum of the shares as the noisy counts.

    Without a sum it calibrates the tables, and uses the mean of a sum of empty cells.
    """

    def __init__(self, fit: FederatedRound, total: tuple[np.ndarray, int] | None):
        super().__init__(fit)
        self._total = total
        self.plan: Any = None
        self.columns: list[str] | None = None

    def calibrate(self, plan: ReleasePlan) -> Sequence[Mechanism]:
        if self._total is not None:
            return super().calibrate(plan)
        self.check(plan)
        mechanisms = plan.calibrated(self.budget)
        if not mechanisms:
            raise ValueError("estimator must release at least one table with several categories")
        for mechanism in mechanisms:
            if not isinstance(mechanism, DirichletMechanism):
                raise ValueError(
                    "mechanism must be 'dirichlet', because only its noise can be drawn in "
                    f"shares; got {mechanism.name!r}"
                )
        return mechanisms

    def release(self, plan: ReleasePlan) -> list[Release]:
        if self.plan is not None:
            raise ValueError(
                f"{type(plan.estimator).__name__} releases tables several times in one fit, each "
                "chosen from the last, and a round is one release"
            )
        self.plan, self.columns = plan, _column_names(plan)
        fit = self.fit
        sums, n_present = self._total or (None, fit.n_parties)
        drawn, mechanisms, start = [], [], 0
        for request in plan.requests:
            mechanism = fit.distributed(request.mechanism)
            stop = start + request.counts.size
            columns = request.counts.shape[-1]
            if sums is None:
                empty = fit.ratio * n_present * mechanism.parameters(request.grid)[1]
                rows = np.full((request.counts.size // columns, columns), round(empty))
            else:
                rows = sums[start:stop].reshape(-1, columns)
            values = mechanism.noisy_counts if request.as_counts else mechanism.probabilities
            drawn.append(values(rows, n_present, request.grid).reshape(request.counts.shape))
            mechanisms.append(mechanism.as_drawn(n_present, request.grid))
            start = stop
        plan.estimator.privacy_ = plan.report(self.budget)
        return plan.as_releases(drawn, mechanisms)


def _unsupported(estimator: Any) -> TypeError:
    return TypeError(
        "estimator must release count tables of public size once, such as DirichletNB; got "
        f"{type(estimator).__name__}"
    )


def _check_estimator(estimator: Any, schema: Schema | None) -> None:
    """Raise an error if an estimator cannot be fitted in a round."""
    # An estimator that takes no public number of records releases some tables before others.
    is_counting = isinstance(estimator, CountingEstimator) and not estimator._selects_names
    if not is_counting or "n_samples" not in estimator.get_params(deep=False):
        raise _unsupported(estimator)
    if not Budget.from_estimator(estimator).is_private:
        raise ValueError("epsilon must be finite; got infinity")
    if estimator.n_samples is None:
        raise ValueError(
            "n_samples must be given: all parties calibrate the noise for the same public number "
            "of records"
        )
    if schema is not None:
        if not isinstance(schema, Schema):
            raise TypeError(f"schema must be a Schema; got {type(schema).__name__}")
        if "schema" in estimator.get_params(deep=False):
            raise ValueError(
                f"schema must be given to {type(estimator).__name__}, which has such a parameter"
            )


def _canonical(name: str, value: Any) -> Any:
    """Return a public parameter as a JSON value that is the same on all machines."""
    if isinstance(value, Schema):
        return {"schema": to_toml(value)}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, date):  # and datetime
        return {"date": value.isoformat()}
    if isinstance(value, Mapping):
        pairs = [[_canonical(name, k), _canonical(name, v)] for k, v in value.items()]
        return {"items": sorted(pairs, key=lambda pair: json.dumps(pair[0], sort_keys=True))}
    if isinstance(value, list | tuple | range):
        return [_canonical(name, item) for item in value]
    raise TypeError(
        f"{name} must consist of strings, numbers, dates, lists and dicts, so that parties can "
        f"compare it; got {type(value).__name__}"
    )


def _as_json(contract: Any) -> Any:
    return json.loads(json.dumps(contract, sort_keys=True))


def _differences(own: Any, other: Any, path: str = "") -> list[str]:
    """Return the parameters that differ, with both values; all of them are public."""
    if isinstance(own, dict) and isinstance(other, dict):
        differences = []
        for name in sorted(own.keys() | other.keys()):
            if own.get(name) != other.get(name):
                differences += _differences(own.get(name), other.get(name), f"{path}{name}.")
        return differences
    return [f"{path.rstrip('.')} is {_short(own)} here and {_short(other)} on the other side"]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
