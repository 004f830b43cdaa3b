"""The configuration of a job as values: it is read here, once, and checked by `schema`.

Each class is a section of `conf/config.yaml`, and says its options, their types and bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import Field

from proxies.lessons import ProxyTrainingOptions
from xnmt_bench.corpora.passage import Context
from xnmt_bench.corpora.vocabulary.subwords import Kind, Normalization
from xnmt_bench.device import Device
from xnmt_bench.errors import ConfigError
from xnmt_bench.nmt.training_options import NMTTrainingOptions
from xnmt_bench.options import Count, Few, Positive, Rate, Seed, Size, Text, Texts, like
from xnmt_bench.registry import KINDS, LISTS, entries
from xnmt_bench.resolvers.options import CoreferenceOptions
from xnmt_bench.rules.extract import ExtractionOptions, Scenario
from xnmt_bench.rules.prefix import PrefixWords

Value = TypeVar("Value")
MISSING = "???"  # of an option without a default, until it is given
Node = dict[str, Any]  # plain values, such as a `_target_` and its options
Near = Annotated[int, Field(ge=0, le=3)]  # sentences


@dataclass(frozen=True)
class RulesSettings(ExtractionOptions):
    """Which decisions are explained, and how.

    Attributes:
        train_sentences: training sentences explained, drawn at random; None for all.
        seed: of that draw.
        test_sentences: test sentences explained, from the first; None for all.
    """

    train_sentences: Count | None = 8000
    seed: Seed = 0
    test_sentences: Count | None = None


@dataclass(frozen=True)
class BootstrapSettings:
    """How intervals are drawn."""

    samples: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    seed: Seed = 0


@dataclass(frozen=True)
class DoubtSettings:
    """Beyond which a note says that numbers mean little; None for never."""

    shared_pairs: Rate | None
    unknown: Rate | None
    avoidable: Rate | None
    swapped: Positive | None
    alike: Rate | None
    gain: Positive | None
    gold_shift: Rate | None
    determined: Rate | None


@dataclass(frozen=True)
class InputSettings:
    """A result made elsewhere."""

    path: Text | None
    format: Text
    name: Text | None


@dataclass(frozen=True)
class RelevanceSettings(InputSettings):
    """The same with the further files of another tool's dump."""

    source: Text | None
    target: Text | None
    reference: Text | None
    source_language: Text | None
    target_language: Text | None


@dataclass(frozen=True)
class ScoresSettings(InputSettings):
    """The same with the way that its numbers go."""

    higher_is_better: bool


@dataclass(frozen=True)
class FigureSettings:
    """How figures are drawn.

    Attributes:
        pdf: whether each is also a PDF, with its fonts embedded.
        width: of a figure, in inches; None for what it is drawn for.
        font: the family of its texts; None for matplotlib's own.
        size: of its texts, in points.
    """

    pdf: bool
    width: Annotated[float, Field(ge=1, le=20)] | None
    font: Text | None
    size: Annotated[float, Field(ge=4, le=30)]


@dataclass(frozen=True)
class SheetSettings:
    """Questions for people: what there is besides the options of a kind of sheet."""

    items: Count | None
    seed: Seed
    name: Annotated[str, like(r"[\w-]+", "letters, digits, _ and - only")] | None
    path: Texts | None
    key: Text | None
    format: Literal["sheet", "mt_gender"]
    node: Node = field(default_factory=dict)


@dataclass(frozen=True)
class ContextSettings:
    """Sentences around the current one that a system was trained with, and how many it reads."""

    sentences: Near = 0
    target: bool = True
    following: Near = 0
    read: Near | None = None

    @property
    def trained(self) -> Context:
        """What it was trained with."""
        return Context(self.sentences, self.target, self.following)


@dataclass(frozen=True)
class SubwordsSettings:
    """Vocabularies to train, or files of them."""

    type: Kind
    source_size: Size
    target_size: Size
    source_model: Text | None
    target_model: Text | None
    sentences: Count | None = None
    normalization: Normalization = "nmt_nfkc"


@dataclass(frozen=True)
class TrainerSettings:
    """How training runs."""

    precision: Literal["32-true", "32", "bf16-mixed", "16-mixed"]
    validate_every: Count | None
    devices: Few
    nodes: Few
    progress_bar: bool


