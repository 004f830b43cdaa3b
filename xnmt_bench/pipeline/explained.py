"""The stage from a system and its contexts to the relevance and the rules of one explainer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.code_hash import code_hash
from xnmt_bench.corpora.sentence import Split
from xnmt_bench.engine import make_shards
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.explainers.base import Explainer
from xnmt_bench.lazy import Lazy
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.pipeline.decisions import Decisions
from xnmt_bench.pipeline.settings import Settings
from xnmt_bench.pipeline.system import System
from xnmt_bench.registry import instantiate, options
from xnmt_bench.rules.extract import REAL, TEACHER_FORCING, Scenario, extract, labels_itself
from xnmt_bench.rules.table import (
    SentenceRelevance,
    differs_from_gold,
    is_finished,
    relevance,
    shard_paths,
    shards,
)
from xnmt_bench.store import Stage, Store, Work

EVALUATED: Split = "test"
LEARNT = "learnt.npz"


@dataclass(frozen=True)
class Relevances:
    """Relevance of a split.

    Attributes:
        fingerprint: of it.
        read: a fresh pass over its sentences.
        source: the stage that makes it; None where it is from a file.
    """

    fingerprint: str
    read: Callable[[], Iterable[SentenceRelevance]]
    source: Stage | None = None

    def __iter__(self) -> Iterator[SentenceRelevance]:
        return iter(self.read())


@dataclass(frozen=True)
class ChangedSystem(Lazy):
    """A system whose model is changed; `change` returns another one and leaves its own alone."""

    system: System
    change: Callable[[NMTModel], NMTModel]

    @cached_property
    def model(self) -> NMTModel:
        """The changed model."""
        model = self.change(self.system.model)
        # A system that reads a first translation goes on reading the one of its own weights.
        model.draft = self.system.model.draft  # type: ignore[method-assign]
        return model


class Explained(Lazy):
    """A system's decisions, explained by the configured explainer.

    Args:
        settings: the job's; `explainer` and `seed` are read.
        store: where rules go.
        decisions: what is explained.
    """

    def __init__(self, settings: Settings, store: Store, decisions: Decisions) -> None:
        self._settings, self._configured = settings, settings.explainer
        self._store, self.decisions = store, decisions
        self.system, self.texts = decisions.system, decisions.texts

    @cached_property
    def explainer(self) -> Explainer:
        """The configured one; an XnmtError where it is none, or has no such option."""
        name = self._configured.name
        phi = instantiate(f"explainer {name!r}", self._configured.phi)
        if not isinstance(phi, Explainer):
            raise XnmtError(f"explainer {name!r}: {type(phi)} is not a subclass of Explainer")
        return phi

    @property
    def bare_name(self) -> str:
        """Only the explainer's name, for lines of progress."""
        return self._configured.name

    @cached_property
    def name(self) -> str:
        """The explainer's name in results, with the options that are not its defaults."""
        return self._name_with(self._configured.name, self._changed_options())

    @property
    def alteration(self) -> tuple[str, str, str]:
        """The name of the explainer that the configured one alters, its own, and its options."""
        changed = self._changed_options(but=["of"])
        names = self._name_with(self.explainer.alters, []), self._configured.name
        return (*names, ", ".join(changed))

    def _changed_options(self, but: Sequence[str] = ()) -> list[str]:
        """Return the options that are not their defaults."""
        # Sizes and seeds are left out: they change no meaning, or have a column.
        unnamed = ["seed", *self.explainer.sizes, *self.explainer.unnamed, *but]
        defaults = options(type(self.explainer), but=unnamed)
        phi = self._configured.phi
        changed = [f"{o}={v}" for o, v in phi.items() if o in defaults and v != defaults[o]]
        # The column holds the job's seed, which it is unless another one is given.
        if self.seeded and phi["seed"] != self._settings.seed:
            changed.append(f"seed={phi['seed']}")
        return changed

    def _name_with(self, name: str, changed: Sequence[str]) -> str:
        """Return a name with changed options, the precision of all relevance among them."""
        if (precision := self.decisions.extraction.precision) != 32:
            changed = [*changed, f"precision={precision}"]
        return name + (f"[{', '.join(changed)}]" if changed else "")

    @property
    def seeded(self) -> bool:
        """Whether the explainer draws anything."""
        return "seed" in self._configured.phi

    @cached_property
    def teachable(self) -> bool:
        """Whether a proxy can learn: the explainer gives relevance for training sentences."""
        return not self.explainer.needs_gold or bool(self.texts.gold("train"))

    @cached_property
    def prepared(self) -> Stage | None:
        """What the explainer has learnt from the measured corpus's training split, if it learns."""
        explainer = self.explainer
        # Most learn nothing, and need no artefact.
        if not explainer.learns:
            return None

        def work(folder: Path) -> None:
            learnt = explainer.prepare(self.system.texts.split("train"))
            np.savez(folder / LEARNT, **(learnt or {}))  # type: ignore[arg-type]

        learnt = self.system.texts.encoded["train"]
        return self._store.stage("prepared", work, version=1, encoded=learnt, **self._recipe)

    @cached_property
    def ready(self) -> Explainer:
        """The configured explainer, with what it has learnt."""
        if self.prepared:
            # A pickle could run code when it is read.
            with np.load(self.prepared.path / LEARNT, allow_pickle=False) as arrays:
                self.explainer.learnt = dict(arrays)
        return self.explainer

    @property
    def _recipe(self) -> dict[str, Any]:
        phi, sizes = self._configured.phi, self.explainer.sizes
        # Sizes change no result, so they decide no recipe.
        options_of_phi = {name: value for name, value in phi.items() if name not in sizes}
        # Found by name, so that no import leads there; one may alter another.
        codes, altered = [], self.explainer.altered
        while altered:
            codes.append(code_hash(type(altered)))
            altered = altered.altered
        return {
            "explainer": options_of_phi,
            "code": code_hash(type(self.explainer)),
            "code_of_altered": codes,
        }

    def rules(
        self,
        scenario: Scenario,
        name: Split,
        source_alone: bool = False,
        keep_relevance: bool = False,
    ) -> Stage:
        """Return rules of a split, and for the test set whole relevance too.

        Args:
            scenario: where contexts and labels come from.
            name: of the split.
            source_alone: accept an explainer without relevance of prefix words.
            keep_relevance: keep whole relevance of another split too.

        Raises:
            NotApplicable: the explainer does not cover this model or this corpus.
            XnmtError: the scenario is unknown.
        """
        explainer = self.explainer  # asked first: a wrong name shows before anything is made
        if scenario == REAL and explainer.needs_gold:
            raise NotApplicable("gold annotation exists for references only, not for translations")
        if scenario != TEACHER_FORCING and explainer.against_gold:
            raise NotApplicable("foil=gold: in this scenario every label is the target's own word")
        count, extraction = self.decisions.count(name), self.decisions.extraction
        labels = (
            None if labels_itself(explainer, extraction) else self.decisions.labels(name, scenario)
        )

        # Whole relevance of training sentences would take many times the room of rules.
        keep_relevance = keep_relevance or name == EVALUATED

        def work(folder: Path) -> dict[str, Any]:
            path = labels.path if labels else None
            readable = self.decisions.count_readable(name, scenario)

            self._extract(
                folder, self.system, name, readable, scenario, path, source_alone, keep_relevance
            )
            return {"sentences": readable}

        return self._store.stage(
            "rules",
            work,
            version=5,
            amount=Work(f"{self.name} on {self.system.name}", count, "sentences"),
            split=name,
            **self.decisions.decided(name, scenario),
            **self._recipe,
            prepared=self.prepared,
            labels=labels,
            extraction=extraction.recipe(),
            source_alone=source_alone,
            relevance=keep_relevance,
        )

    def relevance_of_changed(
        self, change: Callable[[NMTModel], NMTModel], sentences: int, **described: Any
    ) -> Relevances:
        """Return relevance of the test set's first sentences by the system with a change.

        Labels and drafts are those of the unchanged system.

        Args:
            change: returns the changed model; it leaves the given one alone.
            sentences: how many.
            described: tells the change from others in the store.

        Raises:
            NotApplicable: the explainer leaves out steps, or does not cover the model.
        """
        self._refuse_gold_foil()
        labels = self.decisions.labels(EVALUATED, TEACHER_FORCING)

        def work(folder: Path) -> None:
            self._extract(
                folder,
                ChangedSystem(self.system, change),
                EVALUATED,
                sentences,
                TEACHER_FORCING,
                labels.path,
            )

        stage = self._store.stage(
            "relevance_of_changed",
            work,
            version=1,
            amount=Work(f"{self.name} on {self.system.name}, changed", sentences, "sentences"),
            **self.decisions.decided(EVALUATED, TEACHER_FORCING, sentences),
            **self._recipe,
            prepared=self.prepared,
            labels=labels,
            extraction=self.decisions.extraction.recipe(),
            **described,
        )
        return Relevances(stage.fingerprint, lambda: relevance(stage.path, EVALUATED), stage)

    def _extract(
        self,
        folder: Path,
        system: System | ChangedSystem,
        name: Split,
        sentences: int,
        scenario: Scenario,
        labels: Path | None,
        source_alone: bool = False,
        keep_relevance: bool = True,
    ) -> None:
        """Write the rules of a split's first sentences, and whole relevance too, if wanted.

        The arguments are those of `extract`, and `rules`; the model is `system.model`.
        """
        explainer, extraction = self.explainer, self.decisions.extraction
        # Gold is read for the few explainers that need it; it costs a pass over the corpus.
        gold = self.texts.gold(name) if explainer.needs_gold else None
        if gold is not None and not any(g.possible or g.planted for g in gold.values()):
            raise NotApplicable(f"the {name} sentences have no gold alignment")

        def make(numbers: Sequence[int]) -> Iterator[int]:
            return extract(
                system.model,
                self.decisions.split(name, scenario),
                sentences,
                self.ready,
                extraction,
                folder,
                name,
                keep_relevance=keep_relevance,
                scenario=scenario,
                gold=gold,
                source_alone=source_alone,
                labels=labels,
                numbers=numbers,
            )

        paths = shard_paths(folder, name, extraction.shards(sentences))
        title = f"{self.bare_name}, {name}"
        make_shards(folder, name, paths, make, title, self.decisions.progress, is_finished)

    def _refuse_gold_foil(self) -> None:
        if self.explainer.against_gold:
            raise NotApplicable("foil=gold has no foil where the system says the target's own word")

    def _refuse_other_labels(self, rules: Path, name: Split) -> None:
        """Raise NotApplicable unless every label is the target's own word, as in the file."""
        other_N = np.concatenate([differs_from_gold(path) for path in shards(rules, name)])
        if other_N.any():
            counted = f"{other_N.sum():,} of {len(other_N):,} decisions"
            problem = (
                "the file explains the targets' words, but the system decides otherwise in "
                f"{counted}"
            )
            advice = "make the system's own translations the targets of the corpus"
            raise NotApplicable(f"{problem}; {advice}")

    def relevance(
        self, scenario: Scenario, source_alone: bool = False, name: Split = EVALUATED
    ) -> Relevances:
        """Return the whole relevance of a split, sentence by sentence.

        Raises:
            NotApplicable: the explainer leaves out steps, or does not cover the model.
        """
        self._refuse_gold_foil()
        stage = self.rules(scenario, name, source_alone, keep_relevance=True)
        if self.explainer.of_target_words and scenario == TEACHER_FORCING:
            self._refuse_other_labels(stage.path, name)
        return Relevances(stage.fingerprint, lambda: relevance(stage.path, name), stage)
