"""The order of the rooms, which CONTRIBUTING.md gives: imports point down and close no circle."""

import ast
import re
from functools import cache

import pytest

from support.paths import ROOT

HEADING = "## Import order"
LINE = re.compile(r"^\d+\. (.*)$", re.MULTILINE)


def rooms_in_order():
    """The level of each room by its name, the top being 0, as CONTRIBUTING.md lists them."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition(HEADING)[2].partition("\n## ")[0]
    levels = {}
    for level, line in enumerate(LINE.findall(section)):
        for room in re.findall(r"`([\w/]+)`", line):
            levels[room] = level
    return levels


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports():
    """Each module, and the modules of this project that it imports, wherever in the file."""
    paths = [*(ROOT / "xnmt_bench").rglob("*.py"), *(ROOT / "proxies").rglob("*.py")]
    modules = {module_of(path): path for path in paths}
    imported = {}
    for module, path in modules.items():
        imported[module] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [name if name in modules else node.module for name in names]
            imported[module] |= {name for name in names if name in modules and name != module}
    return imported


def room_of(module):
    """The room of a module: a folder of the package, or a file beside the folders."""
    top, _, submodule = module.partition(".")
    return top if top == "proxies" or not submodule else submodule.partition(".")[0]


LEVELS = rooms_in_order()


def test_every_room_stands_in_the_list():
    assert {room_of(module) for module in imports()} == set(LEVELS)


@pytest.mark.parametrize("room", sorted(LEVELS))
def test_imports_point_down(room):
    up = [
        f"{module} imports {imported}"
        for module in sorted(imports())
        if room_of(module) == room
        for imported in sorted(imports()[module])
        if room_of(imported) != room and LEVELS[room_of(imported)] < LEVELS[room]
    ]
    assert not up


def test_no_metric_imports_another_metric():
    def chapter(module):
        return module.split(".")[2] if module.startswith("xnmt_bench.metrics.") else None

    crossed = [
        f"{module} imports {imported}"
        for module, names in imports().items()
        for imported in names
        if chapter(module) and chapter(imported) and chapter(module) != chapter(imported)
    ]
    assert not crossed


def test_no_metric_imports_an_explainer():
    """A metric asks the job for relevance, so that every explainer is measured alike."""
    explained = [
        f"{module} imports {imported}"
        for module, names in imports().items()
        for imported in names
        if room_of(module) == "metrics" and room_of(imported) == "explainers"
    ]
    assert not explained


def test_imports_close_no_circle():
    finished, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module in finished:
            return
        path.append(module)
        for imported in sorted(imports()[module]):
            visit(imported)
        path.pop()
        finished.add(module)

    for module in sorted(imports()):
        visit(module)


def test_no_rooms_of_one_level_import_each_other_in_a_circle():
    pairs = {
        (room_of(module), room_of(imported))
        for module, names in imports().items()
        for imported in names
        if room_of(module) != room_of(imported)
    }
    assert not {pair for pair in pairs if pair[::-1] in pairs}
