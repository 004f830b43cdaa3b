"""The text of `--help`: what one does first, the groups with their choices, and the options."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import indent, wrap

from xnmt_bench.registry import KINDS, entries

FIRST = {
    "train": """\
Make what is missing and measure the configured metrics.

What one does first:
  {evaluate} explain="Der Hund schläft ."
      one sentence under every explainer, by the system that comes with the package
  {train} -m experiment=quick nmt=marian nmt.path=FOLDER_OR_NAME corpus=text \\
          corpus.root=DIR corpus.source_language=de corpus.target_language=en \\
          explainer=attention,gradient_norm,prediction_difference,lexicon,random
      explainers of your own model, judged in minutes
  {train} dry_run=true ...
      what a job would make, what is there already, and about how long it takes
  {evaluate}
      tables, figures and pages of everything that was measured""",
    "evaluate": """\
Report what was measured, or explain one sentence. Nothing is trained here.

What one does first:
  {evaluate} explain="Der Hund schläft ."
      one sentence under every explainer, by the system that comes with the package
  {evaluate} explain="Der Hund schläft ." nmt=marian nmt.path=FOLDER_OR_NAME
      the same by your own model
  {evaluate}
      tables, figures and pages of everything that was measured
  {evaluate} analysis=[significance,rank_stability]
      which differences are more than chance
  {evaluate} rows="explainer=attention,lexicon judge=base" figures.pdf=true
      some of the rows, with tables in LaTeX and figures in PDF; `{evaluate} cite` prints BibTeX
  {evaluate} bundle=FILE.zip
      the same in one file to be given away; results=[a.zip,b.zip] reads such files""",
}


PROGRAM_HELP = """\
Which explanation of a translation model can you trust?

  xnmt explain "Der Hund schläft ."
      one sentence under every explainer, by the system that comes with the package
  xnmt train experiment=quick nmt=marian nmt.path=FOLDER_OR_NAME ...
      make what is missing and measure explainers of your own model
  xnmt evaluate metric=[fidelity]
      tables, figures and pages of what was measured
  xnmt results [FOLDER]
      the tables of an earlier report, printed again
  xnmt list [KIND [NAME]]
      what there is to choose, plug-ins too: xnmt list explainers, metrics, judges, store ...
      and the options of one choice: xnmt list metrics aer
  xnmt leaderboard FOLDER [PAGE]
      one page, leaderboard.html, of all bundles of a folder

`xnmt explain --help`, `xnmt train --help` and `xnmt evaluate --help` list the options. Each is
written as name=value; -m sweeps: xnmt train -m k=1,2,3."""

SENTENCE_HELP = """\
xnmt explain SENTENCE [OPTION=VALUE ...]

One sentence under every explainer that asks the model, as heatmaps in the terminal and in
results/explanation.png. The sentence comes first, in quotes.

  xnmt explain "Der Hund schläft ."
      by the small German-English system that comes with the package; no network is needed
  xnmt explain "Der Hund schläft ." explain_target="The dog is asleep ."
      of a translation of yours, where the system's own is not the one in question
  xnmt explain "Der Hund schläft ." explain_foil="The cat is asleep ."
      why the system did not say that, at the first word in which the two part
  xnmt explain "Der Hund schläft ." nmt=marian nmt.path=FOLDER_OR_NAME
      by your own model; `xnmt list systems` shows what nmt= can be

Further options: device=cpu, results=FOLDER for the picture, nmt.beam=N. `xnmt evaluate --help`
lists all of them."""

INDENT = 6 * " "
# Beside the packages in a checkout, inside the package where it is installed.
HERE = Path(__file__).parent
CONF = next(folder for folder in (HERE / "conf", HERE.parent / "conf") if folder.is_dir())


def help_text(command: str) -> str:
    """Return the text of `--help`.

    Args:
        command: `train` or `evaluate`.
    """
    # Scripts lie in a checkout; an installed package has only `xnmt`.
    script = Path(sys.argv[0]).name
    form = "python {}.py" if script in ("train.py", "evaluate.py") else "xnmt {}"
    commands = {name: form.format(name) for name in FIRST}
    # The file's text and not the loaded configuration: its comments are the help.
    lines = (CONF / "config.yaml").read_text(encoding="utf-8").splitlines()
    begins = lines.index("defaults:")
    ends = next(n for n, line in enumerate(lines) if n > begins and not line.startswith(" "))
    options = "\n".join(lines[ends : lines.index("hydra:")]).strip()
    groups = "\n".join(_groups(lines[begins:ends]))
    return f"""{FIRST[command].format(**commands)}

Groups, with their default in front (-m sweeps: nmt=transformer,rnn_search):
{groups}

Options (a choice of a group brings its own: `xnmt list metrics aer` says what each is, and
{commands[command]} --cfg job ... prints all of a job):
{indent(options, "  ")}
"""


def choices_of(group: str, folders: Iterable[Path]) -> set[str]:
    """Return what can be chosen of a group: files in folders of configuration, and entry points."""
    # Of an experiment's folder, such as li2020/table1, each file is a choice.
    files = (
        path.relative_to(folder / group).with_suffix("")
        for folder in folders
        for path in (folder / group).rglob("*.yaml")
    )
    # A leading underscore marks what other files stand on, and is not a choice.
    names = {path.as_posix() for path in files if not path.name.startswith("_")}
    # Plug-ins too.
    return names.union(*(entries(kind) for kind in KINDS if KINDS[kind].group == group))


def _groups(defaults: list[str]) -> Iterator[str]:
    """Yield two lines for each group: what it is, and its choices."""
    for line in defaults:
        match = re.fullmatch(r"  - (\w+): (\S.*?) # (.*)", line)
        if not match:
            continue
        group, default, meaning = match.groups()
        yield f"  {group}={default}  {meaning}"
        choices = ", ".join(sorted(choices_of(group, [CONF])))
        yield from wrap(choices, 96, initial_indent=INDENT, subsequent_indent=INDENT)
