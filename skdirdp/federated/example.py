"""Example with five hospitals: ``python -m skdirdp.federated.example``.

Five hospitals fit a classifier of a diagnosis to artificial patients, each with its own ledger. The
round runs in Flower's simulation, or, with ``--processes``, as one SuperLink and five SuperNodes on
this machine.
"""

import argparse
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd

from ..naive_bayes import DirichletCategoricalNB
from ..schema import Schema
from .flower import Context, make_client_app, make_server_app
from .rounds import FederatedRound

N_HOSPITALS = 5
_PATIENTS = (3000, 1500, 2500, 800, 2200)
_SCHEMA = Schema(
    {
        "age": Schema.numbers(0, 110, bins=[30, 45, 60, 75]),
        "sex": ["female", "male"],
        "smoker": ["no", "yes"],
        "pressure": Schema.numbers(60, 220, bins=[100, 120, 140, 160]),
        "diagnosis": Schema.categories(["healthy", "ill"], missing=False),
    }
)
# Names of environment variables, which all processes of the example share.
_FOLDER, _ROUND, _REFUSED = "SKDIRDP_EXAMPLE", "SKDIRDP_EXAMPLE_ROUND", "SKDIRDP_EXAMPLE_REFUSES"

_PROJECT = """[project]
name = "hospitals"
version = "1.0.0"
description = "Five hospitals"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "example"

[tool.flwr.app.components]
serverapp = "hospitals:server_app"
clientapp = "hospitals:client_app"

[tool.flwr.app.config]
"""


def make_patients(n_patients: int, seed: int) -> pd.DataFrame:
    """Return artificial patients.

    Parameters
    ----------
    n_patients, seed : int

    Returns
    -------
    DataFrame

    Examples
    --------
    >>> from skdirdp.federated.example import make_patients
    >>> make_patients(100, seed=0).shape
    (100, 5)
    """
    rng = np.random.default_rng(seed)
    ill = rng.random(n_patients) < 0.3
    age = np.clip(rng.normal(45 + 20 * ill, 15), 0, 110).round()
    smoker = rng.random(n_patients) < np.where(ill, 0.5, 0.2)
    pressure = np.clip(rng.normal(120 + 20 * ill, 15), 60, 220).round()
    return pd.DataFrame(
        {
            "age": age,
            "sex": np.where(rng.random(n_patients) < 0.5, "female", "male"),
            "smoker": np.where(smoker, "yes", "no"),
            "pressure": pressure,
            "diagnosis": np.where(ill, "ill", "healthy"),
        }
    )


def make_round(context: Any = None, epsilon: float = 1.0) -> FederatedRound:
    """Return the round that all hospitals agree on.

    Parameters
    ----------
    context : Context, default=None
        Flower's context; not used.
    epsilon : float, default=1.0
        Privacy budget of the fit.

    Returns
    -------
    FederatedRound
    """
    return FederatedRound(
        DirichletCategoricalNB(n_samples=10_000, epsilon=epsilon),
        {"X": make_patients(2, seed=0), "y": "diagnosis"},
        schema=_SCHEMA,
        round_id=os.environ.get(_ROUND, "example"),
        n_parties=N_HOSPITALS,
        max_dropouts=1,
        max_colluders=1,
    )


def _hospital_round(context: Context) -> FederatedRound:
    # To demonstrate a refusal, one hospital may expect another budget.
    refuses = os.environ.get(_REFUSED) == str(context.node_config["partition-id"])
    return make_round(context, epsilon=0.5 if refuses else 1.0)


def _hospital(context: Context) -> tuple[dict[str, Any], Any]:
    """Return the patients and the accountant of a hospital."""
    from .. import PrivacyAccountant

    number = int(context.node_config["partition-id"])
    ledger = Path(os.environ[_FOLDER]) / f"hospital-{number}.db"
    patients = make_patients(_PATIENTS[number], seed=number + 1)
    return {"X": patients, "y": "diagnosis"}, PrivacyAccountant(2.0, 1e-4, path=ledger)


def _save(model: Any, context: Context) -> None:
    path = Path(os.environ[_FOLDER]) / "model.pickle"
    partial = path.with_suffix(".part")
    partial.write_bytes(pickle.dumps(model))
    partial.replace(path)


client_app = make_client_app(_hospital_round, _hospital)
server_app = make_server_app(make_round, _save)


