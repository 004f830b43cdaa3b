"""The text of `--help`: what one does first, the groups with their choices, and the options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

from xnmt_bench.registry import KINDS, entries

FIRST = {
    "train": """\
Make what is missing and measure the configured metrics.

What one does first:
  python evaluate.py explain="Der Hund schläft ."
      one sentence under every explainer, by the system that comes with the package
  python train.py -m experiment=quick nmt=marian nmt.path=FOLDER_OR_NAME corpus=text \\
          corpus.root=DIR corpus.source_language=de corpus.target_language=en \\
          explainer=attention,gradient_norm,prediction_difference,lexicon,random
      explainers of your own model, judged in minutes
  python train.py dry_run=true ...
      what a job would make, what is there already, and about how long it takes
  python evaluate.py
      tables, figures and pages of everything that was measured""",
    "evaluate": """\
Report what was measured, or explain one sentence. Nothing is trained here.

What one does first:
  python evaluate.py explain="Der Hund schläft ."
      one sentence under every explainer, by the system that comes with the package
  python evaluate.py explain="Der Hund schläft ." nmt=marian nmt.path=FOLDER_OR_NAME
      the same by your own model
  python evaluate.py
      tables, figures and pages of everything that train.py measured
  python evaluate.py analysis=[significance,rank_stability]
      which differences are more than chance""",
}


INDENT = 6 * " "


def help_text(command: str, conf: Path) -> str:
    """Return the text of `--help`.

    Args:
        command: `train` or `evaluate`.
        conf: the folder of the configuration.
    """
    # The file's text and not the loaded configuration: its comments are the help.
    lines = (conf / "config.yaml").read_text(encoding="utf-8").splitlines()
    begins = lines.index("defaults:")
    ends = next(n for n, line in enumerate(lines) if n > begins and not line.startswith(" "))
    options = "\n".join(lines[ends : lines.index("hydra:")]).strip()
    groups = "\n".join(_groups(lines[begins:ends], conf))
    return f"""{FIRST[command]}

Groups, with their default in front (-m sweeps: nmt=transformer,rnn_search):
{groups}

Options (a choice of a group brings its own; python {command}.py --cfg job ... prints them all):
{_indented(options)}
"""


def _groups(defaults: list[str], conf: Path) -> Iterator[str]:
    """Yield two lines for each group: what it is, and its choices."""
    for line in defaults:
        match = re.fullmatch(r"  - (\w+): (\S.*?) # (.*)", line)
        if not match:
            continue
        group, default, meaning = match.groups()
        # Of an experiment's folder, such as li2020/table1, each file is a choice.
        files = (path.relative_to(conf / group) for path in (conf / group).rglob("*.yaml"))
        # A leading underscore marks what other files stand on, and is not a choice.
        choices = {path.with_suffix("").as_posix() for path in files if path.name[0] != "_"}
        for kind, described in KINDS.items():
            if described.group == group:
                choices |= set(entries(kind))  # plug-ins too
        yield f"  {group}={default}  {meaning}"
        yield from wrap(
            ", ".join(sorted(choices)), 96, initial_indent=INDENT, subsequent_indent=INDENT
        )


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
