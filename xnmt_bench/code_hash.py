"""A hash of the code behind a class, so that edited code never answers from old results."""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import distribution, packages_distributions
from importlib.util import find_spec, resolve_name
from pathlib import Path
from secrets import token_hex

# Imports are followed inside these rooms: the code there decides what an explainer, a judge or a
# reader of another tool's weights gives. Elsewhere, and of the architectures in `nmt`, which no
# explainer imports, the `version=` of a stage represents the code.
FOLLOWED = tuple(f"xnmt_bench.{room}" for room in ("explainers", "nmt", "words", "dumps", "judges"))


def code_hash(cls: type) -> str:
    """Hash the class's module and the modules that it imports, directly or through others.

    Comments, layout, docstrings and `papers` do not count. Imports are followed inside `FOLLOWED`,
    and of a plug-in into all that its author may edit: its own distribution, modules that are not
    installed, and those installed with `pip install -e`.

    A class of a notebook has no file, so that its hash is drawn: each new definition is other code.

    Returns:
        16 hexadecimal digits.
    """
    if _file_of(cls.__module__) is None:
        return _drawn(cls)
    code_by_module: dict[str, str] = {}
    waiting = [cls.__module__]
    while waiting:
        module = waiting.pop()
        if module in code_by_module or not _is_followed(module, cls.__module__):
            continue
        # None for a name inside a module, a namespace package, or compiled code.
        if (file := _file_of(module)) is None:
            continue
        code_by_module[module], imports = _parse(file.read_text(encoding="utf-8"))
        spec = _spec_of(module)
        waiting += _imported_modules(imports, spec.parent if spec else "")
    # Sorted by name: the order of imports changes nothing.
    code = "".join(code_by_module[module] for module in sorted(code_by_module))
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def _is_followed(module: str, importing: str) -> bool:
    """Return whether a module's code counts among that of another one."""
    package, own = (name.partition(".")[0] for name in (module, importing))
    if module == importing or f"{module}.".startswith(tuple(f"{room}." for room in FOLLOWED)):
        return True
    if "xnmt_bench" in (own, package) or package == "proxies":
        return False
    if package in sys.stdlib_module_names:
        return False
    installed = _distributions(package)
    return (
        package == own
        or not installed
        or any(map(_is_editable, installed))
        or bool(installed & _distributions(own))
    )


@cache
def _distributions(package: str) -> frozenset[str]:
    """Return the names of the installed distributions that a top-level package is from."""
    return frozenset(packages_distributions().get(package, ()))


@cache
def _is_editable(name: str) -> bool:
    """Return whether a distribution was installed with `pip install -e`."""
    described = distribution(name).read_text("direct_url.json") or "{}"
    return bool(json.loads(described).get("dir_info", {}).get("editable"))


@cache
def _drawn(cls: type) -> str:
    """Return what stands for the code of a class without a file, in this process."""
    return token_hex(8)


def _file_of(module: str) -> Path | None:
    """Return the Python file of a module; None for a module without one."""
    spec = _spec_of(module)
    # A script that runs has no specification, but its file.
    file = spec.origin if spec else getattr(sys.modules.get(module), "__file__", None)
    return Path(file) if file and file.endswith(".py") else None


def _spec_of(module: str) -> ModuleSpec | None:
    """Return where a module is; None where there is none of this name."""
    try:
        return find_spec(module)
    except (ImportError, ValueError):  # its parent is no package, or cannot be imported
        return None


def code_of_plug_in(cls: type) -> str | None:
    """Return a hash of the code of a plug-in's class; None for a class of this project.

    The `version=` of a stage represents the code of architectures and proxies of this project.
    """
    return None if cls.__module__.startswith(("xnmt_bench.", "proxies.")) else code_hash(cls)


# A process hashes several classes, and most of them import the same modules.
@cache
def _parse(text: str) -> tuple[str, Sequence[ast.Import | ast.ImportFrom]]:
    """Return a module's syntax tree as text, and its import statements."""
    # The syntax tree has no comments and no layout.
    tree = ast.parse(text)
    _drop_docstrings(tree)
    _drop_references(tree)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return ast.dump(tree), imports


def _drop_docstrings(tree: ast.Module) -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]


def _drop_references(tree: ast.Module) -> None:
    """Drop the papers that classes name, which decide no result."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.body = [part for part in node.body if not _names_papers(part)]


def _names_papers(statement: ast.stmt) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    return any(isinstance(target, ast.Name) and target.id == "papers" for target in targets)


def _imported_modules(
    imports: Sequence[ast.Import | ast.ImportFrom], package: str | None
) -> Iterator[str]:
    """Yield the full name of each module that one of a package imports.

    Of `from a import b` these are both `a` and `a.b`.
    """
    for node in imports:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            base = resolve_name("." * node.level + (node.module or ""), package)
            yield base
            # Only a package can hold modules, and only a package has a path.
            if hasattr(sys.modules.get(base), "__path__"):
                yield from (f"{base}.{alias.name}" for alias in node.names)
