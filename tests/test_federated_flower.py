"""Rounds on Flower's SecAgg+: exact sums, failures in every stage, real processes."""

import json
import os
import subprocess
import sys
from copy import deepcopy

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

from skdirdp import DirichletCategoricalNB, PrivacyAccountant
from skdirdp.exceptions import ContractError
from skdirdp.federated import FederatedRound, flower
from skdirdp.federated.example import make_patients

EXAMPLE = {"X": [[0, 0]], "y": [0]}


@pytest.fixture(autouse=True)
def task_identity(monkeypatch):
    """Flower sets these in the processes that it starts."""
    identity = pytest.importorskip("flwr.supercore.task_identity").TaskIdentity
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(identity, name, 1)


def make_round(epsilon=1.0, **options):
    model = DirichletCategoricalNB(
        classes=[0, 1], n_categories=[2, 4], n_samples=600, epsilon=epsilon
    )
    return FederatedRound(
        model, EXAMPLE, **{"round_id": "r1", "n_parties": 4, "max_dropouts": 1, **options}
    )


def records(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=150)
    return {"X": np.column_stack([y, rng.integers(4, size=150)]), "y": y}


class Nodes:
    """Grid that calls the app of each party in this process; `fail` may replace a reply."""

    def __init__(self, rounds, fail=lambda stage, node, message: message):
        self.rounds, self.fail = rounds, fail
        self.accountants = {node: PrivacyAccountant() for node in rounds}
        self.shares, self.stages, self.uploaded = {}, [], 0
        self.contexts = {
            node: Context(1, node, {"partition-id": node}, RecordDict(), {}, 1) for node in rounds
        }
        self.apps = {node: self.app(node) for node in rounds}

    def app(self, node):
        fit = self.rounds[node]
        draw = fit.draw_share

        def kept(*args, **options):
            self.shares[node] = draw(*args, **options)
            return self.shares[node]

        fit.draw_share = kept
        return flower.make_client_app(
            lambda context: fit, lambda context: (records(node), self.accountants[node])
        )

    def get_node_ids(self):
        return list(self.rounds)

    def send_and_receive(self, messages, *, timeout=None):
        replies = []
        for message in messages:
            message = deepcopy(message)  # as if it were sent; parties change what they receive
            node = message.metadata.dst_node_id
            configs = message.content.config_records.get(RECORD_KEY_CONFIGS, {})
            stage = configs.get(Key.STAGE, "agree")
            self.stages.append(stage)
            try:
                reply = self.apps[node](message, self.contexts[node])
            except Exception as error:
                reply = Message(Error(code=0, reason=str(error)), reply_to=message)
            reply = self.fail(stage, node, reply)
            if reply is not None:
                replies.append(reply)
        return replies

    def run(self, fit=None):
        fit = make_round() if fit is None else fit
        context = Context(1, 0, {}, RecordDict(), {}, 1)
        return flower.run_round(fit, self, context, timeout=1)

    @property
    def charges(self):
        return [len(accountant) for accountant in self.accountants.values()]


def nodes(fail=lambda stage, node, message: message, **options):
    return Nodes({node: make_round(**options) for node in range(1, 5)}, fail)


def dropping(stage, *dropped):
    def fail(at, node, message):
        return None if at == stage and node in dropped else message

    return fail


def test_the_sum_is_exactly_that_of_the_shares(monkeypatch):
    found = {}
    monkeypatch.setattr(
        FederatedRound,
        "fit",
        lambda self, sums, n_present: found.update(sums=sums, n_present=n_present),
    )
    grid = nodes()
    grid.run()
    assert found["n_present"] == 4
    np.testing.assert_array_equal(found["sums"], sum(s.values for s in grid.shares.values()))
    assert grid.charges == [1, 1, 1, 1]


def test_a_round_returns_a_fitted_model():
    model = nodes().run()
    assert model.predict([[1, 0], [0, 0]]).tolist() == [1, 0]
    assert model.privacy_.epsilon == 1.0


def test_a_party_that_drops_out_after_the_charge_is_left_out_of_the_sum(monkeypatch):
    found = {}
    monkeypatch.setattr(
        FederatedRound,
        "fit",
        lambda self, sums, n_present: found.update(sums=sums, n_present=n_present),
    )
    grid = nodes(dropping(Stage.COLLECT_MASKED_VECTORS, 2))
    grid.run()
    assert found["n_present"] == 3
    present = [share.values for node, share in grid.shares.items() if node != 2]
    np.testing.assert_array_equal(found["sums"], sum(present))
    assert grid.charges == [1, 1, 1, 1]


@pytest.mark.parametrize("stage", [Stage.COLLECT_MASKED_VECTORS, Stage.UNMASK])
def test_more_dropouts_than_allowed_give_no_result(stage):
    grid = nodes(dropping(stage, 2, 3))
    with pytest.raises(ContractError, match="round 'r1' has no result"):
        grid.run()


@pytest.mark.parametrize("stage", ["agree", Stage.SETUP, Stage.SHARE_KEYS])
def test_a_party_that_leaves_before_shares_are_drawn_stops_the_round_without_a_charge(stage):
    grid = nodes(dropping(stage, 2))
    with pytest.raises(ContractError, match=r"[Nn]o party was charged"):
        grid.run()
    assert grid.charges == [0, 0, 0, 0]


def test_a_party_that_disagrees_stops_the_round_before_any_charge():
    grid = nodes()
    grid.rounds[3] = make_round(epsilon=2.0)
    grid.apps[3] = grid.app(3)
    with pytest.raises(ContractError, match=r"parameters.epsilon is 2.0 here and 1.0"):
        grid.run()
    assert grid.charges == [0, 0, 0, 0]
    assert set(grid.stages) == {"agree"}


