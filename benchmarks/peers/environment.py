"""Virtual environments for peers that conflict with current libraries."""

import hashlib
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import get_data_home

#: Packages of the environment of each peer, and a module that must import. The module that
#: runs there is NAME_worker.py in this folder. If no package is named, none can be
#: installed: create an environment by hand for the comparison.
PEERS: dict[str, tuple[tuple[str, ...], str]] = {
    "diffprivlib": (("diffprivlib==0.6.6", "scikit-learn<1.8"), "diffprivlib.models"),
    "interpret": (("interpret-core==0.7.8",), "interpret.privacy"),
    "dpmm": (("dpmm==0.1.9",), "dpmm.pipelines"),
    "private_pgm": ((), "aim"),
    "data_synthesizer": (("DataSynthesizer==0.1.13",), "DataSynthesizer.DataDescriber"),
    "dp_accounting": (("dp-accounting==0.6.0",), "dp_accounting.pld"),
}


def environment(create: bool, peer: str = "diffprivlib") -> Path | None:
    """The folder of the environment, made if it is not there; None where it cannot be had."""
    requirements, module = PEERS[peer]
    folder = Path(get_data_home()) / "skdirdp" / peer
    if not requirements:
        if Path(_python(folder)).exists():
            return folder
        if create:
            print(f"no environment for {peer}: make one in {folder}", file=sys.stderr)
        return None
    ready = folder / "requirements.txt"  # written last, so that half an environment is none
    wanted = "\n".join(requirements)
    if ready.exists() and ready.read_text() == wanted:
        return folder
    if not create:
        return None
    try:
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(_python(folder), "-m", "pip", "install", "--quiet", *requirements)
        _run(_python(folder), "-c", f"import {module}")
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        print(f"no environment for {peer}: {reason.strip()}", file=sys.stderr)
        return None
    ready.write_text(wanted)
    return folder


def ask(
    folder: Path, question: str, *, limit: float | None = None, **arrays: Any
) -> list[dict[str, Any]] | None:
    """Return the result of the worker for a question, given arrays by name.

    None where it takes longer than the limit, in seconds of processor time.
    """
    worker = _worker(folder)
    with tempfile.TemporaryDirectory() as exchange:
        given, found = Path(exchange, "given.npz"), Path(exchange, "found.json")
        np.savez(given, **arrays)
        try:
            _run(_python(folder), str(worker), question, str(given), str(found), limit=limit)
        except subprocess.CalledProcessError as error:
            if limit is not None and error.returncode == -signal.SIGXCPU:
                return None
            raise
        return json.loads(found.read_text())


def ask_once(
    folder: Path, question: str, *, limit: float, **arrays: Any
) -> list[dict[str, Any]] | None:
    """Return cached results for repeated questions, for peers that take hours.

    No change of this project changes the answer, other than one of the worker. Answers are kept
    within the environment, and go with it.
    """
    path = _kept(folder, question, arrays)
    if path.exists():
        kept = json.loads(path.read_text())
        if kept["answer"] is not None or kept["limit"] >= limit:
            return kept["answer"]
    answer = ask(folder, question, limit=limit, **arrays)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"question": question, "limit": limit, "answer": answer}))
    return answer


def _kept(folder: Path, question: str, arrays: dict[str, Any]) -> Path:
    digest = hashlib.sha256(_worker(folder).read_bytes() + question.encode())
    for name, values in sorted(arrays.items()):
        array = np.asarray(values)
        digest.update(f"{name} {array.shape} {array.dtype}".encode() + array.tobytes())
    return folder / "answers" / f"{digest.hexdigest()}.json"


def _worker(folder: Path) -> Path:
    return Path(__file__).with_name(f"{folder.name}_worker.py")


def _python(folder: Path) -> str:
    script = Path("Scripts", "python.exe") if sys.platform == "win32" else Path("bin", "python")
    return str(folder / script)


def _run(*command: str, limit: float | None = None) -> None:
    def hold_to_limit() -> None:
        import resource  # not on every system

        assert limit is not None
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 60))

    before = None if limit is None else hold_to_limit
    subprocess.run(command, check=True, capture_output=True, text=True, preexec_fn=before)
