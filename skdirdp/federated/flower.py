"""Federated rounds with Flower: a ClientApp for each party, a ServerApp, and SecAgg+.

Flower's SecAgg+ averages floats: it quantises clipped values to 32 bits, with random rounding, and
its masks come from a generator with a 32-bit seed, which a server can find by trying all seeds
(flwr 1.41, `secaggplus_utils.pseudo_rand_gen`). Both are replaced here while a message is handled:
shares are added as exact integers, and masks are the output of SHAKE-256 with the full seed. Key
agreement, secret sharing and the four stages are Flower's own.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from threading import RLock
from types import SimpleNamespace
from typing import Any

import numpy as np

from .._messages import plural
from ..exceptions import BudgetExceededError, ContractError
from .rounds import FederatedRound

try:
    from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.common import (
        Code,
        FitIns,
        FitRes,
        Parameters,
        Status,
        ndarrays_to_parameters,
    )
    from flwr.common.secure_aggregation.secaggplus_constants import (
        RECORD_KEY_CONFIGS,
        Key,
        Stage,
    )
    from flwr.compat.common import recorddict_compat as compat
    from flwr.server import LegacyContext
    from flwr.server.workflow import SecAggPlusWorkflow
    from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
    from flwr.server.workflow.constant import Key as WorkflowKey
    from flwr.serverapp import ServerApp
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "skdirdp.federated.flower needs Flower: pip install 'skdirdp[federated]'"
    ) from error

# Flower's packages export functions that shadow these modules.
_CLIENT = import_module("flwr.client.mod.secure_aggregation.secaggplus_mod")
_SERVER = import_module("flwr.server.workflow.secure_aggregation.secaggplus_workflow")

#: Shares are passed to Flower as doubles, which are exact up to 2^53.
MAX_BITS = 52
_CONTRACT, _REPLY, _CHECKSUM = "skdirdp-contract", "skdirdp-reply", "skdirdp-checksum"
# Parameters of SecAgg+ that leave an integer with weight 1 unchanged.
_WEIGHT, _CLIPPING, _TARGET = 1.0, 0.0, 1
_POLL_SECONDS = 0.5
_CHANGED = (
    "the round has no result: a message was modified on its way to the server. Start a new round "
    "with a different round_id"
)

_log = logging.getLogger(__name__)
_patching = RLock()

#: Callable that returns a party's records and accountant: the arguments of `draw_share`.
Party = Callable[[Context], tuple[Mapping[str, Any], Any]]
#: Callable that creates the round from the public configuration of the run.
MakeRound = Callable[[Context], FederatedRound]


def random_masks(
    seed: bytes, num_range: int, dimensions_list: list[tuple[int, ...]]
) -> list[np.ndarray]:
    """Return uniform masks below a power of two, from SHAKE-256 of the seed.

    Parameters
    ----------
    seed : bytes
        Secret of one party, or a secret shared by two parties.
    num_range : int
        Power of two.
    dimensions_list : list of tuple of int
        Shapes of the masks.

    Returns
    -------
    list of ndarray of int

    Examples
    --------
    >>> from skdirdp.federated.flower import random_masks
    >>> first, second = random_masks(b"secret", 2**48, [(2,), (3, 1)])
    >>> first.shape, second.shape, bool(max(first) < 2**48)
    ((2,), (3, 1), True)
    """
    sizes = [int(np.prod(shape)) for shape in dimensions_list]
    stream = hashlib.shake_256(b"skdirdp masks" + seed).digest(8 * sum(sizes))
    words = np.frombuffer(stream, "<u8") & np.uint64(num_range - 1)
    parts = np.split(words.astype(np.int64), np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, dimensions_list, strict=True)]


def _as_integers(parameters: list[np.ndarray], *_: Any) -> list[np.ndarray]:
    """Convert integer-valued doubles to integers, as a replacement for Flower's quantisation."""
    return [np.rint(values).astype(np.int64) for values in parameters]


@contextmanager
def _patched(module: Any, **functions: Any) -> Iterator[None]:
    """Replace functions of a Flower module while a message is handled."""
    with _patching:
        originals = {name: getattr(module, name) for name in functions}
        vars(module).update(functions)
        try:
            yield
        finally:
            vars(module).update(originals)


def _control_value(round_: FederatedRound) -> int:
    """Return the last cell of every share, a known value that shows whether masks cancel."""
    return int(round_.digest[:13], 16) & ((1 << round_.bits) - 1)


