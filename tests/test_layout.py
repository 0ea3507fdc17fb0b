"""Structure of the package: import direction, sizes of files, and the layout page."""

import ast
import re
from pathlib import Path

import pytest
from radon.complexity import cc_visit

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "skdirdp"
FILES = sorted(PACKAGE.rglob("*.py"))

FAMILIES = {"naive_bayes", "histogram", "posterior", "table_classifier", "text"}
SERVICES = {
    "exceptions",
    "numerics",
    "schema",
    "_docs",
    "_messages",
    "_random",
    "_sklearn_compat",
    "_validation",
}
#: From the bottom up. A member imports from itself and from lower layers.
LAYERS: tuple[set[str], ...] = (
    SERVICES,
    {"accounting"},
    {"mechanisms"},
    {"postprocessing"},
    {"inference"},
    {"displays"},
    {"reporting"},
    {"accountant", "utility"},
    {"base", "_contributions", "_persons"},
    {"engines"},
    FAMILIES,
    {"bayes_net"},
    {"crosstab"},
    {"pipeline"},
    {"model_selection"},
    {"__init__"},
    {"federated"},
    {"audit"},
    {"command"},
    {"__main__"},
)
#: Layers whose members may import each other.
TOGETHER = (SERVICES, {"base", "_contributions", "_persons"})
#: Other modules receive an accountant as a parameter.
MAY_IMPORT_ACCOUNTANT = {"accountant", "__init__", "command", "__main__"}

#: Known imports that violate the rules.
EXCEPTIONS: set[tuple[str, str]] = set()
#: Modules that import each other in a circle: `Mechanism.calibrate` imports, inside the function,
#: a module that imports the mechanisms.
CIRCLES: list[set[str]] = []


