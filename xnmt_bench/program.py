"""The installed command `xnmt`: `explain`, `train`, `evaluate`, `list`, `results`, `leaderboard`.

The first three are Hydra's, as `train.py` and `evaluate.py` are. `list` and `results` import
neither Hydra nor torch, so that they answer at once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from xnmt_bench.errors import XnmtError
from xnmt_bench.help import CONF, PROGRAM_HELP, SENTENCE_HELP
from xnmt_bench.registry import unknown
from xnmt_bench.streams import standard_streams

HELP = ("-h", "--help", "help")
COMMANDS = ("explain", "train", "evaluate", "list", "results", "leaderboard")
PLAIN = ("list", "results", "leaderboard")  # they have no options


def xnmt() -> None:
    """Run `xnmt COMMAND ...`."""
    with standard_streams():
        _run()


def _run() -> None:
    command, *arguments = sys.argv[1:] or ["--help"]
    asks_help = bool({command, *arguments} & set(HELP))
    if command == "--version":
        _print(lambda: version("xnmt_bench"))
    elif command in HELP or (asks_help and command in PLAIN):
        _print(lambda: PROGRAM_HELP)
    elif command == "list":
        _print(lambda: _list(arguments))
    elif command == "results":
        _print(lambda: _results(arguments))
    elif command == "leaderboard":
        _print(lambda: _leaderboard(arguments))
    elif command == "explain" and asks_help:
        _print(lambda: SENTENCE_HELP)
    elif command in COMMANDS:
        _configured(command, arguments)
    else:
        _refuse(unknown("command", command, COMMANDS) + " (`xnmt --help`)")


def _print(text: Callable[[], str]) -> None:
    """Print a text; what the user can mend ends the program in one line."""
    try:
        print(text())
    except XnmtError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        from xnmt_bench.cli import DISK

        if error.errno not in DISK:
            raise
        sys.exit(f"error: {error.filename}: {error.strerror}")


def _refuse(problem: str) -> None:
    """End the program for an invalid command line."""
    print(f"error: {problem}", file=sys.stderr)
    sys.exit(2)


def _list(arguments: Sequence[str]) -> str:
    """Return what `xnmt list KIND [NAME or FOLDER]` says."""
    from xnmt_bench.choices import list_choices

    if len(arguments) > 2:
        _refuse("list: give a kind, and at most one name of that kind or folder of a store")
    kind, of = [*arguments, None, None][:2]
    return list_choices(kind, of, CONF)


def _results(arguments: Sequence[str]) -> str:
    """Return what `xnmt results [FOLDER]` says."""
    from xnmt_bench.report.stored import stored_tables

    if len(arguments) > 1:
        _refuse("results: give at most one folder (`results` by default), whose tables are printed")
    return stored_tables(Path(arguments[0] if arguments else "results"))


def _leaderboard(arguments: Sequence[str]) -> str:
    """Write the page of all bundles of a folder, and return what `xnmt leaderboard` says.

    Raises:
        XnmtError: bundles were left out; the page of the others is written.
    """
    from xnmt_bench.bundles.leaderboard import write_leaderboard

    if len(arguments) not in (1, 2):
        _refuse("leaderboard: give a folder of bundles, and optionally the file of the page")
    folder, page = [*map(Path, arguments), Path("leaderboard.html")][:2]
    if refused := write_leaderboard(folder, page):
        raise XnmtError("\nerror: ".join([*refused.values(), f"{page} is written without them"]))
    return f"written: {page}"


def _configured(command: str, arguments: list[str]) -> None:
    """Run a command on the configuration that its arguments change."""
    from xnmt_bench.commands import evaluate, train

    if command == "explain":
        arguments = sentence_first(arguments)
    sys.argv[1:] = arguments
    (train if command == "train" else evaluate)()


def sentence_first(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of `evaluate` for those of `explain`, whose first is the sentence."""
    example = 'such as xnmt explain "Der Hund schläft ."'
    # Of one word, since a sentence may hold `=` too.
    if not arguments or re.fullmatch(r"-\S*|[+~]{0,2}[\w.@/]+=\S*", arguments[0]):
        _refuse(f"explain: the sentence comes first, {example}")
    sentence, *options = arguments
    if not sentence.strip():
        _refuse(f"explain: the sentence is empty; give one, {example}")
    # An unquoted sentence is several arguments.
    for argument in options:
        if "=" not in argument and not argument.startswith(("-", "~")):
            _refuse(
                f"explain: {argument!r} is not an option; put the sentence in quotes, {example}"
            )
    # Bare, `null` would mean no sentence.
    return ["explain='null'" if sentence == "null" else f"explain={sentence}", *options]
