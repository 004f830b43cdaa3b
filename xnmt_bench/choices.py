"""What can be chosen, a line each: `xnmt list`. Source text is read, and nothing is imported."""

from __future__ import annotations

import ast
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from textwrap import TextWrapper
from typing import Any

from xnmt_bench.errors import MissingError, StoreError, XnmtError
from xnmt_bench.registry import KINDS, OURS, entries, unknown
from xnmt_bench.store import PARTIAL, Artefact

# Groups of the configuration that have files and no classes of one kind.
GROUPS = {
    "corpora": "corpus",
    "systems": "nmt",
    "experiments": "experiment",
    "loggers": "logger",
    "launchers": "launcher",
}
STORE = "store"
# What a kind is, and how one of it is chosen.
KIND_LINES = {
    "explainers": "which words mattered for a decision: explainer=NAME",
    "metrics": "what is measured: metric=[NAME,...]",
    "judges": "predictors of a decision from its words: judge=[NAME,...]",
    "analyses": "questions about what was measured: analysis=[NAME,...]",
    "proxies": "the small models that trained judges are: proxy=NAME",
    "architectures": "translation models that are trained here: nmt=NAME",
    "morphologies": "the gender of words: metric.consistency.morphology=NAME",
    "sheets": "questions for people: sheet=NAME",
    "dumps": "files of other tools: relevance.format=NAME",
    "resolvers": "who is who in a sentence: metric.consistency.resolver=NAME",
    "corpora": "sentence pairs: corpus=NAME",
    "systems": "translation models, also those made elsewhere: nmt=NAME",
    "experiments": "ready settings of several groups: experiment=NAME",
    "loggers": "where numbers go beside the results folder: logger=NAME",
    "launchers": "how the jobs of a sweep run: launcher=NAME",
    STORE: "what was made and is kept; xnmt list store FOLDER for another one than outputs/store",
}
SHOWN = 3  # values of an artefact, on its line


@dataclass(frozen=True)
class Choice:
    """One thing that can be chosen.

    Attributes:
        name: on the command line.
        line: what it is.
        details: what it needs, lines of their own.
    """

    name: str
    line: str
    details: tuple[str, ...] = ()


def list_choices(kind: str | None, folder: str | None, conf: Path) -> str:
    """Return the text of `xnmt list KIND`, or the kinds there are.

    Args:
        kind: such as `explainers` or `explainer`, `corpora`, `store`; None for the kinds.
        folder: of the store; None for `outputs/store`.
        conf: the folder of the configuration.

    Raises:
        XnmtError: the kind is unknown, or two packages declare one name.
    """
    if kind is None:
        return _columns(list(_kinds(conf)))
    names = {name: name for name in (*KINDS, *GROUPS, STORE)}
    # What is typed in front of `=` is understood too.
    names |= {group: name for name, group in GROUPS.items() if group not in names}
    names |= {k.group: name for name, k in KINDS.items() if k.group and k.group not in names}
    if kind not in names:
        raise XnmtError(unknown("list", kind, sorted(set(names.values()))))
    name = names[kind]
    if folder is not None and name != STORE:
        raise XnmtError(f"list {name}: takes no folder; `xnmt list store FOLDER` does")
    if name == STORE:
        return _columns(list(_artefacts(Path(folder or "outputs/store"))))
    if name in GROUPS:
        return _columns(list(_files(conf / GROUPS[name])))
    return _columns([_declared(name, point) for point in entries(name).values()])


def _columns(choices: Sequence[Choice]) -> str:
    """Return a line for each choice, names in one column; folded where a terminal shows it."""
    margin = max((len(choice.name) for choice in choices), default=0) + 2
    # A pipe gets whole lines, which `grep` can find.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    wrapper = TextWrapper(max(width, margin + 30), subsequent_indent=" " * margin)
    lines = []
    for choice in choices:
        lines += wrapper.wrap(f"{choice.name:{margin}}{choice.line}")
        for detail in choice.details:
            wrapper.initial_indent = " " * margin
            lines += wrapper.wrap(detail)
            wrapper.initial_indent = ""
    return "\n".join(lines)


def _kinds(conf: Path) -> Iterator[Choice]:
    """Yield what can be listed, and how many there are."""
    for name, line in KIND_LINES.items():
        if name == STORE:
            yield Choice(name, line)
            continue
        count = len(entries(name) if name in KINDS else list(_files(conf / GROUPS[name])))
        yield Choice(name, f"{count:>3}  {line}")