def module_name(path: Path) -> str:
    """The dotted name inside the package; a package goes by its own name, the root as __init__."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts) or "__init__"


def imported_modules(path: Path) -> set[str]:
    """Every module of the package that a file imports, also inside functions."""
    here = path.relative_to(ROOT).parent.parts  # the package that dots count from
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            targets = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else ()
            base += tuple((node.module or "").split(".")) if node.module else ()
            # `from . import name` means a module, if there is one of that name.
            targets = [
                (*base, alias.name) if is_module((*base, alias.name)) else base
                for alias in node.names
            ]
        else:
            continue
        found |= {
            ".".join(target[1:]) or "__init__" for target in targets if target[0] == PACKAGE.name
        }
    return found


def is_module(parts: tuple[str, ...]) -> bool:
    path = ROOT.joinpath(*parts)
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


IMPORTS = {module_name(path): imported_modules(path) for path in FILES}


def home(module: str) -> str:
    """The package, or the module at the root, that a module belongs to."""
    return module.split(".")[0]


def height(module: str) -> int:
    (level,) = (level for level, layer in enumerate(LAYERS) if home(module) in layer)
    return level


def is_allowed(importer: str, imported: str) -> bool:
    if home(importer) == home(imported):
        return True
    if home(imported) == "accountant" and home(importer) not in MAY_IMPORT_ACCOUNTANT:
        return False
    if height(importer) == height(imported):
        return LAYERS[height(importer)] in TOGETHER
    return height(importer) > height(imported)


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules each of which is reached from all others of its set."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph.get(waiting.pop(), set()) - seen
            seen |= new
            waiting += new
        return seen

    reach = {module: reached(module) for module in graph}
    found: list[set[str]] = []
    for module in graph:
        circle = {other for other in reach[module] if module in reach.get(other, set())}
        if circle and circle not in found:
            found.append(circle)
    return found


def test_every_module_has_a_layer():
    assert {home(module) for module in IMPORTS} <= set().union(*LAYERS)


def test_no_module_imports_upwards_nor_another_family():
    wrong = {
        (importer, imported)
        for importer, found in IMPORTS.items()
        for imported in found
        if not is_allowed(importer, imported)
    }
    assert wrong == EXCEPTIONS


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("accounting.composition", "mechanisms.dirichlet"),
        ("mechanisms.base", "accountant"),
        ("base", "accountant.ledger"),
        ("posterior.estimator", "accountant"),
        ("histogram.transformer", "naive_bayes"),
        ("table_classifier.classifier", "bayes_net"),
        ("numerics.log_gamma", "accounting.pairs"),
        ("displays.base", "naive_bayes"),
        ("base", "__init__"),
    ],
)
def test_an_import_in_the_wrong_direction_is_detected(importer, imported):
    assert not is_allowed(importer, imported)


def test_imports_inside_functions_are_detected(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path / "skdirdp")
    low = tmp_path / "skdirdp" / "numerics"
    low.mkdir(parents=True)
    (tmp_path / "skdirdp" / "base.py").touch()
    path = low / "roots.py"
    path.write_text("def f():\n    from .. import base\n    from ..mechanisms.tables import T\n")
    assert imported_modules(path) == {"base", "mechanisms.tables"}


def test_no_modules_import_each_other_in_a_circle():
    assert sorted(map(sorted, circles(IMPORTS))) == sorted(map(sorted, CIRCLES))


def test_the_root_has_at_most_a_dozen_modules():
    assert len(list(PACKAGE.glob("*.py"))) <= 12


def test_no_file_is_above_800_lines():
    lengths = {
        module_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES
    }
    assert {name: length for name, length in lengths.items() if length > 800} == {}


def test_no_function_has_a_complexity_above_15():
    found = {
        f"{path.name}:{block.lineno} {block.name}": block.complexity
        for path in FILES
        for block in cc_visit(path.read_text())
        if block.letter != "C"
    }
    assert {name: complexity for name, complexity in found.items() if complexity > 15} == {}


def test_there_are_at_most_140_modules():
    assert len(FILES) <= 140


# Conversions -------------------------------------------------------------------------

#: Functions and methods that convert whole tables or columns of records.
CONVERSIONS = {
    "Categorical",
    "cast",
    "convert_dtypes",
    "factorize",
    "from_pandas",
    "get_dummies",
    "infer_objects",
    "read_csv",
    "read_parquet",
    "strptime",
    "to_arrow",
    "to_datetime",
    "to_numeric",
    "to_pandas",
    "to_pydict",
    "to_pylist",
    "to_timedelta",
}
#: Calls outside the schema's package, with the reason.
ALLOWED_CONVERSIONS = {
    ("engines.frames", "cast"): "numbers of a query become 64-bit floats, by their public type",
    ("pipeline.public_steps", "to_pandas"): "a table without records, for its dtypes",
}


def conversions(path: Path) -> set[str]:
    """The calls of a file that convert tables or columns."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    # A schema converts records itself: `schema.read_csv(...)`.
    calls = [
        node
        for node in nodes
        if isinstance(node, ast.Call)
        and getattr(getattr(node.func, "value", None), "id", "") != "schema"
    ]
    named = {getattr(call.func, "attr", getattr(call.func, "id", "")) for call in calls}
    to_objects = any(
        getattr(call.func, "attr", "") == "astype"
        and any(isinstance(given, ast.Name) and given.id == "object" for given in call.args)
        for call in calls
    )
    return named & CONVERSIONS | ({"astype(object)"} if to_objects else set())


def test_no_module_outside_the_schema_converts_records():
    found = {
        (module_name(path), name)
        for path in FILES
        if home(module_name(path)) != "schema"
        for name in conversions(path)
    }
    assert found == set(ALLOWED_CONVERSIONS)


def test_conversions_are_detected(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("import pandas as pd\npd.to_numeric(X.to_pandas())\ny = x.astype(object)\n")
    with path.open("a") as file:
        file.write("schema.read_csv(path)\n")
    assert conversions(path) == {"to_numeric", "to_pandas", "astype(object)"}


# The layout page ---------------------------------------------------------------------

PAGE = (ROOT / "docs" / "layout.md").read_text(encoding="utf-8")


def rows_of_packages() -> list[list[str]]:
    """The cells of the first table, row by row."""
    table = PAGE.split("| --- |", 1)[1].split("\n\n", 1)[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[1:]]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_the_layout_page_has_every_package_and_module_at_the_root():
    listed = {name.rstrip("/") for row in rows_of_packages() for name in quoted(row[0])}
    assert listed == {home(module) for module in IMPORTS} - {"__init__", "__main__"}


def test_the_modules_that_the_layout_page_lists_exist():
    for cells in rows_of_packages():
        for name in quoted(cells[2]) if len(cells) > 2 else ():
            assert f"{quoted(cells[0])[0].rstrip('/')}.{name}" in IMPORTS


def test_files_that_the_layout_page_names_exist():
    named = {name for name in quoted(PAGE) if re.fullmatch(r"[\w/]+(\.py|/)", name)}
    assert len(named) > 20
    for name in named:
        places = (PACKAGE, ROOT, ROOT / "benchmarks")
        assert any((place / name).exists() for place in places), name
