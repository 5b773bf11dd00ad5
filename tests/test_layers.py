"""The house stands as drawn (DESIGN, section 3): arrows point one way, names are unique, few folders need torch."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import medunlearn

SOURCE = Path(medunlearn.__file__).parent
HEAVY = {"torch", "transformers", "peft", "accelerate", "safetensors", "tokenizers"}

# DESIGN, section 3, from the ground up; a package may import what stands on a lower floor.
FLOORS = [
    {"errors", "seeds", "terminal", "verb", "result_view", "template_worker", "__init__"},
    {"progress", "input_files", "ranges", "hub_offline", "template_process"},
    {"config", "registry"},
    {"paper"},
    {"data"},
    {"sources", "synthetic", "statistics"},
    {"models", "llm"},
    {"methods", "results"},
    {"metrics", "training", "generation"},
    {"reports"},
    {"probes"},
    {"judging"},
    {"audit"},
    {"attacks"},
    {"notes", "study"},
    {"papers", "request"},
    {"api", "build"},
    {"cli"},
    {"__main__"},
]
FLOOR = {package: height for height, packages in enumerate(FLOORS) for package in packages}
WITH_TORCH = {
    "models",
    "training",
    "methods",
    "generation",
    "attacks",
    "audit",
    "judging",
    "results",
    "probes",
    "study",
    "papers",
    "request",
}
# `medunlearn/__init__.py` is the door: it names what is upstairs, and opens it when asked.
NOT_ROOMS = {"__init__", "__pycache__", "py.typed"}
PACKAGES = sorted({path.name.removesuffix(".py") for path in SOURCE.iterdir()} - NOT_ROOMS)


def imported(tree: ast.Module, *, top: bool) -> Iterator[str]:
    """Full names of imported modules: at the module's top, or anywhere in it."""
    return _names(_run_on_import(tree.body) if top else ast.walk(tree))


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _run_on_import(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Statements that run when the module is imported: not in functions, nor for type checkers alone."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        for part in ("body", "orelse", "finalbody"):
            yield from _run_on_import(getattr(node, part, []))


def _run_at_all(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node, in functions too, but those for type checkers alone."""
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    return (node for node in ast.walk(tree) if id(node) not in hidden)


@cache
def modules(package: str) -> dict[str, ast.Module]:
    folder = SOURCE / package
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [SOURCE / f"{package}.py"]
    return {str(file.relative_to(SOURCE)): ast.parse(file.read_text()) for file in files}


@cache
def imports(package: str, *, top: bool) -> frozenset[tuple[str, str]]:
    """(file, full name of a module that it imports)."""
    return frozenset((file, name) for file, tree in modules(package).items() for name in imported(tree, top=top))


def packages_used(package: str, *, top: bool) -> set[tuple[str, str]]:
    """(file, other package of ours that it imports)."""
    return {
        (file, [*name.split("."), "__init__"][1])
        for file, name in imports(package, top=top)
        if name.split(".")[0] == "medunlearn"
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_its_floor_and_looks_down(package: str) -> None:
    assert package in FLOOR, f"say in FLOORS where {package} stands"
    up = {
        (file, other)
        for file, other in packages_used(package, top=False)
        if other in FLOOR and other not in (package, "__init__") and FLOOR[other] >= FLOOR[package]
    }
    assert not up


def test_there_is_no_circle_of_packages() -> None:
    graph = {
        package: {
            other
            for _, other in packages_used(package, top=False)
            if other in FLOOR and other not in (package, "__init__")
        }
        for package in PACKAGES
    }
    order = list(TopologicalSorter(graph).static_order())
    assert order.index("data") < order.index("models") < order.index("study")


def test_there_is_no_circle_of_modules() -> None:
    """Not inside a folder either, by all imports that run: a circle through a function is a circle."""
    trees = {name: tree for package in PACKAGES for name, tree in modules(package).items()}
    names = {".".join(Path("medunlearn", file).with_suffix("").parts).removesuffix(".__init__") for file in trees}

    def module(name: str) -> str:
        return name if name in names else name.rpartition(".")[0]

    graph = {
        module(".".join(Path("medunlearn", file).with_suffix("").parts).removesuffix(".__init__")): {
            module(name) for name in _names(_run_at_all(tree)) if module(name) in names
        }
        for file, tree in trees.items()
    }
    for name, needs in graph.items():
        needs.discard(name)
    assert len(list(TopologicalSorter(graph).static_order())) == len(names)


def code_lines(text: str, tree: ast.Module) -> int:
    """Number of lines that are not blank, a comment or a docstring."""
    documentation = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and not line.startswith("#") and number not in documentation for number, line in lines)


def test_no_room_holds_more_than_an_eighth_of_the_house() -> None:
    """A room is a top folder, or a paper's in ``papers/``: a paper is closed in itself, so each counts alone."""
    rooms: Counter[str] = Counter()
    for name, tree in (pair for package in [*PACKAGES, "__init__"] for pair in modules(package).items()):
        room, *inside = Path(name).parts
        lines = code_lines((SOURCE / name).read_text(), tree)
        rooms[f"{room}/{inside[0]}" if room == "papers" and len(inside) > 1 else room] += lines
    assert {room: lines for room, lines in rooms.items() if 8 * lines > rooms.total()} == {}
    assert {"study", "papers/amnesia"} <= set(rooms)


def test_the_door_opens_nothing_by_itself() -> None:
    assert not packages_used("__init__", top=True)


def test_the_test_sees_imports() -> None:
    """The arrows above are worth something only if these well known ones are found."""
    assert ("data/benchmark.py", "errors") in packages_used("data", top=True)
    assert ("papers/amnesia/build.py", "data") in packages_used("papers", top=True)
    assert ("training/loop.py", "torch") in imports("training", top=True)


def test_statistics_and_data_stand_on_the_ground_alone() -> None:
    for package in ("statistics", "data"):
        assert {other for _, other in packages_used(package, top=False)} <= {package, *FLOORS[0], *FLOORS[1]}


@pytest.mark.parametrize("package", [package for package in PACKAGES if package not in WITH_TORCH])
def test_only_some_packages_need_torch(package: str) -> None:
    assert not {(file, name) for file, name in imports(package, top=True) if name.split(".")[0] in HEAVY}


@pytest.mark.parametrize("package", ["data", "sources", "synthetic", "statistics"])
def test_light_packages_do_not_import_heavy_ones_at_the_top(package: str) -> None:
    assert not {
        (file, other) for file, other in packages_used(package, top=True) if other in WITH_TORCH - {"methods"}
    }


def test_importing_the_light_parts_does_not_import_torch() -> None:
    code = (
        "import sys\n"
        "import medunlearn, medunlearn.config, medunlearn.registry, medunlearn.statistics, medunlearn.metrics\n"
        "import medunlearn.data.benchmark, medunlearn.papers.amnesia.build, medunlearn.papers.lume.build\n"
        "import medunlearn.methods, medunlearn.attacks, medunlearn.attacks.membership.likelihood_attacks\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


OPTIONAL = (
    "dicom",
    "excel",
    "figures",
    "gguf",
    "gpu",
    "identifiers",
    "mlflow",
    "rtf",
    "tensorboard",
    "tune",
    "utility",
    "vllm",
    "wandb",
)


def test_every_package_that_is_imported_is_a_dependency() -> None:
    """What only the tests install must not be needed at work; the environment of the tests would not show it."""
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for name in OPTIONAL for line in extras[name])]
    declared = {re.split(r"[<>=\[ ]", line)[0].lower().replace("-", "_") for line in lines}
    packages = {(file, name.split(".")[0]) for package in PACKAGES for file, name in imports(package, top=False)}
    ours = {"medunlearn", *sys.stdlib_module_names}
    comes_with = {
        "yaml": "pyyaml",
        "cyclonedx": "cyclonedx_python_lib",
        "packageurl": "cyclonedx_python_lib",
        "PIL": "pillow",
        "markupsafe": "jinja2",
        "referencing": "jsonschema",
        "datasets": "lm_eval",
        "mlflow": "mlflow_skinny",
        "reportlab": "svglib",
    }
    missing = {
        (file, name) for file, name in packages if name not in ours and comes_with.get(name, name) not in declared
    }
    assert not missing


def test_a_class_has_its_name_alone_and_a_file_its_own_outside_papers() -> None:
    classes: dict[str, list[str]] = {}
    files: dict[str, list[str]] = {}
    for place, tree in ((place, tree) for package in PACKAGES for place, tree in modules(package).items()):
        name = Path(place).name
        if name != "__init__.py" and not place.startswith("papers/"):
            files.setdefault(name, []).append(place)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(place)
    assert {name: places for name, places in (classes | files).items() if len(places) > 1} == {}