def _files(folder: Path) -> Iterator[Choice]:
    """Yield the choices of a group of the configuration, by the comments that begin its files."""
    for path in sorted(folder.rglob("*.yaml")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        if path.name.startswith("_"):  # what other files stand on
            continue
        comments = []
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("# @"):  # where Hydra puts the file
                continue
            if not line.startswith("#"):
                break
            comments.append(line.lstrip("# "))
        yield Choice(name, " ".join(comments))


def _declared(kind: str, point: EntryPoint) -> Choice:
    """Return what an entry point declares: its docstring's first line, its owner, its needs."""
    module, _, name = point.value.partition(":")
    cls = class_in(module, name)
    line = (ast.get_docstring(cls[1]) or "" if cls else "").partition("\n")[0]
    attributes = _attributes(*cls) if cls else {}
    marks = []
    if not point.value.startswith(OURS):
        owner = point.dist.name if point.dist else point.value.partition(":")[0]
        marks.append(f"plug-in of {owner}")
    if attributes.get("blind") is True:
        marks.append("blind")
    mark = f"({', '.join(marks)}) " if marks else ""
    details = []
    if kind == "metrics":
        if needs := attributes.get("needs"):
            details.append(f"needs {needs}")
        if inputs := attributes.get("inputs"):
            paths = ", ".join(f"{kind}.path" for kind in inputs)
            details.append(f"reads {paths} in a system's place")
    return Choice(point.name, mark + (line or "no docstring to read"), tuple(details))


def class_in(
    module: str, name: str, visited: frozenset[str] = frozenset()
) -> tuple[str, ast.ClassDef] | None:
    """Return a class and the module that defines it, which another may import it from.

    None where its source cannot be read.
    """
    path = _source_of(module)
    if path is None or module in visited:
        return None
    for node in _parse(path).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
        if isinstance(node, ast.ImportFrom):
            names = {alias.asname or alias.name: alias.name for alias in node.names}
            if name in names:
                package = path.name == "__init__.py"
                origin = _absolute(module, package, node.level, node.module)
                return class_in(origin, names[name], visited | {module})
    return None


def _absolute(module: str, package: bool, level: int, name: str | None) -> str:
    """Return the full name of the module that `from ..name import` names."""
    if not level:
        return name or ""
    parts = module.split(".")
    up = level - package  # a package's first dot is the package itself
    return ".".join([*parts[: len(parts) - up], *([name] if name else [])])


@cache
def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


@cache
def _source_of(module: str) -> Path | None:
    """Return the source file of a module, without importing any package that it lies in."""
    top, *below = module.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    name = top
    for part in below:
        if spec is None or spec.submodule_search_locations is None:
            return None
        name = f"{name}.{part}"
        spec = PathFinder.find_spec(name, spec.submodule_search_locations)
    path = Path(spec.origin) if spec and spec.origin else None
    return path if path and path.suffix == ".py" and path.is_file() else None


def _attributes(module: str, cls: ast.ClassDef) -> dict[str, Any]:
    """Return the class attributes that are plain values, those of its bases too."""
    values: dict[str, Any] = {}
    for base in cls.bases:
        if isinstance(base, ast.Name) and (base_class := class_in(module, base.id)):
            values |= _attributes(*base_class)
    for node in cls.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if isinstance(targets[0], ast.Name) and value is not None:
            try:
                values[targets[0].id] = ast.literal_eval(value)
            except ValueError:  # made by a call; nothing that is shown is
                continue
    return values


def _artefacts(root: Path) -> Iterator[Choice]:
    """Yield the artefacts of a store by stage, newest last; files are not verified.

    Raises:
        MissingError: the folder holds none.
    """
    folders = [path for path in root.glob("*/*") if path.is_dir()]
    if not folders:
        raise MissingError(f"{root}: no store is here yet; `xnmt train` makes one")
    for folder in sorted(folders, key=lambda path: (path.parent.name, path.stat().st_mtime)):
        size = _size(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))
        made_at = datetime.fromtimestamp(folder.stat().st_mtime).strftime("%Y-%m-%d %H:%M")
        if folder.suffix == PARTIAL:
            about = "unfinished; the same command goes on with it"
        else:
            try:
                about = _describe(Artefact.unverified(folder))
            except StoreError as error:
                about = f"damaged: {error}"
        line = f"{size:>9}  {made_at}  {about}".rstrip()
        yield Choice(f"{folder.parent.name}/{folder.name}", line)


def _size(count: int) -> str:
    """Return a number of bytes as people read it."""
    if count < 1000:
        return f"{count} B"
    unit = 1 if count < 1e6 else 2 if count < 1e9 else 3
    return f"{count / 1000**unit:.1f} {('kB', 'MB', 'GB')[unit - 1]}"


def _describe(artefact: Artefact) -> str:
    """Return what an artefact is of, and the first plain facts of it."""
    recipe = {k: v for k, v in artefact.recipe.items() if k != "version"}
    of = [artefact.kind] if artefact.kind else _plain(recipe)
    return "; ".join(", ".join(part) for part in (of, _plain(artefact.facts)) if part)


def _plain(values: dict[str, Any]) -> list[str]:
    """Return the first texts and numbers of some values, each with its name."""
    plain = {k: v for k, v in values.items() if isinstance(v, str | int | float) and v != ""}
    shown = ((k, f"{v:.4g}" if isinstance(v, float) else v) for k, v in plain.items())
    return [f"{name} {value}" for name, value in shown][:SHOWN]
