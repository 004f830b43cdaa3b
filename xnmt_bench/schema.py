"""The configuration as a whole, checked before anything runs: all faults of a command at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf

from xnmt_bench.errors import ConfigError, XnmtError
from xnmt_bench.nmt.loading import shipped
from xnmt_bench.nmt.training_options import NMTTrainingOptions
from xnmt_bench.options import faults, section
from xnmt_bench.overrides import split
from xnmt_bench.pipeline.settings import (
    MISSING,
    CorpusSettings,
    ExplainerSettings,
    JobSettings,
    ProxySettings,
    RulesSettings,
    SheetSettings,
    SystemSettings,
    leaves,
    no_value,
    resolve,
)
from xnmt_bench.registry import GIVEN, KINDS, LISTS, load, target_of
from xnmt_bench.rules.prefix import NONE, PREVIOUS
from xnmt_bench.sweep import as_typed

NO_TEXT = ": should be a valid string"
NO_SYSTEM = "nmt.path: has no value yet; give nmt.path=..., or nmt.initial=... to train it further"
# Of a section, what another signature checks.
ELSEWHERE: dict[type, tuple[str, ...]] = {
    CorpusSettings: ("node",),
    ExplainerSettings: ("phi",),
    ProxySettings: ("sizes",),
    RulesSettings: (),
    SheetSettings: ("node",),
    SystemSettings: ("reader", "sizes", "training"),
}


def check(config: DictConfig, complete: bool = True) -> None:
    """Check a whole configuration, and set texts that Hydra read as numbers as they were typed.

    Args:
        config: the configuration.
        complete: values that are yet to be given are faults too.

    Raises:
        ConfigError: something is wrong with it; every fault is in the message, one line each.
    """
    values = resolve(config)
    problems = list(_problems(values))
    if _restore_texts(config, problems):
        values = resolve(config)
        problems = list(_problems(values))
    missing = [path for path, value in leaves(values) if value == MISSING]
    # A value that is yet to be given is of no type, and only what runs needs it.
    problems = [p for p in problems if p.partition("=")[0] not in missing]
    # `evaluate.py` reads results without a system, so it does not need every value.
    problems += [no_value(path) for path in missing if complete]
    problems += _of_unchosen(values)
    nmt = values.get("nmt")
    # A system is named, or can be trained from nothing.
    sources = ("architecture", "path", "initial")
    if complete and isinstance(nmt, Mapping) and not any(map(nmt.get, sources)):
        problems.append(NO_SYSTEM)
    if problems:
        raise ConfigError(problems)


def _restore_texts(config: DictConfig, problems: Sequence[str]) -> bool:
    """Set each option that should be a text, and is a number or a truth value, as it was typed.

    To Hydra `scores.name=nan` is a number, and so is `1e3`.

    Returns:
        Whether any was set.
    """
    typed, restored = _typed_options(), False
    for problem in problems:
        name = problem.partition("=")[0]
        if name not in typed:
            name = name.rpartition(".")[0]  # it may be a place in a list
        if not problem.endswith(NO_TEXT) or name not in typed:
            continue
        value, text = OmegaConf.select(config, name), typed[name]
        if isinstance(value, ListConfig) and value and text.startswith("["):
            pairs = zip(value, split(text[1:-1]), strict=True)
            OmegaConf.update(config, name, [v if isinstance(v, str) else t for v, t in pairs])
            restored = True
        elif not isinstance(value, ListConfig | DictConfig):
            OmegaConf.update(config, name, text)
            restored = True
    return restored


def _typed_options() -> dict[str, str]:
    """Return the options of the command line as they were typed."""
    overrides = HydraConfig.get().overrides.task if HydraConfig.initialized() else []
    return dict(map(as_typed, overrides))


def _of_unchosen(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield faults of typed options of metrics, judges and analyses that are not chosen."""
    for option, value in _typed_options().items():
        group, *names = option.split(".")
        if group in LISTS and names and names[0] not in (values.get(group) or {}):
            yield f"{option}={value}: {names[0]} is not chosen; add it to {group}=[...]"