def _masked_checksum(message: Message) -> str | None:
    """Return the SHA-256 hash of the masked share in a message, or None if there is no share."""
    configs = message.content.config_records.get(RECORD_KEY_CONFIGS)
    if configs is None or Key.MASKED_PARAMETERS not in configs:
        return None
    parts: Any = configs[Key.MASKED_PARAMETERS]
    return hashlib.sha256(b"".join(parts)).hexdigest()


class _CheckedGrid:
    """Grid that raises an error if a masked share was changed after it was sent."""

    def __init__(self, grid: Any):
        self._grid = grid

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def send_and_receive(self, *args: Any, **options: Any) -> list[Message]:
        replies = list(self._grid.send_and_receive(*args, **options))
        for reply in replies:
            checksum = None if reply.has_error() else _masked_checksum(reply)
            sent = {} if checksum is None else reply.content.config_records.get(_CHECKSUM, {})
            if checksum is not None and sent.get("sha256") != checksum:
                raise ContractError(_CHANGED)
        return replies


def _check_round(round_: FederatedRound) -> None:
    if round_.bits > MAX_BITS:
        raise ValueError(f"bits must be at most {MAX_BITS} with Flower; got {round_.bits}")
    if round_.n_parties < 2:
        raise ValueError("n_parties must be at least 2: with one party, its share is the sum")
    # A server that reports a party as active to some and as missing to others learns both
    # secrets of that party if 2 (required - colluders) honest parties and the colluders answer.
    # There must be fewer parties than that.
    required, colluders = round_.n_parties - round_.max_dropouts, round_.max_colluders
    if 2 * required <= round_.n_parties + colluders:
        raise ValueError(
            "n_parties must be larger than 2 max_dropouts + max_colluders with Flower; got "
            f"n_parties={round_.n_parties}, max_dropouts={round_.max_dropouts}, "
            f"max_colluders={colluders}"
        )


# Parties ----------------------------------------------------------------------------


def make_client_app(make_round: MakeRound, party: Party) -> ClientApp:
    """Return the Flower ClientApp of a party.

    Parameters
    ----------
    make_round : callable
        Takes Flower's context, and returns the party's `FederatedRound`.
    party : callable
        Takes Flower's context, and returns the party's records (a dict) and its accountant. It is
        called after the contracts have been compared.

    Returns
    -------
    ClientApp

    Examples
    --------
    >>> from skdirdp.federated.flower import make_client_app
    >>> app = make_client_app(lambda context: ..., lambda context: ...)
    """

    def secure_aggregation(message: Message, context: Context, call_next: Any) -> Message:
        with _without_data():
            _check_stage(make_round(context), message)
            with _patched(_CLIENT, pseudo_rand_gen=random_masks, quantize=_as_integers):
                reply: Message = _CLIENT.secaggplus_mod(message, context, call_next)
            if (checksum := _masked_checksum(reply)) is not None:
                reply.content.config_records[_CHECKSUM] = ConfigRecord({"sha256": checksum})
            return reply

    app = ClientApp()

    @app.query()
    def agree(message: Message, context: Context) -> Message:
        """Compare the contract of the server with this party's contract."""
        with _without_data():
            answer: dict[str, Any] = {"error": ""}
            try:
                round_ = make_round(context)
                _check_round(round_)
                offer = str(message.content.config_records[_CONTRACT]["json"])
                round_.check_offer(json.loads(offer))
            except ContractError as error:
                answer["error"] = str(error)
            return Message(RecordDict({_REPLY: ConfigRecord(answer)}), reply_to=message)

    @app.train(mods=[secure_aggregation])
    def send(message: Message, context: Context) -> Message:
        """Charge the accountant, draw the share, and return it for masking."""
        round_ = make_round(context)
        instructions = compat.recorddict_to_fitins(message.content, keep_input=True)
        round_.check_offer(json.loads(str(instructions.config["contract"])))
        records, accountant = party(context)
        share = round_.draw_share(records, accountant=accountant)
        values = np.append(share.values, _control_value(round_)).astype(float)
        # A constant weight: the number of records is not sent.
        result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([values]), 1, {})
        return Message(compat.fitres_to_recorddict(result, keep_input=False), reply_to=message)

    return app


