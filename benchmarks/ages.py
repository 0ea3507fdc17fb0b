"""Dates of results, and the parts of skdirdp that have changed since they were measured."""

import ast
import copy
import hashlib
import json
import re
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("benchmarks", "skdirdp")
_WORDING = {"_docs", "_messages", "displays", "reporting"}  # no measurement depends on these
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def measured_code(experiment: Path, root: Path = _ROOT) -> dict[str, str]:
    """Return a hash of the source of each part of skdirdp that an experiment imports.

    Imports are followed through both packages, those inside functions included. A part is a
    package or module directly below skdirdp; those that only draw or word results are left out.
    """
    found: set[Path] = set()
    waiting = [experiment.resolve()]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _imports(path, root)
    parts: dict[str, list[str]] = {}
    for path in sorted(found):
        inside = path.relative_to(root).with_suffix("").parts
        if inside[0] == "skdirdp" and inside[1] not in _WORDING:
            parts.setdefault(inside[1], []).append(f"{inside} {_source(path)}")
    return {
        part: hashlib.sha256("\n".join(sources).encode()).hexdigest()[:12]
        for part, sources in sorted(parts.items())
    }


@dataclass(frozen=True)
class Age:
    """Day of a measurement, and the parts of skdirdp that have changed since."""

    measured: str
    changed: str

    @classmethod
    def from_files(cls, experiment: Path, results: Path) -> "Age":
        """Compare the current code with that of a measurement."""
        stored = json.loads(results.read_text())
        code = measured_code(experiment)
        parts = [part for part in code if stored["code"].get(part) != code[part]]
        changed = ", ".join(parts) or "nothing"
        return cls(stored["measured"], "everything it uses" if parts == list(code) else changed)

    def __str__(self) -> str:
        return f"Measured on {self.measured}; changed in skdirdp since: {self.changed}."


def table(ages: dict[str, Age]) -> str:
    """Return a Markdown table of ages, with the experiments of equal age in one row."""
    lines = ["| measured | changed in skdirdp since | experiments |", "| --- | --- | --- |"]
    for age in sorted(set(ages.values()), key=astuple):
        names = ", ".join(f"`{name}`" for name in ages if ages[name] == age)
        lines.append(f"| {age.measured} | {age.changed} | {names} |")
    return "\n".join(lines) + "\n"


@cache
def _imports(path: Path, root: Path) -> list[Path]:
    """Return the modules that a module imports, by the modules that define the names."""
    folder = path.relative_to(root).parent.parts
    found: list[Path] = []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) - node.level + 1] if node.level else ()
            module = (*above, *(node.module or "").split(".")) if node.module else above
            for alias in node.names:
                found += _definitions(tuple(module), alias.name, root)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found += _file(tuple(alias.name.split(".")), root)
    return found


def _definitions(module: tuple[str, ...], name: str, root: Path) -> list[Path]:
    """Return the modules to read for ``from module import name``."""
    if submodule := _file((*module, name), root):
        return submodule
    for path in _file(module, root):
        if path.name != "__init__.py":
            return [path]
        for origin, names in _names(path, root):
            if name in names:
                return _definitions(origin, names[name], root)
        return [path]
    return []


@cache
def _names(package: Path, root: Path) -> list[tuple[tuple[str, ...], dict[str, str]]]:
    """Return the names that a package takes from its modules, lazily imported ones included."""
    folder = package.relative_to(root).parent.parts
    names = []
    for node in _tree(package).body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            origin = (*folder, *node.module.split("."))
            names.append((origin, {alias.asname or alias.name: alias.name for alias in node.names}))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets) == "_HOMES":
            for name, home in ast.literal_eval(node.value).items():
                names.append(((*folder, home), {name: name}))
    return names


def _file(module: tuple[str, ...], root: Path) -> list[Path]:
    if not module or module[0] not in _PACKAGES:
        return []
    path = root.joinpath(*module)
    files = (path.with_suffix(".py"), path / "__init__.py")
    return [file for file in files if file.exists()][:1]


@cache
def _source(path: Path) -> str:
    """Return the syntax tree of a module without formatting, docstrings, messages and types."""
    tree = copy.deepcopy(_tree(path))
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            del node.body[0]
        if isinstance(node, ast.Raise):
            node.exc = node.cause = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    # Versions of Python differ in whether, and which, empty fields are shown.
    return re.sub(r"(, )?\w+=\[\]", "", ast.dump(tree)).replace("(, ", "(")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
