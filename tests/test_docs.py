"""The pages: their commands compose, their links lead somewhere, recorded tables name systems.

A command is a line of a code block in README.md or docs/guide that begins with `python`, `make` or
`xnmt-`. Commands of `train.py` and `evaluate.py` are composed and checked as the command itself
does, without running it. Others name a target of the Makefile, or a script or module that
exists. A block whose commands need more than that (a plug-in, a program that is not installed)
stands under a comment that says what: `<!-- needs a plug-in -->` or `<!-- long -->`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import hydra
import pytest
from conftest import ROOT
from hydra.core.override_parser.overrides_parser import OverridesParser

from xnmt_bench.cli import _unknown_choices, quoted
from xnmt_bench.schema import check

CONF = ROOT / "conf"
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MARK = re.compile(r"<!-- *(long|needs)\b.*-->")
COMMAND = re.compile(r"(\S+/)?(python3?|make|xnmt-\S+) ")


class Command(NamedTuple):
    """A command of a page.

    Attributes:
        page, line: where it stands, lines counted from 1.
        text: of it, its continued lines joined.
        marked: whether its block stands under a mark.
    """

    page: str
    line: int
    text: str
    marked: bool


def code_lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield (number, line, marked) of each line inside a code block of a page."""
    fenced, marked, in_block = False, False, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            in_block = fenced
            marked = marked and fenced
        elif fenced or line.startswith("    "):
            in_block = True
            yield number, line.strip(), marked
        elif MARK.fullmatch(line.strip()):
            marked, in_block = True, False
        elif line.strip():
            marked, in_block = marked and not in_block and not line.strip(), False


def commands(page: Path) -> Iterator[Command]:
    """Yield the commands of a page; `a && b` are two, and what stands behind `#` is left out."""
    begun, first = "", 0
    for number, line, marked in code_lines(page.read_text(encoding="utf-8")):
        if not begun:
            if not COMMAND.match(line + " "):
                continue
            first = number
        begun += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        for text in re.split(r" && | \| ", re.split(r"\s#", begun)[0]):
            if COMMAND.match(text.strip() + " "):
                where = page.relative_to(ROOT).as_posix()
                yield Command(where, first, text.strip(), marked)
        begun = ""


def every_command() -> list[Command]:
    return [command for page in [ROOT / "README.md", *GUIDE] for command in commands(page)]


def jobs(overrides: list[str]) -> Iterator[list[str]]:
    """Yield the overrides of the jobs of a sweep that between them hold each of its choices."""
    parsed = OverridesParser.create().parse_overrides(overrides)
    choices = [list(o.sweep_string_iterator()) if o.is_sweep_override() else None for o in parsed]
    for job in range(max([len(c) for c in choices if c] or [1])):
        yield [
            o.input_line or "" if c is None else f"{o.get_key_element()}={c[min(job, len(c) - 1)]}"
            for o, c in zip(parsed, choices, strict=True)
        ]


def compose(arguments: list[str], complete: bool = True) -> None:
    """Compose and check a command of train.py, or of evaluate.py, which may lack values."""
    overrides = [quoted(a) for a in arguments if a not in ("-m", "--multirun")]
    if overrides == ["--help"]:
        return
    assert not [a for a in overrides if a.startswith("-") or a == "..."]
    assert _unknown_choices(overrides, CONF) == []
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        for job in jobs(overrides):
            check(hydra.compose("config", job), complete)


def script_of(arguments: list[str]) -> Path:
    """The file that `python` runs, by its name or as a module of this project."""
    if arguments[0] != "-m":
        return ROOT / arguments[0]
    module = ROOT.joinpath(*arguments[1].split("."))
    return module / "__main__.py" if module.is_dir() else module.with_suffix(".py")


@pytest.mark.parametrize("command", every_command(), ids=lambda c: f"{c.page}:{c.line}")
def test_a_command_of_a_page_is_right(command):
    program, *arguments = shlex.split(command.text)
    if command.marked or not arguments:
        return
    if Path(program).name == "make":
        targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(arguments) <= set(targets)
    elif arguments[0] in ("train.py", "evaluate.py"):
        compose(arguments[1:], complete=arguments[0] == "train.py")
    elif program.startswith("xnmt-"):
        compose(arguments)
    else:
        script = script_of(arguments)
        assert script.is_file(), "mark the block, or name a script that is there"
        flags = [argument for argument in arguments if argument.startswith("--")]
        assert [flag for flag in flags if f'"{flag}"' not in script.read_text()] == []


def test_commands_are_found():
    assert len(every_command()) > 50


def test_a_wrong_command_is_noticed():
    with pytest.raises(Exception, match="no_such_option"):
        compose(["nmt.no_such_option=1"])


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        other = page.parent / path if path else page
        assert other.exists(), target
        if anchor and other.suffix == ".md":
            assert anchor in anchors(other), target


@pytest.mark.parametrize("page", GUIDE, ids=lambda p: p.name)
def test_a_page_of_the_guide_begins_with_a_command(page):
    """Behind its title stands a code block, so that the first thing read is what to type."""
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert lines[0].startswith("# ")
    assert next(line for line in lines[1:] if not MARK.fullmatch(line)).startswith(("    ", "```"))