@dataclass(frozen=True)
class CorpusSettings:
    """Sentence pairs: what there is besides a corpus's own options.

    Attributes:
        name: as in results and in names of files.
        reversed: whether they are translated the other way round.
        max_length: subwords a side; longer pairs are left out.
        subwords: the vocabularies.
        data: a folder that other options name.
        node: the class, and its own options.
    """

    name: Annotated[Text, like("[^/]+", "a name without /")]
    reversed: bool
    max_length: Count
    subwords: SubwordsSettings
    data: Text | None = None
    node: Node = field(default_factory=dict)


@dataclass(frozen=True)
class SystemSettings:
    """An NMT system.

    Attributes:
        name: as in results.
        path: of a trained one; None to train it.
        initial: of the trained one whose weights and vocabularies training starts from.
        context: sentences that stand around each sentence.
        beam: hypotheses kept when the test set is translated.
        divide_and_rule: how training sentences are split (Lupo et al. 2022).
        coreference: who is who in the source.
        architecture: of one that is trained here.
        corpus: options of the corpus that it learns from, where it is another one.
        seed: of its training.
        reader: the function that opens it, and its options.
        sizes: of the architecture.
        training: how it is trained.
    """

    name: Text
    path: Text | None
    initial: Text | None
    context: ContextSettings
    beam: Few
    divide_and_rule: Literal["middle", "multi", "aligned"] | None = None
    coreference: CoreferenceOptions | None = None
    architecture: Text | None = None
    corpus: Node | None = None
    seed: Seed = 0
    reader: Node = field(default_factory=dict)
    sizes: Node = field(default_factory=dict)
    training: NMTTrainingOptions | None = None

    @property
    def brings_vocabularies(self) -> bool:
        """Whether it has vocabularies that are not learnt from the corpus."""
        return bool(self.path or self.initial)

    @property
    def foreign(self) -> bool:
        """Whether it is trained further from a model of another toolkit."""
        return bool(self.initial) and not self.path and "family" in self.reader


@dataclass(frozen=True)
class ExplainerSettings:
    """An explainer; `phi` is its class, and its own options."""

    name: Text
    phi: Node


@dataclass(frozen=True)
class ProxySettings:
    """The model that a trained judge is."""

    name: Text
    sizes: Node
    training: ProxyTrainingOptions


@dataclass(frozen=True)
class JobSettings:
    """The options that belong to no group; `conf/config.yaml` says what each is."""

    scenario: Scenario
    learned_from: Scenario
    k: Few
    prefix: PrefixWords
    seed: Seed
    train_sentences: Count | None
    bootstrap: BootstrapSettings
    doubts: DoubtSettings
    outputs: InputSettings
    scores: ScoresSettings
    relevance: RelevanceSettings
    left_out: dict[Text, Any]
    explain: Text | None
    explain_target: Text | None
    explain_foil: Text | None
    rows: Text | None
    cite: bool
    figures: FigureSettings
    dry_run: bool
    repair: bool
    workers: Few
    until: Literal["system", "labels", "rules"] | None
    store: Text
    results: Text | Texts
    pooled: Text
    bundle: Annotated[str, like(r".*\.zip", "a file whose name ends in .zip")] | None
    bundle_author: Text | None
    device: Device
    threads: Few | None
    trainer: TrainerSettings


@dataclass(frozen=True)
class Settings(JobSettings):
    """All of them.

    Attributes:
        corpus, nmt, explainer, proxy, rules, sheet: a group or section each.
        metric, judge, analysis: the chosen ones by name, each its class and its options.
        logger: its class and its options.
        omissions: what a quick experiment leaves out, a line each, by the values in the end.
        missing: full names of the options without a value.
        values: the whole configuration as plain values, for those who record it.
    """

    corpus: CorpusSettings
    nmt: SystemSettings
    explainer: ExplainerSettings
    proxy: ProxySettings
    rules: RulesSettings
    sheet: SheetSettings
    metric: dict[str, Node]
    judge: dict[str, Node]
    analysis: dict[str, Node]
    logger: Node
    omissions: tuple[str, ...]
    missing: tuple[str, ...]
    values: Node

    def changed(self, changes: Mapping[str, Any]) -> Settings:
        """Return a copy with other values, each in the section that it belongs to."""
        return _changed(self, changes)

    def require(self, group: str) -> None:
        """Raise a ConfigError where an option of a group has no value."""
        missing = [name for name in self.missing if name.startswith(f"{group}.")]
        if missing:
            raise ConfigError([no_value(name) for name in missing])

    @property
    def results_folder(self) -> Path:
        """The folder of results; `results` may name bundles in its place."""
        return Path(str(self.results))

    @property
    def names_system(self) -> bool:
        """Whether a system is named, or can be trained from nothing."""
        return bool(self.nmt.architecture or self.nmt.path or self.nmt.initial)


