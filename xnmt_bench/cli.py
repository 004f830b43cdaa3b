"""What both commands share: plug-ins as choices, slips named, errors in one line."""

from __future__ import annotations

import errno
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from hydra.core.hydra_config import HydraConfig
from hydra.errors import (
    CompactHydraException,
    ConfigCompositionException,
    HydraException,
    OverrideParseException,
)
from hydra.types import RunMode
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, MissingMandatoryValue

from xnmt_bench.errors import ConfigError, XnmtError
from xnmt_bench.help import choices_of
from xnmt_bench.overrides import parse, texts
from xnmt_bench.registry import KINDS, LISTS, OURS, entries, explainer_of, load, options, unknown

CHOOSE_SYSTEM = {"nmt", "corpus", "experiment", "store"}  # with any of them the user has chosen
# How the program ends: the command line is invalid, or the work failed.
REFUSED, FAILED = 2, 1
OPTIONAL = ("experiment", "sheet")  # groups that may be null
# What a disk says: no space, read-only, not permitted, a quota. Of a path: nothing is there, a file
# for a folder or the reverse, a loop of links, a name that is too long.
DISK = (
    *(errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EPERM, errno.EDQUOT),
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG),
)


class Stopped(BaseException):
    """A signal that ends the program.

    Not a KeyboardInterrupt, which Lightning turns into an exit of its own.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def catch_signals() -> None:
    """Let SIGINT and SIGTERM end every stage in the same way; Lightning ends with status 0."""

    def stop(number: int, _: object) -> NoReturn:
        raise Stopped(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        # An exception unwinds the stack: locks are freed, and progress lines closed.
        signal.signal(number, stop)


def guarded(command: Callable[..., None], *arguments: Any) -> None:
    """Call a function; what the user can mend ends the program in one line for each fault.

    The status is 2 for an invalid configuration, 130 for Ctrl-C, 143 for SIGTERM, and 1
    for the rest.
    """
    try:
        command(*arguments)
    except ConfigError as error:
        _end(error.problems, REFUSED)
    except XnmtError as error:
        _end([str(error)], FAILED)
    except MissingMandatoryValue as error:
        _end([f"{error.full_key}: has no value yet; give {error.full_key}=..."], REFUSED)
    except Stopped as stopped:
        word = "interrupted" if stopped.number == signal.SIGINT else "terminated"
        print(f"{word}; the same command goes on where it stood", file=sys.stderr)
        # As a shell reports a signal's end.
        sys.exit(128 + stopped.number)
    except OSError as error:
        if error.errno not in DISK:
            raise
        where = f"{error.filename}: " if error.filename else ""
        _end([f"{where}{error.strerror}; what was finished is kept"], FAILED)


def _end(problems: Sequence[str], status: int) -> NoReturn:
    """End the program with a line for each problem; of a sweep, only the job."""
    if _sweeps():
        kind = ConfigCompositionException if status == REFUSED else CompactHydraException
        raise kind("\n".join(problems)) from None
    _exit(problems, status)


def _sweeps() -> bool:
    """Return whether an exit would end a whole sweep, where an exception ends only its job."""
    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN


def _exit(problems: Sequence[str], status: int) -> NoReturn:
    print(*(f"error: {problem}" for problem in problems), sep="\n", file=sys.stderr)
    sys.exit(status)


def refused(error: HydraException) -> NoReturn:
    """End the program for what Hydra would not compose, or for a sweep of which a job failed."""
    composing = isinstance(error, ConfigCompositionException | OverrideParseException)
    cause = error.__cause__
    if isinstance(cause, ConfigKeyError | ConfigAttributeError) and cause.parent_node is not None:
        section = str(cause.full_key).rpartition(".")[0] or "the configuration"
        options_there = [key for key in map(str, cause.parent_node) if not key.startswith("_")]
        problem = unknown(f"option in {section}", str(cause.key), options_there)
    else:
        problem = str(error)
    if isinstance(error, OverrideParseException):
        problem = (
            f"{error.override}: an option is NAME=VALUE; its name has letters, digits, _ and ."
        )
    elif sweep := re.match(r"(?:Ambiguous value.*?|Sweep parameters) '((.*?)=.*)'", problem):
        problem = _several_values(sweep[1], sweep[2])
    # Of a composition there may be several faults, a line each.
    lines = problem.splitlines() if isinstance(error, ConfigCompositionException) else [problem]
    _exit(lines, REFUSED if composing else FAILED)


def _several_values(argument: str, name: str) -> str:
    """Return the advice for `name=a,b` without `-m`."""
    advice = [f"-m {argument} runs a job for each"]
    values = argument.removeprefix(f"{name}=")
    if name in LISTS:
        advice.append(f"{name}=[{values}] takes all of them")
    else:
        advice.append(f"one text with commas is in quotes, '{name}=\"{values}\"'")
    return f"{argument}: several values; {'; '.join(advice)}"


def submitted_failure(error: Exception) -> str | None:
    """Return what went wrong in a job that submitit ran, in a line; None for other errors."""
    if not type(error).__module__.startswith("submitit"):
        return None
    # Its message holds the job's whole log; the last line names the error that ended it.
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" -")]
    last = next((line for line in reversed(lines) if ": " in line), str(error))
    return re.sub(r"^[\w.]+(Exception|Error): ", "", last)


def prepare(arguments: Sequence[str], conf: Path) -> None:
    """Make plug-ins known to Hydra, and ends with status 2 where a choice does not exist.

    Args:
        arguments: of the command line.
        conf: the folder of the configuration.
    """
    try:
        _register_plugins(arguments)
        problems = [*unknown_choices(arguments, conf), *_missing_launcher(arguments)]
    except XnmtError as error:
        problems = [str(error)]
    if problems:
        _exit(problems, REFUSED)


def _missing_launcher(arguments: Sequence[str]) -> Iterator[str]:
    """Yield a message where a launcher of submitit is chosen that is not installed."""
    for argument in arguments:
        chosen = argument in ("launcher=slurm", "launcher=submitit_local")
        # Hydra's plug-ins share a package, which comes with the launcher of joblib.
        if chosen and find_spec("hydra_plugins.hydra_submitit_launcher") is None:
            yield f"{argument}: submitit is not installed; pip install 'xnmt_bench[slurm]'"


def _register_plugins(arguments: Sequence[str]) -> None:
    """Make every plug-in a choice of its group.

    One that is named on the command line is imported, so that its signature is its configuration;
    the others are not, and can still be chosen by a configuration file.
    """
    from hydra.core.config_store import ConfigStore

    groups = {kind: described.group for kind, described in KINDS.items() if described.group}
    declared = ((kind, *item) for kind in groups for item in entries(kind).items())
    for kind, name, point in declared:
        if point.value.startswith(OURS):
            continue
        # Only then: an import may be slow, or fail.
        named = any(re.search(rf"\b{re.escape(name)}\b", argument) for argument in arguments)
        plugin_options = options(load(kind, name), KINDS[kind].hidden) if named else {}
        # Entry points separate module and class by a colon, Hydra by a dot.
        node: dict[str, Any] = {"_target_": point.value.replace(":", ".")} | plugin_options
        if kind == "explainers":
            node = {"name": name, "phi": node}
        elif kind == "proxies":
            node = {"defaults": ["_training", "_self_"], "name": name, "sizes": plugin_options}
        elif kind == "architectures":
            bases = ["_native", "_self_"]
            node = {"defaults": bases, "name": name, "architecture": name, "sizes": plugin_options}
        group = groups[kind]
        package = f"{group}.{name}" if group in LISTS else None
        ConfigStore.instance().store(group=group, name=name, node=node, package=package)


def resolve_explainers(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the names here of explainers that other tools call otherwise."""
    resolved = []
    for argument in arguments:
        override = parse(argument)
        if override is not None and override.key_or_group == "explainer":
            for name in texts(override):
                here = explainer_of(name)
                argument = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", here, argument)
        resolved.append(argument)
    return resolved