def run_in_simulation() -> None:
    """Run the round in Flower's simulation.

    Examples
    --------
    >>> from skdirdp.federated.example import run_in_simulation
    >>> run_in_simulation()  # doctest: +SKIP
    """
    from flwr.simulation import run_simulation

    resources: Any = {
        "client_resources": {"num_cpus": 1},
        "init_args": {"include_dashboard": False},
    }
    run_simulation(server_app, client_app, N_HOSPITALS, backend_config=resources)


def run_in_processes(timeout: float = 1800.0) -> None:
    """Run the round with a SuperLink and five SuperNodes on this machine.

    Parameters
    ----------
    timeout : float, default=1800.0
        Seconds until the processes are stopped.

    Examples
    --------
    >>> from skdirdp.federated.example import run_in_processes
    >>> run_in_processes()  # doctest: +SKIP
    """
    folder = Path(os.environ[_FOLDER])
    link, *nodes = _free_ports(1 + N_HOSPITALS)
    app = folder / "app"
    app.mkdir(exist_ok=True)
    (app / "pyproject.toml").write_text(_PROJECT)
    (app / "hospitals.py").write_text(
        "from skdirdp.federated import example\n\n"
        "client_app = example.client_app\nserver_app = example.server_app\n"
    )
    home = folder / "flower"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "hospitals"\n\n[superlink.hospitals]\n'
        f'address = "127.0.0.1:{link}"\ninsecure = true\n'
    )
    binaries = Path(sys.executable).parent
    environment = {
        **os.environ,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "PATH": f"{binaries}{os.pathsep}{os.environ.get('PATH', '')}",
    }

    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> None:
            log = stack.enter_context((folder / f"{name}.log").open("w"))
            process = subprocess.Popen(
                [str(binaries / arguments[0]), "--insecure", *arguments[1:]],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            stack.callback(_stop, process)

        address = ["--host", "127.0.0.1", "--port"]
        no_installation = "--disable-runtime-dependency-installation"
        start("server", "flower-superlink", no_installation, *address, str(link))
        _wait_for_port(link, 60.0)
        for number, port in enumerate(nodes):
            node = ["--superlink", f"127.0.0.1:{link}", *address, str(port)]
            config = ["--node-config", f"partition-id={number}"]
            start(f"hospital-{number}", "flower-supernode", *node, *config)
        command = [str(binaries / "flwr"), "run", str(app), "hospitals", "--stream"]
        subprocess.run(command, env=environment, timeout=timeout, check=False)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for server in sockets:
            server.bind(("127.0.0.1", 0))
        return [server.getsockname()[1] for server in sockets]


def _wait_for_port(port: int, timeout: float) -> None:
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError("the SuperLink did not start in time; see server.log")


def main(arguments: list[str] | None = None) -> int:
    """Run the example, and print the accuracy of its model.

    Parameters
    ----------
    arguments : list of str, default=None
        Arguments of the command line.

    Returns
    -------
    int
        0 if there is a model.
    """
    parser = argparse.ArgumentParser(
        prog="python -m skdirdp.federated.example", description=__doc__
    )
    parser.add_argument("--processes", action="store_true", help="start a server and five nodes")
    parser.add_argument("--folder", help="for ledgers, logs and the model; by default a new one")
    parser.add_argument("--refuses", help="number of a hospital that expects another budget")
    options = parser.parse_args(arguments)
    folder = Path(options.folder or tempfile.mkdtemp(prefix="hospitals-"))
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.update({_FOLDER: str(folder), "FLWR_TELEMETRY_ENABLED": "0"})
    os.environ.setdefault(_ROUND, uuid4().hex[:12])
    if options.refuses is not None:
        os.environ[_REFUSED] = options.refuses
    path = folder / "model.pickle"
    path.unlink(missing_ok=True)
    run_in_processes() if options.processes else run_in_simulation()
    if not path.exists():
        print(f"no model; see the logs in {folder}")
        return 1
    model = pickle.loads(path.read_bytes())
    fresh = make_patients(10_000, seed=99)
    encoder = _SCHEMA.encoder()
    X = encoder.fit_transform(fresh.drop(columns="diagnosis"))
    print(f"accuracy on fresh patients: {model.score(X, fresh['diagnosis']):.3f}")
    print(model.privacy_)
    print(f"ledgers and logs: {folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
