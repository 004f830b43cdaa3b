"""The pages: their commands run or are marked, their links lead somewhere.

A command is a line of a code block in README.md or docs/guide that begins with `python`, `make` or
`xnmt`. Each is composed and checked as the command itself does. It is also run, unless the page
says in one of these ways why it is not:

- a comment behind it says how long it takes (`# minutes`) or what it needs (`# needs a GPU`);
- it holds a word in capitals, such as DIR, which stands for the reader's own files and is explained
  in the page's text;
- a comment says what it comes with (`# with the plug-in above`). It is not composed either.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple

import hydra
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from support import forked_commands
from support.configurations import DISCOURSE
from support.forked_commands import command as run_command
from support.paths import ROOT
from xnmt_bench.cli import unknown_choices
from xnmt_bench.overrides import quoted
from xnmt_bench.program import COMMANDS, sentence_first
from xnmt_bench.schema import check

CONF = ROOT / "conf"
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
TABLES = sorted((ROOT / "docs" / "recorded").glob("*/*.csv"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"(\S+/)?(python3?|make|xnmt(-\S+)?) ")
PLACEHOLDER = re.compile(r"(?<![\w-])[A-Z]{3,}\d?(?![\w-])")
NOT_RUN = re.compile(r"(needs|with)\b|.*\b(minutes?|hours?)\b")
# Where `corpus` is not `toy_discourse`, its options are left out.
SIZES = [
    *DISCOURSE, "corpus.train=200", "rules.train_sentences=40", "rules.test_sentences=20",
    "rules.largest_k=1", "proxy.training.max_epochs=1", "bootstrap.samples=20",
]  # fmt: skip
# Files that commands of the pages name.
FILES = {
    "text.en": "The cat sleeps because it is tired .\n",
    "alignment.talp": "1-1 2-2\n",
    "giza.grow-diagonal-final.talp": "0-0\n",
}
BEGINS = ("pip install ", "import ", "from ")  # how a first block of no command may begin
READS = ("xnmt results", "evaluate")  # tables that a report wrote; results that train.py made
# Pages make these results by commands that need data.
FIRST = "python train.py metric=[aer,confidence] explainer=attention"


class Command(NamedTuple):
    """A command of a page.

    Attributes:
        page, line: where it stands, lines counted from 1.
        text: of it, its continued lines joined.
        comment: behind it; empty for none.
    """

    page: str
    line: int
    text: str
    comment: str = ""

    @property
    def marked(self) -> bool:
        """Whether the page says why it cannot simply be run."""
        return bool(NOT_RUN.match(self.comment) or PLACEHOLDER.search(self.text))


def code_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number, line) of each line inside a code block of a page."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield number, line.strip()


def commands(page: Path) -> Iterator[Command]:
    """Yield the commands of a page; `a && b` are two."""
    begun, first = "", 0
    for number, line in code_lines(page.read_text(encoding="utf-8")):
        if not begun:
            if not COMMAND.match(line + " "):
                continue
            first = number
        begun += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        code, comment, *_ = [*re.split(r"\s#", begun), ""]
        for text in re.split(r" && | \| ", code):
            if COMMAND.match(text.strip() + " "):
                where = page.relative_to(ROOT).as_posix()
                # What is printed may go into a file.
                yield Command(where, first, text.partition(" > ")[0].strip(), comment.strip())
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
    if "launcher=slurm" in arguments:
        pytest.importorskip("submitit", reason="the extra `slurm` is not installed")
    overrides = [quoted(a) for a in arguments if a not in ("-m", "--multirun")]
    if overrides == ["--help"]:
        return
    assert not [a for a in overrides if a.startswith("-") or a == "..."]
    assert unknown_choices(overrides, CONF) == []
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        for job in jobs(overrides):
            check(hydra.compose("config", job), complete)


def compose_program(name: str, *arguments: str) -> None:
    """Check a command of `xnmt`: the last two have no options, and nothing to compose."""
    assert name in COMMANDS
    if name == "train":
        compose(list(arguments))
    elif name in ("explain", "evaluate"):
        compose(sentence_first(arguments) if name == "explain" else list(arguments), False)


def script_of(arguments: list[str]) -> Path:
    """The file that `python` runs, by its name or as a module of this project."""
    if arguments[0] != "-m":
        return ROOT / arguments[0]
    module = ROOT.joinpath(*arguments[1].split("."))
    return module / "__main__.py" if module.is_dir() else module.with_suffix(".py")


@pytest.mark.parametrize("command", every_command(), ids=lambda c: f"{c.page}:{c.line}")
def test_a_command_of_a_page_is_right(command):
    program, *arguments = shlex.split(command.text)
    if command.comment.startswith("with ") or not arguments:
        return
    if Path(program).name == "make":
        targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {argument for argument in arguments if "=" not in argument} <= set(targets)
    elif arguments[0] in ("train.py", "evaluate.py"):
        compose(arguments[1:], complete=arguments[0] == "train.py")
    elif program.startswith("xnmt-"):
        compose(arguments)
    elif program == "xnmt":
        compose_program(*arguments)
    else:
        script = script_of(arguments)
        assert script.is_file(), "say what it comes with, or name a script that is there"
        flags = [argument for argument in arguments if argument.startswith("--")]
        assert [flag for flag in flags if f'"{flag}"' not in script.read_text()] == []


def run(text: str, folder: Path) -> CompletedProcess:
    """Run a command in a folder; training takes little data and few steps."""
    program, *arguments = shlex.split(text)
    is_program = program == "xnmt"
    if arguments[0] in ("train.py", "train") and "--help" not in arguments:
        discourse = "corpus=toy_discourse" in arguments
        arguments += [s for s in SIZES if discourse or not re.match("corpus=|corpus.families", s)]
    elif arguments[0] in ("evaluate.py", "evaluate"):
        arguments.append("bootstrap.samples=20")
    if is_program:
        return run_command("xnmt_bench/__main__.py", *arguments, cwd=folder)
    script = script_of(arguments)
    if script.name in ("train.py", "evaluate.py"):
        return run_command(script.name, *arguments[1:], cwd=folder)
    words = arguments[2:] if arguments[0] == "-m" else arguments[1:]
    return forked_commands.run(script, words, folder, {**os.environ, "OMP_NUM_THREADS": "1"})


@pytest.mark.long
@pytest.mark.parametrize("discourse", [False, True], ids=["sentences", "documents"])
def test_commands_without_a_mark_run(discourse, tmp_path):
    """All in one folder, those that make results first: a page may report another page's."""
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    of_documents = {c.page for c in every_command() if "corpus=toy_discourse" in c.text}
    texts = dict.fromkeys(
        c.text
        for c in [Command("", 0, FIRST), *every_command()]
        if not c.marked and (c.page in of_documents) == discourse
    )
    failed = {}
    for text in sorted(texts, key=lambda text: [*map(text.__contains__, READS)]):
        done = run(text, tmp_path)
        if done.returncode:
            failed[text] = done.stderr[-2000:]
    assert failed == {}