def unknown_choices(arguments: Sequence[str], conf: Path) -> list[str]:
    """Return a message for each choice that its group lacks, with the nearest names."""
    problems = []
    for argument in arguments:
        override = parse(argument)
        if override is None or override.is_delete() or not (conf / override.key_or_group).is_dir():
            continue
        group = override.key_or_group
        choices = choices_of(group, [conf, *_config_dirs(arguments)])
        if override.value() == "":
            problems.append(f"{argument}: should be a choice of {group}")
            continue
        null = override.value() is None and group not in OPTIONAL
        names = {"null"} if null else {*texts(override)}
        problems += [unknown(group, name, choices) for name in sorted(names - choices)]
    return problems


def _config_dirs(arguments: Sequence[str]) -> Iterator[Path]:
    """Yield the folders of a user's own configuration files, which Hydra looks through too."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        flag, equals, value = argument.partition("=")
        if flag in ("--config-dir", "-cd"):
            yield Path(value if equals else following)
        # Hydra knows other places than folders of the disk, such as pkg://
        elif flag == "hydra.searchpath":
            yield from map(Path, re.findall(r"file://([^\],'\"]+)", value))


def default_system(arguments: Sequence[str]) -> list[str]:
    """Return the choice of the shipped system where a sentence is to be explained by no other.

    A store may hold systems of other languages, so the sentence is not enough to choose one.

    Args:
        arguments: of the command line.
    """
    options = {argument.lstrip("+~").partition("=")[0] for argument in arguments}
    # How many hypotheses are kept chooses no system.
    groups = {re.split(r"[.@]", option)[0] for option in options - {"nmt.beam"}}
    explains = any(a.startswith("explain=") and a != "explain=null" for a in arguments)
    return ["nmt=tatoeba_de_en"] if explains and not groups & CHOOSE_SYSTEM else []


def flags_first(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with all overrides last.

    Hydra's parser takes overrides in one place, so that `metric=[aer] --cfg job seed=1` would be an
    error. A word without `=`, such as `job`, stays behind its flag.
    """
    return sorted(arguments, key=lambda a: a[:1] == "~" or ("=" in a and a[:1] != "-"))


def defer_to_jobs(arguments: Sequence[str]) -> list[str]:
    """Make options of a swept group sweeps of one value, which Hydra gives only to the jobs.

    Before the jobs Hydra composes a configuration with the default choice of a swept group. That
    choice may lack an option that all swept ones have, and the sweep is then refused, as with `-m
    explainer=attention,alti explainer.phi.layer=0`.

    Args:
        arguments: of the command line, quoted.
    """
    options = [a for a in arguments if re.match(r"[^-][^=]*=", a)]
    override_of = {a: override for a in options if (override := parse(a))}
    if len(override_of) < len(options):
        return [*arguments]  # Hydra says what is wrong
    swept_groups = {o.key_or_group for o in override_of.values() if o.is_sweep_override()}

    def is_deferred(argument: str) -> bool:
        override = override_of.get(argument)
        if override is None or override.is_sweep_override():
            return False
        # Hydra's `choice` cannot hold null, and drops the quotes of a text.
        value = argument.partition("=")[2]
        if override.value() is None or not value or re.search("['\"]", value):
            return False
        return override.key_or_group.partition(".")[0] in swept_groups

    return [
        f"{a.partition('=')[0]}=choice({a.partition('=')[2]})" if is_deferred(a) else a
        for a in arguments
    ]
