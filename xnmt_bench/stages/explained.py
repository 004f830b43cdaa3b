"""The stage from a trained NMT system to the relevance and the rules of one explainer."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import hydra
from hydra.errors import InstantiationException
from rich.progress import track

from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.corpora.sentence import Gold, Split, lang_pair
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.explainers.base import Explainer
from xnmt_bench.rules.extract import LABELLING, REAL, ExtractionOptions, Scenario, extract
from xnmt_bench.stages.systems import VERSIONS, plain
from xnmt_bench.stages.translations import Translations
from xnmt_bench.store import Artefact

EVALUATED: Split = "test"


def code_hash(cls: type) -> str:
    """A hash of the module that defines a class, blind to comments, layout and docstrings.

    It stands in the rules' recipe, so that an edited explainer is never answered from old rules.
    """
    tree = ast.parse(inspect.getsource(sys.modules[cls.__module__]))
    for node in ast.walk(tree):
        match node:
            case (
                ast.Module(body=[ast.Expr(value=ast.Constant(value=str())), *_])
                | ast.ClassDef(body=[ast.Expr(value=ast.Constant(value=str())), *_])
                | ast.FunctionDef(body=[ast.Expr(value=ast.Constant(value=str())), *_])
            ):
                node.body.pop(0)
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]


class Explained(Translations):
    """A system's decisions, explained by the configured explainer."""

    @cached_property
    def explainer(self) -> Explainer:
        """The configured explainer.

        Raises:
            XnmtError: the configuration names something that is no explainer, or an option that
                the explainer does not have.
        """
        name = self.config.explainer.name
        try:
            phi = hydra.utils.instantiate(self.config.explainer.phi)
        except InstantiationException as error:
            raise XnmtError(f"explainer {name!r}: {error.__cause__ or error}") from error
        if not isinstance(phi, Explainer):
            raise XnmtError(f"explainer {name!r}: {type(phi)} is no Explainer")
        return phi

    @property
    def explainer_name(self) -> str:
        """The explainer's name in results, with the options that are not its defaults."""
        phi, given = self.explainer, plain(self.config.explainer.phi)
        defaults = {n: p.default for n, p in inspect.signature(type(phi)).parameters.items()}
        changed = [
            f"{name}={value}"
            for name, value in given.items()
            if name in defaults and name != "seed" and value != defaults[name]
        ]
        return self.config.explainer.name + (f"[{', '.join(changed)}]" if changed else "")

    def job(self) -> dict[str, Any]:
        """What this job is about, as the first columns of every table say it."""
        return {
            "corpus": self.corpus.name,
            "lang_pair": lang_pair(self.corpus),
            "nmt": self.config.nmt.name,
            "explainer": self.explainer_name,
            "seed": self.config.seed if "seed" in self.config.explainer.phi else "",
        }

    def _sentences(self, name: Split) -> int:
        """How many sentences of a split are explained."""
        wanted = self.config.rules[f"{name}_sentences"]
        there = len(self.split(name))
        return there if wanted is None else min(wanted, there)

    def contexts(self, name: Split, scenario: Scenario) -> EncodedSplit:
        """A split with the targets whose prefixes are the contexts of a scenario."""
        return self.real(name, self._sentences(name)) if scenario == REAL else self.split(name)

    def gold(self, name: Split) -> dict[int, Gold]:
        """The annotation of a split's sentences by their numbers; empty where there is none."""
        annotated = enumerate(self.corpus.sentences(name))
        return {n: sentence.gold for n, sentence in annotated if sentence.gold is not None}

    def explained(
        self, scenario: Scenario, splits: Iterable[Split], source_alone: bool = False
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
        if scenario not in LABELLING:
            raise XnmtError(f"no scenario {scenario!r}; there are {', '.join(LABELLING)}")
        settings = plain(self.config.rules)
        if "train" not in splits:
            settings["train_sentences"] = 0
        options = ExtractionOptions(
            **{k: v for k, v in settings.items() if k in ExtractionOptions.__dataclass_fields__}
        )
        explainer = self.explainer
        recipe = {
            "version": VERSIONS["rules"],
            "model": self.model_id,
            "encoded": self.encoded.id,
            "explainer": plain(self.config.explainer),
            "code": code_hash(type(explainer)),
            "options": settings,
            "scenario": scenario,
        }
        if source_alone:
            recipe["source_alone"] = True
        if scenario == REAL:
            if explainer.needs_gold:
                raise NotApplicable("the annotation is of the reference, not of the translation")
            # What else decides the translation is in the recipe already.
            recipe["translation"] = [VERSIONS["translation"], self.config.nmt.beam]

        def work(folder: Path) -> dict[str, Any]:
            for name in splits:
                self._extract(name, explainer, options, folder, scenario, source_alone)
            return {"sentences": {name: self._sentences(name) for name in splits}}

        return self.store.make("rules", recipe, work)

    def _extract(
        self,
        name: Split,
        explainer: Explainer,
        options: ExtractionOptions,
        folder: Path,
        scenario: Scenario,
        source_alone: bool,
    ) -> None:
        count = self._sentences(name)
        gold: Mapping[int, Gold] | None = self.gold(name) if explainer.needs_gold else None
        if gold is not None and not any(g.possible for g in gold.values()):
            raise NotApplicable(f"the {name} sentences have no gold alignment")
        done = extract(
            self.model,
            self.contexts(name, scenario),
            count,
            explainer,
            options,
            folder,
            name,
            keep_relevance=name == EVALUATED,
            scenario=scenario,
            gold=gold,
            source_alone=source_alone,
        )
        label = f"{self.config.explainer.name}, {name}"
        total = -(-count // options.shard_sentences)
        for _ in track(done, label, total, disable=not self.options.progress_bar):
            pass
