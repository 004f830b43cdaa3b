"""One registry for everything that a package can add: entry points, imported when asked for.

A package declares what it adds in the entry-point group `xnmt_bench.<kind>`, as this project does
for its own. The name then works in Python and on the command line, and nothing here has to change.
"""

from __future__ import annotations

import inspect
import logging
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from numbers import Integral, Real
from typing import Any

from xnmt_bench.errors import ConfigError, XnmtError
from xnmt_bench.options import faults, section

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kind:
    """Something that a package can add.

    Attributes:
        noun: what one of it is called in messages.
        group: the group of the configuration that chooses it, if there is one.
        hidden: arguments of its classes that the project gives; all others are options.
    """

    noun: str
    group: str | None = None
    hidden: tuple[str, ...] = ()


KINDS = {
    "explainers": Kind("explainer", "explainer"),
    "metrics": Kind("metric", "metric"),
    "judges": Kind("judge", "judge", ("rules",)),
    "analyses": Kind("analysis", "analysis"),
    "proxies": Kind("proxy", "proxy", ("vocabulary",)),
    "architectures": Kind("NMT architecture", "nmt", ("source_subwords", "target_subwords")),
    "morphologies": Kind("morphology"),
    "sheets": Kind("sheet", "sheet"),
    "dumps": Kind("relevance format"),
    "resolvers": Kind("resolver"),
}

LISTS = ("metric", "judge", "analysis")  # groups of which several are chosen
# By group, the arguments that the project gives: of its classes, and of what opens a system.
GIVEN = {kind.group: kind.hidden for kind in KINDS.values() if kind.group}
GIVEN |= {"nmt": ("path", "device", "clusters"), "corpus": (), "logger": ()}

# Names of other tools and of papers, and the explainer here that does the same up to a norm or a
# scale.
ALIASES = {
    "saliency": "gradient_norm",
    "gradient": "gradient_norm",
    "vanilla_gradient": "gradient_norm",
    "grad_norm": "gradient_norm",
    "input_x_gradient": "weighted_gradient",
    "gradient_x_input": "weighted_gradient",
    "input_times_gradient": "weighted_gradient",
    "occlusion": "prediction_difference",
    "feature_ablation": "prediction_difference",
    "leave_one_out": "prediction_difference",
    "layer_attention": "attention",
    "cross_attention": "attention",
    "attention_weights": "attention",
    "attention_rollout": "rollout",
    "layer_integrated_gradients": "integrated_gradients",
    "shap": "shapley",
    "shapley_value_sampling": "shapley",
    "shapley_values": "shapley",
    "alti_plus": "alti",
}
# Methods that are not here, and those that answer a like question.
SIMILAR = {
    "deep_lift": ("integrated_gradients", "weighted_gradient"),
    "deeplift": ("integrated_gradients", "weighted_gradient"),
    "layer_deep_lift": ("integrated_gradients", "weighted_gradient"),
    "gradient_shap": ("integrated_gradients", "shapley"),
    "layer_gradient_x_activation": ("weighted_gradient",),
    "discretized_integrated_gradients": ("integrated_gradients",),
    "sequential_integrated_gradients": ("integrated_gradients",),
    "smooth_grad": ("gradient_norm", "integrated_gradients"),
    "smoothgrad": ("gradient_norm", "integrated_gradients"),
    "guided_backprop": ("gradient_norm", "weighted_gradient"),
    "deconvolution": ("gradient_norm", "weighted_gradient"),
    "kernel_shap": ("shapley", "lime"),
    "reagent": ("prediction_difference",),
    "lrp": ("cp_lrp",),
    "attnlrp": ("cp_lrp",),
    "fast_align": ("lexicon", "gold_alignment"),
    "giza": ("lexicon", "gold_alignment"),
}

MARGIN = 0.15  # of likeness by letters: names that are less like than the most like one by so much
OURS = ("xnmt_bench.", "proxies.")  # where the values of this project's own entry points begin


@cache  # a command asks hundreds of times, and the answer is read from every installed package
def installed() -> dict[str, list[EntryPoint]]:
    """Return what all installed packages add to each kind, as they were at the first call."""
    declared = entry_points()
    # Sorted, so that messages and help do not depend on the order of installation.
    return {
        kind: sorted(declared.select(group=f"xnmt_bench.{kind}"), key=lambda p: p.name)
        for kind in KINDS
    }


def entries(kind: str) -> dict[str, EntryPoint]:
    """Return every declared thing of a kind by its name, in alphabetical order, not yet imported.

    Raises:
        XnmtError: two packages declare the same name.
    """
    by_name: dict[str, EntryPoint] = {}
    for point in installed()[kind]:
        first = by_name.setdefault(point.name, point)
        # The same package installed twice declares the same entry twice, which does not collide.
        if first.value != point.value:
            both = f"{first.value} and {point.value}"
            raise XnmtError(f"two things are called {KINDS[kind].noun} {point.name!r}: {both}")
    return by_name


@cache  # so that a name is explained once
def explainer_of(name: str) -> str:
    """Return the name here of an explainer that other tools call otherwise, and print both."""
    here = ALIASES.get(snake_case(name))
    if here is None or name in entries("explainers"):
        return name
    print(f"{name} is {here} here", file=sys.stderr)
    return here


def snake_case(name: str) -> str:
    """Return a class's name as the command line has names: `InputXGradient`, `input_x_gradient`."""
    words = name if name.isupper() else re.sub(r"(?<=[a-zA-Z])(?=[A-Z])", "_", name)
    return re.sub("[- ]", "_", words).lower()


