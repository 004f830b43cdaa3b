"""What can be chosen, a line each: `xnmt list`, and the options of one choice."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import EntryPoint
from pathlib import Path
from textwrap import TextWrapper
from typing import Any, Literal, get_args, get_origin

from xnmt_bench.catalogue import catalogue, describe
from xnmt_bench.errors import MissingError, StoreError, XnmtError
from xnmt_bench.options import section
from xnmt_bench.registry import (
    GIVEN,
    KINDS,
    LISTS,
    OURS,
    entries,
    load,
    options,
    target_of,
    unknown,
)
from xnmt_bench.store import PARTIAL, Artefact

# Groups of the configuration that have files and no classes of one kind.
GROUPS = {
    "corpora": "corpus",
    "systems": "nmt",
    "experiments": "experiment",
    "loggers": "logger",
    "launchers": "launcher",
}
# Where the options of a choice stand.
PLACES = {
    "explainers": "explainer.phi.",
    "proxies": "proxy.sizes.",
    "architectures": "nmt.sizes.",
    "sheets": "sheet.",
    "corpora": "corpus.",
    "systems": "nmt.reader.",
    "loggers": "logger.",
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
    "loggers": "where numbers go besides the results folder: logger=NAME",
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


def list_choices(kind: str | None, of: str | None, conf: Path) -> str:
    """Return the text of `xnmt list KIND`, or the kinds there are.

    Args:
        kind: such as `explainers` or `explainer`, `corpora`, `store`; None for the kinds.
        of: a choice, whose options are listed; the folder of a store, None for `outputs/store`.
        conf: the folder of the configuration.

    Raises:
        XnmtError: the kind or the choice is unknown, or two packages declare one name.
    """
    if kind is None:
        return _columns(_kinds(conf))
    names = {name: name for name in (*KINDS, *GROUPS, STORE)}
    # What is typed in front of `=` is understood too.
    names |= {group: name for name, group in GROUPS.items() if group not in names}
    names |= {k.group: name for name, k in KINDS.items() if k.group and k.group not in names}
    if kind not in names:
        raise XnmtError(unknown("list", kind, sorted(set(names.values()))))
    name = names[kind]
    if name == STORE:
        return _columns(_artefacts(Path(of or "outputs/store")))
    if of is not None:
        return _columns(_options(name, of, conf)) or f"{of} has no options"
    if name in GROUPS:
        return _columns(_files(conf / GROUPS[name]))
    return _columns(_declared(name, point) for point in entries(name).values())


def _columns(listed: Iterable[Choice]) -> str:
    """Return a line for each choice, names in one column; folded where a terminal shows it."""
    choices = list(listed)
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
    """Return what an entry point declares: its docstring's first line, its owner, its needs.

    A plug-in is imported for it.
    """
    marks = []
    if point.value.startswith(OURS):
        facts = catalogue()[kind][point.name]
    else:
        marks.append(f"plug-in of {point.dist.name if point.dist else point.module}")
        try:
            facts = describe(load(kind, point.name))
        except XnmtError as error:
            facts = {"line": f"cannot be imported: {error}"}
    if facts.get("blind") is True:
        marks.append("blind")
    mark = f"({', '.join(marks)}) " if marks else ""
    details = []
    if kind == "metrics":
        if needs := facts.get("needs"):
            details.append(f"needs {needs}")
        if inputs := facts.get("inputs"):
            paths = ", ".join(f"{name}.path" for name in inputs)
            details.append(f"can read {paths} instead of opening a system")
    return Choice(point.name, mark + facts["line"], tuple(details))


def _options(kind: str, name: str, conf: Path) -> Iterator[Choice]:
    """Yield the options of a choice with their values, and their texts in its docstring."""
    if kind not in (*KINDS, *PLACES):
        raise XnmtError(f"list {kind}: takes no name; {name} is itself a file of options")
    group = KINDS[kind].group if kind in KINDS else GROUPS[kind]
    made_by = load(kind, name) if kind in KINDS else None
    # Of a group of which several are chosen, each has its options under its name.
    place = PLACES.get(kind, f"{group}.{name}." if group in LISTS else "")
    node: Any = {}
    if (conf / f"{group}/{name}.yaml").is_file():  # else it is a plug-in, or no choice
        from omegaconf import OmegaConf

        from xnmt_bench.composition import load_choice  # slow, and a list should answer at once

        node = OmegaConf.to_container(load_choice(str(group), name))
        for part in place.split("."):
            node = node.get(part, node)
    elif made_by is None:
        files = [choice.name for choice in _files(conf / str(group))]
        raise XnmtError(unknown(f"choice of {group}", name, files))
    made_by = made_by or target_of(node["_target_"])
    hidden = KINDS[kind].hidden if kind in KINDS else GIVEN[str(group)]
    texts, fields = _texts_of_arguments(made_by), section(made_by, hidden).model_fields
    for option, default in options(made_by, hidden).items():
        value = node.get(option, default)
        value = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        values = _values(fields[option].annotation)
        line = f"{', '.join(values)}: {texts.get(option, '')}" if values else texts.get(option, "")
        yield Choice(f"{place}{option}={value}", line)


def _texts_of_arguments(made_by: Any) -> dict[str, str]:
    """Return the text of each argument in docstrings of Google's style."""
    texts: dict[str, str] = {}
    for documented in reversed(getattr(made_by, "__mro__", [made_by])):
        docstring = inspect.cleandoc(documented.__doc__ or "")
        arguments = re.search(r"^Args:\n((?: .*(?:\n|$)|\n)*)", docstring, re.MULTILINE)
        # One text may describe several, `source_language, target_language: ...`.
        entry = re.compile(r"^    (\w+(?:, \w+)*): ((?:.*(?:\n     )?)*)", re.MULTILINE)
        for names, text in entry.findall(arguments[1] if arguments else ""):
            # A base has said it.
            if not text.startswith("as for `"):
                texts |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return texts


def _values(annotation: Any) -> list[str]:
    """Return the texts that an option can be, by its annotation; empty where it can be any."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [value for part in get_args(annotation) for value in _values(part)]


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
