"""A hash of the code behind a class, so that edited code never answers from old results."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, resolve_name
from pathlib import Path

# Imports are followed inside these rooms: the code there decides what an explainer, a judge or a
# reader of another tool's weights gives. Elsewhere, and of the architectures in `nmt`, which no
# explainer imports, the `version=` of a stage stands for the code.
FOLLOWED = tuple(f"xnmt_bench.{room}" for room in ("explainers", "nmt", "words", "dumps", "judges"))


def code_hash(cls: type) -> str:
    """Hash the class's module and the modules that it imports, directly or through others.

    Comments, layout and docstrings do not count. Imports are followed inside `FOLLOWED` and inside
    the class's own package, where that is another one.

    Returns:
        16 hexadecimal digits.
    """
    package = cls.__module__.partition(".")[0]
    rooms = FOLLOWED if package == "xnmt_bench" else (*FOLLOWED, package)
    code_by_module: dict[str, str] = {}
    waiting = [cls.__module__]
    while waiting:
        module = waiting.pop()
        followed = module == cls.__module__ or f"{module}.".startswith(
            tuple(f"{room}." for room in rooms)
        )
        if module in code_by_module or not followed:
            continue
        spec = find_spec(module)
        if spec is None or spec.origin is None:  # a name inside a module, or a namespace package
            continue
        code_by_module[module], imports = _parse(Path(spec.origin).read_text(encoding="utf-8"))
        waiting += _imported_modules(imports, spec)
    # Sorted by name: the order of imports changes nothing.
    code = "".join(code_by_module[module] for module in sorted(code_by_module))
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def code_of_plug_in(cls: type) -> str | None:
    """Return a hash of the code of a plug-in's class; None for a class of this project.

    The `version=` of a stage stands for the code of architectures and proxies of this project.
    """
    return None if cls.__module__.startswith(("xnmt_bench.", "proxies.")) else code_hash(cls)


# A process hashes several classes, and most of them import the same modules.
@cache
def _parse(text: str) -> tuple[str, Sequence[ast.Import | ast.ImportFrom]]:
    """Return a module's syntax tree as text, and its import statements."""
    # The syntax tree has no comments and no layout; docstrings are dropped from it.
    tree = ast.parse(text)
    _drop_docstrings(tree)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return ast.dump(tree), imports


def _drop_docstrings(tree: ast.Module) -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]


def _imported_modules(
    imports: Sequence[ast.Import | ast.ImportFrom], spec: ModuleSpec
) -> Iterator[str]:
    """Yield the full name of each imported module; of `from a import b` both `a` and `a.b`."""
    for node in imports:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            base = resolve_name("." * node.level + (node.module or ""), spec.parent)
            yield base
            # Only a package can hold modules, and only a package has a path.
            if hasattr(sys.modules.get(base), "__path__"):
                yield from (f"{base}.{alias.name}" for alias in node.names)