def test_a_repeated_round_is_refused_by_every_party():
    grid = nodes()
    grid.run()
    with pytest.raises(ContractError, match="already charged"):
        grid.run()
    assert grid.charges == [1, 1, 1, 1]


def test_a_restarted_server_gets_no_second_sum_of_the_same_round():
    grid = nodes(dropping(Stage.UNMASK, 1, 2, 3, 4))
    with pytest.raises(ContractError, match="no result"):
        grid.run()
    grid.fail = lambda stage, node, message: message
    with pytest.raises(ContractError, match="already charged"):
        grid.run()
    assert grid.charges == [1, 1, 1, 1]


@pytest.mark.parametrize("end", [-8, -16])  # the control number, and the cell before it
def test_a_changed_message_gives_no_model(end):
    def change(stage, node, message):
        if stage == Stage.COLLECT_MASKED_VECTORS and node == 2:
            configs = message.content.config_records[RECORD_KEY_CONFIGS]
            vectors = list(configs[Key.MASKED_PARAMETERS])
            vectors[1] = vectors[1][:end] + bytes(8) + vectors[1][end + 8 :][: -end - 8]
            configs[Key.MASKED_PARAMETERS] = vectors
        return message

    with pytest.raises(ContractError, match="a message was modified"):
        nodes(change).run()


@pytest.mark.parametrize(
    "configs",
    [
        {"stage": Stage.UNMASK, "active": [1, 2], "dead": [3, 4]},
        {"stage": Stage.UNMASK, "active": [1, 2, 3, 4], "dead": [4]},
        {"stage": Stage.SHARE_KEYS, "1": [b"", b""], "2": [b"", b""]},
        {"stage": Stage.SETUP, Key.THRESHOLD: 2},
        None,
    ],
)
def test_a_party_refuses_messages_that_would_reveal_more_than_one_sum(configs):
    names = {"stage": Key.STAGE, "active": Key.ACTIVE_NODE_ID_LIST, "dead": Key.DEAD_NODE_ID_LIST}
    content = RecordDict()
    if configs is not None:
        configs = {names.get(name, name): value for name, value in configs.items()}
        content.config_records[RECORD_KEY_CONFIGS] = ConfigRecord(configs)
    message = Message(content, dst_node_id=1, message_type="train")
    with pytest.raises(ContractError):
        flower._check_stage(make_round(), message)


def test_errors_of_a_party_reach_the_server_without_data():
    secret = "John Smith, HIV positive"

    def load(context):
        raise ValueError(secret)

    grid = nodes()
    for node in grid.apps:
        fit = grid.rounds[node]
        grid.apps[node] = flower.make_client_app(lambda context, fit=fit: fit, load)
    with pytest.raises(ContractError, match="failed with ValueError") as caught:
        grid.run()
    assert secret not in str(caught.value)


def test_masked_vectors_are_uniform_and_differ_from_the_share():
    uploads = {}

    def keep(stage, node, message):
        if stage == Stage.COLLECT_MASKED_VECTORS:
            configs = message.content.config_records[RECORD_KEY_CONFIGS]
            raw = configs[Key.MASKED_PARAMETERS][1]
            uploads[node] = np.frombuffer(raw[-8 * 15 :], np.int64)
        return message

    grid = nodes(keep)
    grid.run()
    for node, masked in uploads.items():
        share = grid.shares[node].values
        assert (masked[: share.size] != share).all()
        assert masked.max() > 2**44  # shares are far smaller


def test_masks_use_the_whole_seed_and_are_uniform():
    # The original generator folds the seed into 32 bits: these two seeds had equal masks.
    first, second = b"\1" + bytes(31), bytes(4) + b"\1" + bytes(27)
    masks = [flower.random_masks(seed, 2**48, [(20_000,)])[0] for seed in (first, second)]
    assert (masks[0] != masks[1]).mean() > 0.999
    for mask in masks:
        bits = (mask[:, np.newaxis] >> np.arange(48)) & 1
        assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(20_000)
    from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

    original = [pseudo_rand_gen(seed, 2**32, [(5,)])[0] for seed in (first, second)]
    np.testing.assert_array_equal(*original)


def test_flower_is_as_before_after_a_message():
    from flwr.common.secure_aggregation.quantization import quantize

    nodes().run()
    assert flower._CLIENT.quantize is quantize
    assert flower._SERVER.pseudo_rand_gen is flower._CLIENT.pseudo_rand_gen
    assert flower._CLIENT.pseudo_rand_gen is not flower.random_masks


def test_rounds_that_flower_cannot_run_are_refused():
    cases = (
        ({"bits": 60}, "bits"),
        ({"n_parties": 1, "max_dropouts": 0}, "n_parties"),
        ({"max_dropouts": 2}, "2 max_dropouts"),
        ({"max_dropouts": 1, "max_colluders": 2}, "max_colluders"),
    )
    for options, message in cases:
        fit = make_round(**options)
        with pytest.raises(ValueError, match=message):
            Nodes({1: fit}).run(fit)
    with pytest.raises(ContractError, match="4 parties, but the grid has 1 node"):
        Nodes({1: make_round()}).run()


def test_the_example_has_patients_of_its_schema():
    assert make_patients(50, seed=3)["diagnosis"].isin(["healthy", "ill"]).all()
    assert json.loads(json.dumps(make_round().contract)) == make_round().contract


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["--processes"]])
def test_the_example_with_five_hospitals_runs(tmp_path, arguments):
    command = [sys.executable, "-m", "skdirdp.federated.example", "--folder", str(tmp_path)]
    environment = {**os.environ, "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "accuracy on fresh patients: 0.8" in done.stdout
    for number in range(5):
        assert len(PrivacyAccountant.open(tmp_path / f"hospital-{number}.db")) == 1