def read_settings(config: DictConfig) -> Settings:
    """Read a composed configuration.

    Raises:
        ConfigError: an interpolation has no value.
    """
    plain_values = resolve(config)
    values = dict(plain_values)
    for group in LISTS:  # a group of nothing leaves no node
        values[group] = values.get(group) or {}
    # What a corpus and a kind of sheet are made of, without the options of every one.
    further = {
        "corpus": ("name", "reversed", "max_length", "subwords", "data"),
        "sheet": _names(SheetSettings),
    }
    for group, names in further.items():
        node = {key: value for key, value in values[group].items() if key not in names}
        values[group] = values[group] | {"node": node}
    of_all = {
        "omissions": tuple(_omissions(values)),
        "missing": tuple(name for name, value in leaves(plain_values) if value == MISSING),
        "values": plain_values,
    }
    return _build(Settings, values | of_all)


def resolve(config: DictConfig) -> dict[str, Any]:
    """Return a configuration as plain values, each interpolation as its value.

    An experiment also sets options of metrics and judges that a job need not have; these are
    dropped.

    Raises:
        ConfigError: one has no value.
    """
    try:
        values: Any = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError([str(error).splitlines()[0]]) from None
    for kind, declared in KINDS.items():
        nodes = values.get(declared.group)
        if declared.group in LISTS and isinstance(nodes, dict):
            # Without its class it was not chosen; a node of another name is a fault.
            values[declared.group] = {
                name: node
                for name, node in nodes.items()
                if not isinstance(node, dict) or "_target_" in node or name not in entries(kind)
            }
    return dict(values)


def leaves(node: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of nested mappings by its full name."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from leaves(value, f"{where}.{name}" if where else str(name))
    else:
        yield where, node


def no_value(name: str) -> str:
    """Return the message for an option that is yet to be given."""
    return f"{name}: has no value yet; give {name}=..."


def _build(kind: type[Value], values: Mapping[str, Any]) -> Value:
    """Return an object of a dataclass, the sections in it too."""
    hints = _hints(kind)  # type: ignore[arg-type]
    return kind(**{name: _read(hints[name], values[name]) for name in hints if name in values})


def _names(kind: type) -> list[str]:
    return [each.name for each in fields(kind)]  # type: ignore[arg-type]


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(hint: Any, value: Any) -> Any:
    for kind in (hint, *get_args(hint)):  # a section, or one of a union's branches
        if is_dataclass(kind) and isinstance(value, Mapping):
            return _build(kind, value)  # type: ignore[arg-type]
    return value


def _changed(section: Value, changes: Mapping[str, Any]) -> Value:
    values = {
        name: _changed(getattr(section, name), value)
        if is_dataclass(getattr(section, name))
        else value
        for name, value in changes.items()
    }
    return replace(section, **values)  # type: ignore[type-var]


def _omissions(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a quick experiment leaves out, by the values that are configured in the end."""
    for name, usual in values["left_out"].items():
        group, *inside = name.split(".")
        if group in LISTS and inside and inside[0] not in values[group]:
            continue
        value: Any = values
        for part in name.split("."):
            value = value[part]
        if isinstance(usual, list):
            if absent := [each for each in usual if each not in value]:
                yield f"{name} {', '.join(absent)} ({name}=[{','.join(usual)}])"
        elif usual is None and value is not None:
            yield f"all but the first {value} sentences ({name}={value}; null for all)"
        elif usual is not None and value is not None and value < usual:
            yield f"{name}={value} (usually {usual})"