def find(kind: str, name: str) -> Any:
    """Return the class behind a name, as `load` does; None of one that is not installed here."""
    return load(kind, name) if name in entries(kind) else None


def load(kind: str, name: str) -> Any:
    """Return the class behind a name.

    Raises:
        XnmtError: no such name (the nearest ones are named), its package cannot be imported, or
            what the package declares is not a class.
    """
    declared = entries(kind)
    if name not in declared:
        raise XnmtError(unknown(KINDS[kind].noun, name, declared))
    described = f"{KINDS[kind].noun} {name!r} ({declared[name].value})"
    try:
        loaded = declared[name].load()
    except (Exception, SystemExit) as error:  # a module can raise anything when it is imported
        raise XnmtError(f"{described}: {str(error) or type(error).__name__}") from error
    # An entry point without `:Class` loads the module.
    if not callable(loaded):
        raise XnmtError(f"{described}: is no class but {loaded!r}")
    return loaded


def load_all(kind: str) -> dict[str, Any]:
    """Load everything of a kind; a package that cannot be imported is left out with a warning."""
    loaded = {}
    for name in entries(kind):
        try:
            loaded[name] = load(kind, name)
        except XnmtError as error:
            log.warning("left out: %s", error)
    return loaded


def create(kind: str, name: str, *arguments: Any, **options: Any) -> Any:
    """Return an object of the class behind a name.

    Raises:
        XnmtError: as `load`; or the class refuses an option.
    """
    cls = load(kind, name)  # its own errors name the class
    try:
        # Apart from `load`: a TypeError of the import would be taken for one of the options.
        return cls(*arguments, **options)
    except (TypeError, ValueError, AssertionError) as error:
        raise XnmtError(f"{KINDS[kind].noun} {name!r}: {error}") from error


def instantiate(description: str, node: Any, *arguments: Any) -> Any:
    """Return an object from a configuration node with `_target_`.

    Args:
        description: it is, for a message, such as `explainer 'attention'`.
        node: the node.
        arguments: the target's first arguments, which the node does not hold.

    Raises:
        XnmtError: the target cannot be imported or refuses an option; caused by what it raised.
    """
    import hydra  # not at the top: who uses the library without a configuration does without
    from hydra.errors import InstantiationException

    try:
        return hydra.utils.instantiate(node, *arguments, _convert_="all")
    except InstantiationException as error:
        if isinstance(error.__cause__, XnmtError):
            raise error.__cause__ from None
        cause = error.__cause__ or error
        raise XnmtError(f"{description}: {cause}") from cause


def target_of(name: str) -> Any:
    """Return what a `_target_` names; its import can raise anything."""
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def unknown(noun: str, name: str, names_there: Iterable[str]) -> str:
    """Return the message for a name that is not there: what was meant, or all there are."""
    names = sorted(names_there)
    # By meaning first: letters take `deep_lift` for anything.
    if like := [other for other in SIMILAR.get(snake_case(name), ()) if other in names]:
        return f"no {noun} {name!r}; like it are {' and '.join(like)}"
    phrases = {alias: f"{alias} ({here} here)" for alias, here in ALIASES.items() if here in names}
    phrases |= {other: other for other in names}
    near = get_close_matches(name, phrases, n=3)
    if near:  # else all names are listed
        likeness = [SequenceMatcher(None, name, other).ratio() for other in near]
        meant = [
            phrases[n] for n, r in zip(near, likeness, strict=True) if r > likeness[0] - MARGIN
        ]
        return f"no {noun} {name!r}; did you mean {' or '.join(meant)}?"
    return f"no {noun} {name!r}; there are {', '.join(names)}"


def options(made_by: type, but: Iterable[str] = ()) -> dict[str, Any]:
    """Return a class's options by its signature, without `but`: their defaults, ??? for none."""
    return {
        name: "???" if p.default is p.empty else p.default
        for name, p in inspect.signature(made_by).parameters.items()
        if name not in set(but) and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }


def create_checked(kind: str, name: str, **options: Any) -> Any:
    """Return an object of the class behind a name, its options checked as on the command line.

    Raises:
        ConfigError: an option has a wrong value or no such name; each fault is a line.
        XnmtError: as `create`.
    """
    # An unknown `removal` would be one of the others in silence.
    plain_options = {option: plain(value) for option, value in options.items()}
    if problems := list(faults(section(load(kind, name)), plain_options)):
        raise ConfigError([f"{KINDS[kind].noun} {name!r}: {problem}" for problem in problems])
    return create(kind, name, **plain_options)


def load_explainer(name: str, **phi_options: Any) -> Any:
    """Return an explainer by its name on the command line, plug-ins included.

    Call it with a model and sentences: `explainer(model, ["a source", ("a source", "a target")])`.

    Args:
        name: such as `attention`, `gradient_norm` or `prediction_difference`.
        phi_options: the explainer's own.

    Raises:
        ConfigError, XnmtError: the explainer is unknown, or refuses an option.
    """
    if not isinstance(name, str):
        raise XnmtError(f"load_explainer: {name!r} is no name; give one, such as 'attention'")
    return create_checked("explainers", explainer_of(name), **phi_options)


def plain(value: Any) -> Any:
    """Return a number of numpy's as Python's; anything else unchanged."""
    if isinstance(value, Integral) and not isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, Real) and not isinstance(value, int) else value