@contextmanager
def _without_data() -> Iterator[None]:
    """Keep messages of unexpected errors, which may contain data, from being sent to the server."""
    try:
        yield
    except (ContractError, BudgetExceededError):
        raise
    except Exception as error:
        _log.exception("the party failed")
        kind = type(error).__name__
    else:
        return
    raise RuntimeError(f"the party failed with {kind}; see the party's log for the message")


def _check_stage(round_: FederatedRound, message: Message) -> None:
    """Reject a message from the server that would reveal more than the contract allows."""
    if RECORD_KEY_CONFIGS not in message.content.config_records:
        raise ContractError("shares are sent only with SecAgg+")
    configs: Any = message.content.config_records[RECORD_KEY_CONFIGS]
    stage, required = configs.get(Key.STAGE), round_.n_parties - round_.max_dropouts
    if stage == Stage.SETUP:
        expected = {
            Key.SAMPLE_NUMBER: round_.n_parties,
            Key.SHARE_NUMBER: round_.n_parties,
            Key.THRESHOLD: max(required, 2),
            Key.CLIPPING_RANGE: _CLIPPING,
            Key.TARGET_RANGE: _TARGET,
            Key.MOD_RANGE: 1 << round_.bits,
            Key.MAX_WEIGHT: _WEIGHT,
        }
        wrong = [name for name, value in expected.items() if configs.get(name) != value]
        if wrong:
            raise ContractError(f"the server requests unexpected SecAgg+ parameters: {wrong}")
    elif stage == Stage.SHARE_KEYS:
        if len(configs) - 1 != round_.n_parties:
            raise ContractError("all parties must be present before shares are drawn")
    elif stage == Stage.COLLECT_MASKED_VECTORS:
        if len(set(configs[Key.SOURCE_LIST])) != round_.n_parties - 1:
            raise ContractError("all parties must be present before shares are drawn")
    elif stage == Stage.UNMASK:
        active, dead = (
            set(configs[name]) for name in (Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST)
        )
        if active & dead or len(active) < required:
            raise ContractError(
                f"the sum is not revealed: at least {required} active parties are needed; "
                f"got {len(active)}"
            )


# Server -----------------------------------------------------------------------------


def make_server_app(
    make_round: MakeRound, save: Callable[[Any, Context], None], timeout: float = 600.0
) -> ServerApp:
    """Return the Flower ServerApp.

    Parameters
    ----------
    make_round : callable
        Takes Flower's context, and returns the server's `FederatedRound`.
    save : callable
        Takes the fitted estimator and Flower's context.
    timeout : float, default=600.0
        Seconds to wait for the parties, in each stage.

    Returns
    -------
    ServerApp

    Examples
    --------
    >>> from skdirdp.federated.flower import make_server_app
    >>> app = make_server_app(lambda context: ..., lambda model, context: None)
    """
    app = ServerApp()

    @app.main()
    def main(grid: Any, context: Context) -> None:
        round_ = make_round(context)
        save(run_round(round_, grid, context, timeout), context)

    return app


def run_round(round_: FederatedRound, grid: Any, context: Context, timeout: float = 600.0) -> Any:
    """Run a round on the nodes of a Flower grid, and return the fitted estimator.

    Parameters
    ----------
    round_ : FederatedRound
        The round.
    grid : Grid
        Grid of the ServerApp. It must have one node for each party.
    context : Context
        Context of the ServerApp.
    timeout : float, default=600.0
        Seconds to wait for the parties, in each stage.

    Returns
    -------
    estimator
    """
    _check_round(round_)
    nodes = _wait_for_parties(round_, grid, timeout)
    _agree(round_, grid, nodes, timeout)
    strategy: Any = _OneSum(round_, nodes)
    legacy = LegacyContext(context, strategy=strategy)
    legacy.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({WorkflowKey.CURRENT_ROUND: 1})
    legacy.state.array_records[MAIN_PARAMS_RECORD] = ArrayRecord()
    workflow = _ExactSecAggPlus(round_, timeout)
    workflow(grid, legacy)
    if workflow.sums is None:
        reasons = "; ".join(sorted(workflow.reasons)) or "too few parties answered in time"
        raise ContractError(
            f"round {round_.round_id!r} has no result: {reasons}. Start a new round with a "
            "different round_id; parties that were charged will be charged again"
        )
    *sums, control = workflow.sums.tolist()
    n_present = strategy.n_present
    if control != n_present * _control_value(round_) % (1 << round_.bits):
        raise ContractError(_CHANGED)
    return round_.fit(np.array(sums, np.int64), n_present)


