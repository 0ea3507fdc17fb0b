"""Fits on a cluster of processes: one charge and correct counts, even if workers are lost."""

import os
import signal
import threading
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from sklearn.base import clone

from skdirdp import DirichletCategoricalNB, DirichletHistogramTransformer, PrivacyAccountant

from .probes import drawn_tables
from .tables import dask_frame

MODEL = DirichletCategoricalNB(classes=["a", "b"], n_categories=[3, 2])
NAME = "Alice Liddell"


def small_cluster(n_workers=2):
    return LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        silence_logs=50,
    )


@pytest.fixture(scope="module")
def client():
    with small_cluster() as cluster, Client(cluster) as client:
        yield client


@pytest.fixture
def accountant(tmp_path):
    """Accountant whose ledger is a file."""
    return PrivacyAccountant(epsilon=2.5, delta=1e-5, path=tmp_path / "ledger.sqlite")


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "code": rng.integers(0, 3, 900),
            "flag": rng.integers(0, 2, 900),
            "label": rng.choice(["a", "b"], 900),
            "person": rng.integers(0, 300, 900),
        }
    )


def tables_of(model, *table, **given):
    with drawn_tables() as tables:
        model.fit(*table, **given)
    return [table for _, table in tables]


def assert_counts(found, frame):
    classes, codes, flags = found
    np.testing.assert_array_equal(classes, frame["label"].value_counts().sort_index())
    np.testing.assert_array_equal(codes, pd.crosstab(frame["label"], frame["code"]))
    np.testing.assert_array_equal(flags, pd.crosstab(frame["label"], frame["flag"]))


def test_worker_processes_count_and_the_client_charges_once(client, frame, accountant):
    model = clone(MODEL).set_params(accountant=accountant)
    columns = ["code", "flag", "label"]
    assert_counts(tables_of(model, dask_frame(frame[columns]), "label"), frame)
    assert len(accountant) == 1
    predicted = model.predict(dask_frame(frame[["code", "flag"]]))
    np.testing.assert_array_equal(predicted.compute(), model.predict(frame[["code", "flag"]]))
    assert len(accountant) == 1


def test_persons_are_bounded_over_processes(client, frame):
    model = clone(MODEL).set_params(max_rows=2, n_samples=600)
    found = tables_of(model, dask_frame(frame, 7), "label", groups="person")
    assert_counts(found, frame[frame.groupby("person").cumcount() < 2])
    assert str(model.privacy_.unit) == "one person, of whom up to 2 records are counted"


def test_no_row_is_sent_to_the_client(client, frame):
    """The size of the result is that of the tables, for any number of rows."""
    received = []
    gather = client._gather

    async def listening(*args, **kwargs):
        found = await gather(*args, **kwargs)
        received.append(found)
        return found

    client._gather = listening
    try:
        many = pd.concat([frame] * 200)[["code", "flag", "label"]]
        clone(MODEL).fit(dask_frame(many, 8), "label")
    finally:
        client._gather = gather
    (found,) = received
    ((tally,),) = found if isinstance(found[0], (list, tuple)) else (found,)
    sizes = [tally.classes.size, *(table.size for table in tally.features.counts)]
    assert sizes == [2, 6, 4]
    assert tally.rows.rows is None
    assert tally.rows.kept == {}


def test_a_refusal_from_a_worker_shows_no_data_there_or_here(client, frame, accountant):
    frame.loc[700, "label"] = NAME
    model = clone(MODEL).set_params(accountant=accountant)
    with pytest.raises(ValueError, match="y must hold only labels that are in classes") as caught:
        model.fit(dask_frame(frame[["code", "flag", "label"]]), "label")
    assert NAME not in str(caught.value)
    logs = [line for lines in client.get_worker_logs().values() for line in lines]
    assert NAME not in str(logs)
    assert len(accountant) == 0


def test_incremental_with_processes_fails_with_an_explanation(client, frame):
    Incremental = pytest.importorskip("dask_ml.wrappers", exc_type=ImportError).Incremental

    X = da.from_array(frame[["code", "flag"]].to_numpy(), chunks=(300, 2))
    y = da.from_array(frame["label"].to_numpy(dtype=str), chunks=300)
    wrapped = Incremental(clone(MODEL), assume_equal_chunks=True)
    start = time.monotonic()
    with pytest.raises(TypeError, match="Pass the Dask arrays to fit"):
        wrapped.fit(X, y, classes=["a", "b"])
    assert time.monotonic() - start < 30  # it would hang otherwise
    assert_counts(tables_of(clone(MODEL), X, y), frame)


def test_incremental_in_one_process_works(frame):
    Incremental = pytest.importorskip("dask_ml.wrappers", exc_type=ImportError).Incremental

    X = da.from_array(frame[["code", "flag"]].to_numpy(), chunks=(300, 2))
    y = da.from_array(frame["label"].to_numpy(dtype=str), chunks=300)
    with drawn_tables() as tables, dask.config.set(scheduler="threads"):
        wrapped = Incremental(clone(MODEL), assume_equal_chunks=True)
        wrapped.fit(X, y, classes=["a", "b"])
        wrapped.estimator_.release()
    assert_counts([table for _, table in tables], frame)


def dying_once(part, flag):
    """Kills its process the first time that it is called there."""
    if len(part) and not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return part


def dying(part):
    os.kill(os.getpid(), signal.SIGKILL)


def sleeping(part):
    time.sleep(20)
    return part


def test_a_worker_that_is_killed_costs_neither_a_charge_nor_a_count(frame, accountant, tmp_path):
    table = dask_frame(frame[["code", "flag", "label"]], 8)
    flag = tmp_path / "killed"
    with small_cluster() as cluster, Client(cluster):
        model = clone(MODEL).set_params(accountant=accountant)
        doomed = table.map_partitions(dying_once, str(flag), meta=table._meta)
        assert_counts(tables_of(model, doomed, "label"), frame)
    assert flag.exists()
    assert len(accountant) == 1
    assert model.privacy_.n_records == 900


def test_nothing_is_released_or_charged_if_workers_keep_dying(frame, accountant):
    table = dask_frame(frame[["code", "flag", "label"]])
    model = clone(MODEL).set_params(accountant=accountant)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        small_cluster(1) as cluster,
        Client(cluster),
        pytest.raises(RuntimeError, match=r"Nothing was released.*not charged"),
    ):
        model.fit(table.map_partitions(dying, meta=table._meta), "label")
    assert not hasattr(model, "classes_")
    assert len(PrivacyAccountant(path=accountant.path)) == 0


def test_nothing_is_released_or_charged_if_a_cluster_is_lost(frame, accountant):
    table = dask_frame(frame[["code", "flag", "label"]])
    bins = DirichletHistogramTransformer(n_categories=[3, 2], accountant=accountant)
    with small_cluster() as cluster, Client(cluster):
        bins.fit(table[["code", "flag"]])
        threading.Timer(2.0, cluster.close).start()
        slow = table.map_partitions(sleeping, meta=table._meta)
        model = clone(MODEL).set_params(accountant=accountant)
        with pytest.raises(RuntimeError, match=r"Nothing was released.*not charged"):
            model.fit(slow, "label")
    assert not hasattr(model, "classes_")
    # The earlier release is unchanged.
    assert len(PrivacyAccountant(path=accountant.path)) == 1
