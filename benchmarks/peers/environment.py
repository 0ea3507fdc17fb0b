"""A virtual environment for diffprivlib, which does not import with current scikit-learn."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import get_data_home

REQUIREMENTS = ("diffprivlib==0.6.6", "scikit-learn<1.9")
_WORKER = Path(__file__).with_name("diffprivlib_worker.py")


def environment(create: bool) -> Path | None:
    """The folder of the environment, made if it is not there; None where it cannot be had."""
    folder = Path(get_data_home()) / "skdirdp" / "diffprivlib"
    ready = folder / "requirements.txt"  # written last, so that half an environment is none
    wanted = "\n".join(REQUIREMENTS)
    if ready.exists() and ready.read_text() == wanted:
        return folder
    if not create:
        return None
    try:
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(_python(folder), "-m", "pip", "install", "--quiet", *REQUIREMENTS)
        _run(_python(folder), "-c", "import diffprivlib.models")
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        print(f"no environment for diffprivlib: {reason.strip()}", file=sys.stderr)
        return None
    ready.write_text(wanted)
    return folder


def ask(folder: Path, question: str, **arrays: Any) -> list[dict[str, Any]]:
    """What the worker finds for a question, given arrays by name."""
    with tempfile.TemporaryDirectory() as exchange:
        given, found = Path(exchange, "given.npz"), Path(exchange, "found.json")
        np.savez(given, **arrays)
        _run(_python(folder), str(_WORKER), question, str(given), str(found))
        return json.loads(found.read_text())


def _python(folder: Path) -> str:
    script = Path("Scripts", "python.exe") if sys.platform == "win32" else Path("bin", "python")
    return str(folder / script)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
