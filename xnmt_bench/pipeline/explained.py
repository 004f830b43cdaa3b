"""The stage from a system and its contexts to the relevance and the rules of one explainer."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.corpora.sentence import Split
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.explainers.base import Explainer
from xnmt_bench.pipeline.outputs import Translations
from xnmt_bench.pipeline.settings import plain
from xnmt_bench.progress import track
from xnmt_bench.registry import instantiate, options, unknown
from xnmt_bench.rules.extract import (
    LABELLING,
    REAL,
    ExtractionOptions,
    Scenario,
    extract,
    top_words,
)
from xnmt_bench.rules.table import SentenceRelevance, relevance
from xnmt_bench.store import Artefact, Store

EVALUATED: Split = "test"
# Rooms whose code is part of an explainer: what several share counts for each of them.
SHARED = ("xnmt_bench.explainers", "xnmt_bench.nmt.switched")


def code_hash(cls: type) -> str:
    """A hash of the code behind a class, blind to comments, layout and docstrings.

    It covers the class's module and whatever that imports of its own package, so that an edited
    explainer, or an edited piece that it shares with others, is never answered from old rules.
    """
    own = cls.__module__.partition(".")[0]
    rooms = SHARED if own == "xnmt_bench" else (*SHARED, own)
    trees: dict[str, str] = {}
    waiting = [cls.__module__]
    while waiting:
        name = waiting.pop()
        ours = name == cls.__module__ or any(f"{name}.".startswith(f"{room}.") for room in rooms)
        spec = find_spec(name) if ours and name not in trees else None
        if spec is None or spec.origin is None:  # somebody else's, done, or no module but a name
            continue
        tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            match node:
                case ast.Module() | ast.ClassDef() | ast.FunctionDef():
                    if ast.get_docstring(node, clean=False) is not None:
                        del node.body[0]
                case ast.ImportFrom(module=module, level=level, names=names):
                    base = resolve_name("." * level + (module or ""), spec.parent)
                    # What is imported from a package, which has a path, may be a module of it.
                    package = hasattr(sys.modules.get(base), "__path__")
                    waiting += [base, *(f"{base}.{alias.name}" for alias in names if package)]
                case ast.Import(names=names):
                    waiting += [alias.name for alias in names]
        trees[name] = ast.dump(tree)
    return hashlib.sha256("".join(trees[n] for n in sorted(trees)).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Relevances:
    """Relevance of a test set, sentence by sentence and by whomever; `fingerprint` is of it."""

    fingerprint: str
    read: Callable[[], Iterable[SentenceRelevance]]

    def __iter__(self) -> Iterator[SentenceRelevance]:
        return iter(self.read())


class Explained:
    """A system's decisions on texts, explained by the configured explainer.

    Args:
        config: the job's whole configuration; `explainer` and `rules` are read.
        store: where rules go.
        translations: the texts, whose decisions, and what it makes of them in real decoding.
        progress: show a bar.
    """

    def __init__(
        self, config: DictConfig, store: Store, translations: Translations, progress: bool
    ) -> None:
        self._config, self._store, self._progress = config, store, progress
        self._translations = translations
        self.system, self.texts = translations.system, translations.texts

    @cached_property
    def explainer(self) -> Explainer:
        """The configured one; an XnmtError where it is none, or has no such option."""
        name = self._config.explainer.name
        phi = instantiate(f"explainer {name!r}", self._config.explainer.phi)
        if not isinstance(phi, Explainer):
            raise XnmtError(f"explainer {name!r}: {type(phi)} is no Explainer")
        return phi

    @property
    def name(self) -> str:
        """The explainer's name in results, with the options that are not its defaults."""
        defaults = options(type(self.explainer), but=["seed"])
        phi = plain(self._config.explainer.phi)
        changed = [f"{o}={v}" for o, v in phi.items() if o in defaults and v != defaults[o]]
        return self._config.explainer.name + (f"[{', '.join(changed)}]" if changed else "")

    @property
    def seeded(self) -> bool:
        """Whether the explainer draws anything."""
        return "seed" in self._config.explainer.phi

    def count(self, name: Split) -> int:
        """How many sentences of a split are explained."""
        wanted, whole = self._config.rules[f"{name}_sentences"], len(self.texts.split(name))
        return whole if wanted is None else min(wanted, whole)

    def contexts(self, name: Split, scenario: Scenario) -> EncodedSplit:
        """A split with the targets whose prefixes are the contexts of a scenario."""
        if scenario == REAL:
            return self._translations.split(name, self.count(name))
        return self.texts.split(name)

    def decided(self, name: Split, scenario: Scenario) -> dict[str, Any]:
        """What decides contexts and labels, whatever explains them: a part of recipes.

        Raises:
            XnmtError: there is no such scenario.
        """
        if scenario not in LABELLING:
            raise XnmtError(unknown("scenario", scenario, LABELLING))
        recipe: dict[str, Any] = {
            "model": self.system,
            "encoded": self.texts.encoded,
            "scenario": scenario,
            f"{name}_sentences": self.count(name),
        }
        if scenario == REAL:
            recipe[f"{name}_translation"] = self._translations.made(name, self.count(name))
        return recipe

    def top_words(self, scenario: Scenario, words: int) -> dict[str, np.ndarray]:
        """The model's most probable words at each decision of the test set; see `rules.extract`."""
        split = self.contexts(EVALUATED, scenario)
        return top_words(self.system.model, split, self.count(EVALUATED), words)  # type: ignore[return-value]

    def rules(
        self, scenario: Scenario, splits: Sequence[Split], source_alone: bool = False
    ) -> Artefact:
        """Relevance and rules of some splits.

        Args:
            scenario: where contexts and labels come from.
            splits: which.
            source_alone: an explainer that says nothing of prefix words will do.

        Raises:
            NotApplicable: the explainer does not cover this model or this corpus.
            XnmtError: there is no such scenario.
        """
        explainer = self.explainer  # asked first: a wrong name shows before anything is made
        if scenario == REAL and explainer.needs_gold:
            raise NotApplicable("the annotation is of the reference, not of the translation")
        extraction = ExtractionOptions(
            **{key: self._config.rules[key] for key in ExtractionOptions.__dataclass_fields__}
        )

        def work(folder: Path) -> dict[str, Any]:
            for name in splits:
                self._extract(name, extraction, folder, scenario, source_alone)
            return {"sentences": {name: self.count(name) for name in splits}}

        decided = dict(part for name in splits for part in self.decided(name, scenario).items())
        return self._store.make(
            "rules", work, version=2, **decided, explainer=plain(self._config.explainer.phi),
            code=code_hash(type(explainer)),
            extraction=vars(extraction),  # also decides who shares a batch, and so the last digit
            source_alone=source_alone,
        )  # fmt: skip

    def _extract(
        self, name: Split, extraction: ExtractionOptions, folder: Path, scenario: Scenario,
        source_alone: bool,
    ) -> None:  # fmt: skip
        gold = self.texts.gold(name) if self.explainer.needs_gold else None
        if gold is not None and not any(g.possible for g in gold.values()):
            raise NotApplicable(f"the {name} sentences have no gold alignment")
        count = self.count(name)
        shards = extract(
            self.system.model, self.contexts(name, scenario), count, self.explainer, extraction,
            folder, name, keep_relevance=name == EVALUATED, scenario=scenario, gold=gold,
            source_alone=source_alone,
        )  # fmt: skip
        label = f"{self._config.explainer.name}, {name}"
        total = -(-count // extraction.shard_sentences)
        for _ in track(shards, label, total, "shards", self._progress):
            pass  # each is on disk already

    def relevance(self, scenario: Scenario, source_alone: bool = False) -> Relevances:
        """The whole relevance of the test set, sentence by sentence, and what it was made from."""
        made = self.rules(scenario, (EVALUATED,), source_alone)
        return Relevances(made.fingerprint, lambda: relevance(made.path, EVALUATED))