def _problems(values: dict[str, Any]) -> Iterator[str]:
    main = section(JobSettings)
    yield from faults(main, {key: values[key] for key in main.model_fields if key in values})
    yield from _of_section(RulesSettings, values.get("rules"), "rules")
    yield from _with_target(values.get("corpus"), "corpus", CorpusSettings)
    yield from _system(values.get("nmt"))
    explainer = values.get("explainer")
    if isinstance(explainer, Mapping):
        yield from _of_section(ExplainerSettings, explainer, "explainer")
        yield from _with_target(explainer.get("phi"), "explainer.phi")
    else:
        # `explainer=null` is valid to Hydra, and leaves no section to check.
        yield f"explainer={_null(explainer)}: should be a choice of explainer"
    yield from _proxy(values.get("proxy"))
    for group in LISTS:
        nodes = values.get(group, {})
        if not isinstance(nodes, Mapping):
            yield f"{group}={_null(nodes)}: should be a list, such as {group}=[]"
            continue
        for name, node in nodes.items():
            # Arguments that the project gives are not options, and are refused.
            yield from _with_target(node, f"{group}.{name}", hidden=GIVEN[group])
    yield from _with_target(values.get("logger"), "logger")
    sheet = values.get("sheet")
    # Without a kind of sheet, the section still names the filled files that are read.
    if isinstance(sheet, Mapping) and "_target_" not in sheet:
        yield from _of_section(SheetSettings, sheet, "sheet")
    else:
        yield from _with_target(sheet, "sheet", SheetSettings)
    yield from _between_leaves(values)


def _of_section(made_by: type, node: Any, where: str) -> Iterator[str]:
    """Yield faults of a section by its dataclass, without what another signature checks."""
    elsewhere = ELSEWHERE[made_by]
    if isinstance(node, Mapping):
        node = {name: value for name, value in node.items() if name not in elsewhere}
    yield from faults(section(made_by, elsewhere), node, where)


def _null(value: Any) -> str:
    return "null" if value is None else repr(value)


def _with_target(
    node: Any, where: str, beside: type | None = None, hidden: Sequence[str] = ()
) -> Iterator[str]:
    """Yield faults of a node that is made into an object by its `_target_`.

    Args:
        node: the node.
        where: its name.
        beside: the section's other options, which are not arguments of the object.
        hidden: arguments that are not options.
    """
    if not isinstance(node, Mapping):
        yield f"{where}={_null(node)}: should be a group of options"
        return
    target = node.get("_target_")
    try:
        made_by = target_of(str(target))
    except Exception as error:  # an import can raise anything
        yield f"{where}._target_={_null(target)}: cannot be imported: {error}"
        return
    extras = section(beside, ELSEWHERE[beside]).model_fields if beside else {}
    # An object among the options is checked by its own arguments, and not as a value.
    inner = {
        name for name, value in node.items() if isinstance(value, Mapping) and "_target_" in value
    }
    schema = section(made_by, but=[*hidden, *inner])
    # An option of the object wins over another of the section with the same name.
    accepted = set(schema.model_fields)
    options_given = {
        n: v for n, v in node.items() if n not in inner and (n in accepted or n not in extras)
    }
    yield from faults(schema, options_given, where)
    if beside:
        yield from _of_section(beside, {n: v for n, v in node.items() if n in extras}, where)
    for part in sorted(inner):
        yield from _with_target(node[part], f"{where}.{part}")


def _system(node: Any) -> Iterator[str]:
    if not isinstance(node, Mapping):
        yield f"nmt={_null(node)}: should be a choice of nmt"
        return
    yield from _of_section(SystemSettings, node, "nmt")
    yield from _with_target(node.get("reader"), "nmt.reader", hidden=GIVEN["nmt"])
    if "training" in node:
        yield from faults(section(NMTTrainingOptions), node["training"], "nmt.training")
    if "sizes" in node:
        yield from _sizes("architectures", node.get("architecture"), node["sizes"], "nmt")


def _proxy(node: Any) -> Iterator[str]:
    if not isinstance(node, Mapping):
        yield f"proxy={_null(node)}: should be a choice of proxy"
        return
    yield from _of_section(ProxySettings, node, "proxy")
    yield from _sizes("proxies", node.get("name"), node.get("sizes"), "proxy")


def _sizes(kind: str, name: Any, sizes: Any, where: str) -> Iterator[str]:
    if not isinstance(name, str):
        return  # said already
    try:
        made_by = load(kind, name)
    except XnmtError as error:
        yield f"{where}: {error}"
        return
    problems = list(faults(section(made_by, KINDS[kind].hidden), sizes, f"{where}.sizes"))
    yield from problems
    # Found here, and not where the system is built: behind its vocabulary and encoded corpus.
    heads, dimension = map(sizes.get, ("heads", "dimension")) if not problems else (None, None)
    if heads and dimension and dimension % heads:
        yield f"{where}.sizes.heads={heads}: should divide the dimension, {dimension}"