@pytest.mark.parametrize("page", [ROOT / "README.md", *GUIDE], ids=lambda p: p.name)
def test_a_page_explains_its_words_in_capitals(page):
    text = page.read_text(encoding="utf-8")
    composed = [c for c in commands(page) if not c.comment.startswith("with ")]
    words = {word for command in composed for word in PLACEHOLDER.findall(command.text)}
    assert [word for word in sorted(words) if f"`{word}`" not in text] == []


def test_the_shell_takes_no_brace_of_a_command_for_its_own():
    """Bash makes two words of `a={b:1,c:2}` that is not quoted."""
    unquoted = {c.text: re.sub(r"'[^']*'|\"[^\"]*\"", "", c.text) for c in every_command()}
    assert [
        text
        for text, unquoted_text in unquoted.items()
        if re.search(r"\{[^}]*,[^}]*\}", unquoted_text)
    ] == []


def test_marks_are_found():
    text = "python train.py nmt=marian nmt.path=Helsinki-NLP/opus-mt-de-en"
    assert not Command("", 0, text).marked
    assert not Command("", 0, text, "lists the explainers").marked
    assert Command("", 0, text, "about 20 minutes").marked
    assert Command("", 0, text, "needs a GPU").marked
    assert Command("", 0, f"{text} corpus.root=DIR/x").marked


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


@pytest.mark.parametrize("table", TABLES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_recorded_table_is_linked_from_its_page_and_readable(table):
    """Each row has as many cells as the header, and each column a name of its own."""
    page = table.parent.with_suffix(".md")
    assert f"]({table.parent.name}/{table.name})" in page.read_text(encoding="utf-8")
    with table.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert rows
    assert {len(row) for row in rows} == {len(header)}
    assert len(set(header)) == len(header)


@pytest.mark.parametrize("page", GUIDE, ids=lambda p: p.name)
def test_a_page_of_the_guide_begins_with_a_question_and_what_to_type(page):
    """Its title, or a line under it, is what it answers; a command or Python comes next."""
    title, *paragraphs = page.read_text(encoding="utf-8").split("\n\n")
    question = title if title.endswith("?") else paragraphs.pop(0)
    assert title.startswith("# ") and "\n" not in title
    assert "?" in question and len(question) < 240
    _, first_line = next(code_lines(paragraphs[0]))
    assert COMMAND.match(first_line.removeprefix("$ ")) or first_line.startswith(BEGINS), first_line