def _wait_for_parties(round_: FederatedRound, grid: Any, timeout: float) -> list[int]:
    """Return the nodes of the grid, as soon as there is one for each party."""
    end = time.monotonic() + timeout
    while len(nodes := sorted(grid.get_node_ids())) < round_.n_parties and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    if len(nodes) != round_.n_parties:
        raise ContractError(
            f"the round has {round_.n_parties} parties, but the grid has "
            f"{plural(len(nodes), 'node')}. Nothing was charged"
        )
    return nodes


def _agree(round_: FederatedRound, grid: Any, nodes: list[int], timeout: float) -> None:
    """Raise an error if a party has a different contract, before any party is charged."""
    offer = ConfigRecord({"json": json.dumps(round_.contract)})
    messages = [
        Message(RecordDict({_CONTRACT: offer}), dst_node_id=node, message_type="query")
        for node in nodes
    ]
    errors = set()
    replies = list(grid.send_and_receive(messages, timeout=timeout))
    for reply in replies:
        if reply.has_error():
            errors.add(str(reply.error.reason))
        elif text := str(reply.content.config_records[_REPLY]["error"]):
            errors.add(text)
    if len(replies) < len(nodes):
        errors.add(f"{len(nodes) - len(replies)} of {len(nodes)} parties did not answer")
    if errors:
        raise ContractError(
            f"not all parties accept the contract of round {round_.round_id!r}. No party "
            f"was charged. Reasons: {'; '.join(sorted(errors))}"
        )


class _OneSum:
    """Minimal Flower strategy for SecAgg+: one sum over all parties, without a model."""

    def __init__(self, round_: FederatedRound, nodes: list[int]):
        self._round, self._nodes = round_, nodes
        self.n_present = 0

    def configure_fit(self, *_: Any) -> list[tuple[Any, FitIns]]:
        instructions = FitIns(Parameters([], ""), {"contract": json.dumps(self._round.contract)})
        return [(SimpleNamespace(node_id=node), instructions) for node in self._nodes]

    def aggregate_fit(self, _: int, results: list[Any], failures: list[Any]) -> Any:
        self.n_present = len(results)
        return None, {}


class _ExactSecAggPlus(SecAggPlusWorkflow):
    """SecAgg+ with exact sums: all parties share keys, and at most `max_dropouts` then drop out."""

    def __init__(self, round_: FederatedRound, timeout: float):
        required = round_.n_parties - round_.max_dropouts
        super().__init__(
            1.0,
            required / round_.n_parties,
            max_weight=_WEIGHT,
            clipping_range=_CLIPPING,
            quantization_range=_TARGET,
            modulus_range=1 << round_.bits,
            timeout=timeout,
        )
        self._n_parties = round_.n_parties
        self.reasons: set[str] = set()
        self.sums: np.ndarray | None = None

    def _record_failures(self, state: Any) -> None:
        self.reasons |= {str(getattr(f.args[0], "reason", f)) for f in state.failures if f.args}

    def setup_stage(self, grid: Any, context: Any, state: Any) -> bool:
        return self._all_present(super().setup_stage(grid, context, state), state)

    def share_keys_stage(self, grid: Any, context: Any, state: Any) -> bool:
        return self._all_present(super().share_keys_stage(grid, context, state), state)

    def _all_present(self, done: bool, state: Any) -> bool:
        """Return False, which stops the round before any party is charged, if a party has left."""
        self._record_failures(state)
        if len(state.active_node_ids) < self._n_parties:
            self.reasons.add("a party left before shares were drawn, and no party was charged")
            return False
        return done

    def collect_masked_vectors_stage(self, grid: Any, context: Any, state: Any) -> bool:
        checked: Any = _CheckedGrid(grid)
        done = super().collect_masked_vectors_stage(checked, context, state)
        self._record_failures(state)
        return done

    def unmask_stage(self, grid: Any, context: Any, state: Any) -> bool:
        def keep(parameters: list[np.ndarray], *_: Any) -> list[np.ndarray]:
            self.sums = parameters[0]
            return [values.astype(float) for values in parameters]

        with _patched(_SERVER, pseudo_rand_gen=random_masks, dequantize=keep):
            done = super().unmask_stage(grid, context, state)
        self._record_failures(state)
        if not done:
            self.sums = None
        return done