def _outside_the_model(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield layers, heads and foils of an explainer that the configured system lacks.

    Where sizes are known only of the open model, the explainer checks them.
    """
    explainer, nmt, corpus = (values.get(name) for name in ("explainer", "nmt", "corpus"))
    phi = explainer.get("phi") if isinstance(explainer, Mapping) else None
    if not (isinstance(phi, Mapping) and isinstance(nmt, Mapping)):
        return
    sizes = _sizes_of(nmt)
    layer, head, foil = (phi.get(name) for name in ("layer", "heads", "foil"))
    # The attention of CADec is that of its second pass.
    layers, heads = sizes.get("second_layers", sizes.get("layers")), sizes.get("heads")
    if isinstance(layer, int) and isinstance(layers, int) and not -layers <= layer < layers:
        yield f"explainer.phi.layer={layer}: there are {layers} layers, counted from 0"
    if isinstance(head, int) and isinstance(heads, int) and not 0 <= head < heads:
        yield f"explainer.phi.heads={head}: there are {heads} heads, counted from 0"
    subwords = corpus.get("subwords") if isinstance(corpus, Mapping) else None
    if not (isinstance(foil, int) and isinstance(subwords, Mapping)):
        return
    size = subwords.get("target_size")
    # A vocabulary that is given, or that training starts from, has a size of its own.
    other_vocabulary = nmt.get("path") or nmt.get("initial") or subwords.get("target_model")
    if isinstance(size, int) and not other_vocabulary and foil >= size:
        yield f"explainer.phi.foil={foil}: the target vocabulary has at most {size} ids, from 0"


def _sizes_of(nmt: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the sizes of a system: as configured, or as its folder has them; empty if unknown."""
    if not nmt.get("path"):
        configured = nmt.get("sizes")
        return configured if isinstance(configured, Mapping) else {}
    try:
        described = json.loads((shipped(nmt["path"]) / "model.json").read_text(encoding="utf-8"))
        sizes = described["sizes"]
    except (OSError, ValueError, LookupError, TypeError):  # opening it says what is wrong
        return {}
    return sizes if isinstance(sizes, Mapping) else {}


def _between_leaves(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield faults that only several leaves together show."""
    k, rules = values.get("k"), values.get("rules")
    largest = rules.get("largest_k") if isinstance(rules, Mapping) else None
    # Other types are faults of their own, which another check names.
    if isinstance(k, int) and isinstance(largest, int) and 1 <= largest < k:
        yield f"k={k}: should be at most rules.largest_k, {largest}"
    prefix = values.get("prefix")
    if prefix in (NONE, PREVIOUS) and "causes" in (values.get("metric") or ()):
        # Its rows have no such column, and would be of the same words under each value.
        yield f"prefix={prefix}: metric=[causes] is of the explainer's own words; leave it out"
    yield from _outside_the_model(values)
    # It would be ignored, and a user would take the system's own translation for it.
    for name in ("explain_target", "explain_foil"):
        if values.get(name) and not values.get("explain"):
            yield f"{name}: needs explain=..."
    yield from _processes(values)


def _processes(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield faults of how many processes there are, and where."""
    workers, device, trainer = (values.get(name) for name in ("workers", "device", "trainer"))
    training = (values.get("nmt") or {}).get("training")
    devices, nodes = ((trainer or {}).get(name) for name in ("devices", "nodes"))
    if not (isinstance(workers, int) and isinstance(devices, int) and isinstance(nodes, int)):
        return  # said already
    ranks = devices * nodes
    for name, count in (("workers", workers), ("trainer.devices", ranks)):
        if count > 1 and ":" in str(device):
            yield f"{name}={count}: with device={device} there is one GPU; use device=cuda"
    batches = training.get("batches") if isinstance(training, Mapping) else None
    if ranks > 1 and isinstance(batches, int) and batches % ranks:
        yield (
            f"trainer.devices={devices}: trainer.devices times trainer.nodes is {ranks}, which "
            f"should divide nmt.training.batches, {batches}"
        )
