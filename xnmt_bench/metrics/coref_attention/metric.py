"""Attention over coreference links as a metric (Dinarelli et al. 2024)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.corpora.function_words import EOS_MARK, function_words
from xnmt_bench.corpora.sentence import SIDES
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.measuring.listing import Listing
from xnmt_bench.measuring.measurement import (
    Evidence,
    Measurement,
    PlannedRow,
    ScoredRow,
)
from xnmt_bench.measuring.metric import Column, Key, SumMetric, count, hundredths, percent
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.coref_attention.agreement import Agreement
from xnmt_bench.metrics.coref_attention.context import ContextWeights, Spoken
from xnmt_bench.metrics.coref_attention.examples import FILE, Example, listings
from xnmt_bench.metrics.coref_attention.link_attention import (
    BOUNDS,
    SUBSETS,
    CorefScores,
    PlacedMention,
    Verdict,
    coref_scores,
    same_chain,
)
from xnmt_bench.morphology import Morphology
from xnmt_bench.options import Natural, Text
from xnmt_bench.pipeline.job import Job
from xnmt_bench.progress import track
from xnmt_bench.registry import create
from xnmt_bench.store import Stage, write_atomically
from xnmt_bench.words.pieces import significant

log = logging.getLogger(__name__)
EXAMPLES = "examples.json"
ALL = "all"  # every link, in SUBSETS
SHUFFLED, UNIFORM = "shuffled", "uniform"  # floors: uninformative weights


class CorefAttention(SumMetric):
    """Weights between a sentence's mentions and those of their chain in a context sentence.

    A unit is a sentence; its sums are over its links, its mentions and its words.

    Args:
        nearest: of a chain's mentions, only the one nearest before.
        whole_matrix: scale by the greatest weight of the matrix, not of each current word.
        heatmaps: of each side: the first context sentences that a link leads to.
        morphology: of the target language, by name; it tells what wrong looks do to a translation.
    """

    name = "coref_attention"
    papers = ("dinarelli2024",)
    setting_options = ("nearest", "whole_matrix")
    needs = "a corpus with coreference chains, and a system that reads context"
    reads_relevance = True
    title = "Attention over coreference links"
    note = (
        "Of links between a mention and one of its chain in a context sentence: the share with the "
        "greatest weight of that sentence, the share with a significant weight, the mean weight; "
        "with 95 % bootstrap intervals over sentences; higher is better. Precision: of mentions "
        "with an antecedent in the context and any significant attention there, how many look at a "
        "right one. Dispersion: attended words a word; beside it function words and punctuation. "
        "Naive: of the antecedent's words it looks only at those that the mention has too. "
        "Positive attention: the mention looks anywhere in that sentence, right or wrong. "
        "Shuffled: the same weights, the words of each context sentence dealt anew. "
        "Needed: of the links whose context is needed, as annotated; elsewhere a heuristic, the "
        "current sentence names no antecedent. Hard: a content word of the mention is none of the "
        "antecedent's."
    )
    genders_note = (
        "Follows: of the pronouns that look at a word of another gender than their antecedent, and "
        "not at it (judged many), those whose translation agrees with the word, and those whose "
        "translation agrees with the antecedent."
    )
    keys = (
        Key("side", "side", "{} side"),
        Key("links_of", "links of", "{} links", order=tuple(SUBSETS)),
        Key("explainer", "explainer"),
        Key("seed", "seed"),
    )
    unit_bounds = BOUNDS
    columns = (
        Column.higher("nonzero", "non-zero %", hundredths).means(
            "share of the links with a significant weight"
        ),
        Column.higher("needed_nonzero", "non-zero %, needed", hundredths).means(
            "the same for links whose context is needed"
        ),
        Column.higher("max_weight", "max-weight %", hundredths).means(
            "share of the links that have the greatest weight of their context sentence"
        ),
        Column.higher("average", "average", "{:.3f}".format).means("mean weight of a link"),
        Column("naive", "naive %", hundredths).means(
            "share of the links whose attended words are all repeated in the mention"
        ),
        Column("positive", "positive attention %", hundredths).means(
            "share of the links whose mention has a significant weight in that sentence"
        ),
        Column.higher("precision", "precision %", hundredths).means(
            "of mentions with an antecedent and a significant weight in the context, the "
            "share that looks at a right one"
        ),
        Column("dispersion", "dispersion").means("context words with a significant weight, a word"),
        Column("dispersion_function", "function words").means(
            "the same for function words and punctuation"
        ),
        Column("links", "links", count).means("links that were measured"),
        Column("follows_wrong", "follows the wrong word %", hundredths, interval=True).means(
            "share of the judged pronouns that agree with the wrong word that they look at"
        ),
        Column("follows_right", "follows the antecedent %", hundredths, interval=True).means(
            "share of the judged pronouns that agree with their antecedent"
        ),
        Column("judged", "judged", count).means(
            "pronouns that look at a word of another gender than their antecedent"
        ),
    )

    def __init__(
        self,
        nearest: bool = False,
        whole_matrix: bool = False,
        heatmaps: Natural = 3,
        morphology: Text | None = None,
    ) -> None:
        self.nearest, self.whole_matrix, self.heatmaps = nearest, whole_matrix, heatmaps
        self.morphology: Morphology | None = None
        if morphology:
            self.morphology = create("morphologies", morphology)

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield weights of the explainer, and its two floors, by side and kind of link."""
        # Counts of the annotation, compared with published ones, show whether it was read whole.
        for line in job.corpus.counts():
            log.info("%s", line)
        # Before any weight is made, which takes a pass of the explainer.
        language = job.corpus.target_language
        if self.morphology and self.morphology.language != language:
            facts = (
                f"the morphology is for {self.morphology.language}, but the translations are "
                f"{language}"
            )
            raise XnmtError(f"metric coref_attention: {facts}")
        context = ContextWeights(job)
        explainer = job.explained_identity()["explainer"]
        for name, keys, floor in (
            (explainer, {}, ""),
            (f"{explainer}, {SHUFFLED}", {"seed": job.settings.seed}, SHUFFLED),
            (UNIFORM, {"seed": ""}, UNIFORM),  # the same for every seed
        ):
            if floor == SHUFFLED and job.explained.explainer.blind:
                continue  # it is one itself
            if floor and job.explained.explainer.alters:
                continue  # the explainer that it alters has the same
            weighed = _Weighed(partial(self.weighed, job, context, floor), floor)
            for side, subset in product(SIDES, SUBSETS):
                row: dict[str, Any] = keys | {"side": side, "explainer": name}
                make = partial(self._evidence, context, weighed, side, subset)
                stages = weighed.stages
                yield self.plan(job, make, stages, explained=True, **row, links_of=subset)

    def _evidence(
        self, context: ContextWeights, weighed: _Weighed, side: str, subset: str
    ) -> Evidence | None:
        artefact = weighed.artefact(subset)
        # A subset without a link has no row, where it would have one of NaN.
        if artefact is None or subset not in (ALL, *artefact.facts["subsets"][side]):
            return None
        units = Units.load(artefact.path / f"{side} {subset}.parquet")
        examples = artefact.path / EXAMPLES
        drawn = subset == ALL and examples.exists()  # each is drawn once for all its rows
        files = {FILE: examples} if drawn else {}
        facts: dict[str, Any] = {"match_rate": context.match_rate} | (
            {"blind": True} if weighed.floor else {}
        )
        # Verdicts on genders are further columns of the units.
        genders = {"genders": self.morphology.version} if self.morphology else {}
        settings = context.settings | (genders or {"genders": "not judged"})
        made_by = {"coreference": artefact.fingerprint}
        return Evidence(units, made_by, facts | genders, files, settings)

    def weighed(self, job: Job, context: ContextWeights, floor: str = "") -> Stage:
        """Return every link's weight on each side: by the explainer, or by one of its floors."""
        sentences = len(context.sentences)  # says what does not apply, before anything is made
        kind, heatmaps, seed = context.fingerprint, self.heatmaps, job.settings.seed
        name, weights = job.explained_identity()["explainer"], context.weights
        if floor == SHUFFLED:
            kind, heatmaps, name = f"{SHUFFLED} {seed} {kind}", 0, f"{name}, {SHUFFLED}"
            # The same weights among other words: what is left is due only to their sizes.
            weights = partial(context.shuffled, seed)
        elif floor == UNIFORM:
            # Floors have no heatmaps.
            kind, heatmaps, name, weights = UNIFORM, 0, UNIFORM, context.uniform

        agreement = Agreement(context, self.morphology) if self.morphology else None

        def work(folder: Path) -> dict[str, Any]:
            scores = {side: CorefScores(judged=[] if agreement else None) for side in SIDES}
            examples: dict[str, list[Example]] = {side: [] for side in SIDES}
            for index, sides in track(
                weights(), f"{name}, coreference", sentences, "sentences", job.progress
            ):
                for side, blocks in sides.items():
                    language = getattr(job.corpus, f"{side}_language")
                    judge = partial(agreement.judge, side, index) if agreement else None
                    spoken = context.spoken[side]
                    self._score(scores[side], spoken, index, blocks, language, judge)
                    # Of the first sentences with a link, so that every explainer's heatmaps are of
                    # the same ones.
                    drawn = self._examples(spoken, index, blocks, f"{name}, {side}")
                    # Lazy: no more are rounded and described than are drawn.
                    examples[side] += islice(drawn, heatmaps - len(examples[side]))
            if heatmaps:
                described = {side: [asdict(e) for e in examples[side]] for side in SIDES}
                write_atomically(folder / EXAMPLES, json.dumps(described, ensure_ascii=False))
            subsets: dict[str, list[str]] = {side: [] for side in SIDES}
            for side, (subset, chosen) in product(SIDES, SUBSETS.items()):
                # A row without links is left out, but a corpus without any has to be reported.
                if subset == ALL or any(map(chosen, scores[side].links)):
                    units = scores[side].units(job.texts.test_set, context.numbers, subset)
                    units.save(folder / f"{side} {subset}.parquet")
                    subsets[side].append(subset)
            # "All" is left out: it has a row in any case.
            return {"subsets": {side: names[1:] for side, names in subsets.items()}}

        return job.store.stage(
            "coreference",
            work,
            version=8,  # function words are found with attached punctuation
            kind=kind,
            learnt=job.corpus.recipe("train"),  # whose words are linked
            translation=job.translations().made("test"),
            sentences=sentences,
            nearest=self.nearest,
            whole_matrix=self.whole_matrix,
            heatmaps=heatmaps,
            # Rules of genders change the verdicts, and with them the units.
            genders=self.morphology
            and f"{type(self.morphology).__name__} {self.morphology.version}",
        )

    def _score(
        self,
        scores: CorefScores,
        spoken: Sequence[Spoken],
        index: int,
        blocks: Sequence[np.ndarray],
        language: str,
        judge: Callable[..., list[Verdict]] | None,
    ) -> None:
        """Add a sentence's links to each of its context sentences."""
        current, linked = spoken[index], set[PlacedMention]()
        closed_class = function_words(language)
        for distance, raw_IN in enumerate(blocks, start=1):
            earlier = spoken[index - distance]
            all_links = same_chain(current.mentions, earlier.mentions)
            links = all_links
            if self.nearest:
                all_links = [(m, a) for m, a in all_links if m not in linked]
                # Of several antecedents in one sentence the last is the nearest.
                # A dictionary keeps the last antecedent of each mention.
                links = list({m: (m, a) for m, a in all_links}.values())
                linked |= {m for m, _ in links}
            weights_IN = significant(raw_IN, self.whole_matrix)
            placed = current.mentions, earlier.mentions, _columns(earlier, raw_IN)
            scores.add(index, distance, weights_IN, *placed, closed_class, links)
            if judge and scores.judged is not None:
                # A pronoun that looks at any of its antecedents looks at a right word.
                scores.judged += judge(distance, weights_IN, all_links, closed_class)

    def _examples(
        self, spoken: Sequence[Spoken], index: int, blocks: Sequence[np.ndarray], title_start: str
    ) -> Iterator[Example]:
        """Yield the context sentences that a link leads to, ready to be drawn."""
        current = spoken[index]
        for distance, raw_IN in enumerate(blocks, start=1):
            earlier = spoken[index - distance]
            pairs = same_chain(current.mentions, earlier.mentions)
            if links := [(list(m.words), list(a.words)) for m, a in pairs]:
                title = f"{title_start} side, sentence {index}, {distance} back"
                weights = significant(raw_IN, self.whole_matrix).round(4).tolist()
                yield Example(title, current.words, _columns(earlier, raw_IN), weights, links)

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the results (R,) from the sums; see `links.coref_scores`."""
        return coref_scores(sums_R)

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return how much of the annotation the systems' own translations carry."""
        rates = {}
        for m in (s.measurement for s in scored if s.measurement.ok):
            where = " ".join(m.identity[c] for c in ("corpus", "lang_pair", "nmt"))
            # By model too: two systems may share a name, and each has translations of its own.
            if (rate := m.facts.of_metric["match_rate"]) is not None:
                rates[where, m.model] = percent(rate)
        notes = [
            f"{where}: its translations have {rate} of the words of the reference's mentions."
            for (where, _), rate in rates.items()
        ]
        facts = (s.measurement.facts.of_metric for s in scored)
        genders = {row_facts["genders"] for row_facts in facts if "genders" in row_facts}
        if genders:
            notes.append(f"{self.genders_note} Genders: {', '.join(sorted(genders))}.")
        return notes

    def listings(self, measurements: Sequence[Measurement]) -> Iterator[Listing]:
        """Yield each explainer's first links, which are drawn to files too."""
        return listings(measurements, self.identity)


class _Weighed:
    """The weights behind the rows of the explainer, or of one of its floors.

    Args:
        weigh: makes them.
        floor: which floor; empty for the explainer itself.
    """

    def __init__(self, weigh: Callable[[], Stage], floor: str) -> None:
        self._weigh, self.floor = weigh, floor
        self._made: Stage | None = None

    def stages(self) -> list[Stage]:
        """Return the stage that makes them."""
        return [self._weigh()]

    def artefact(self, subset: str) -> Stage | None:
        """Return the weights for a row of some links; None without such a row.

        Raises:
            NotApplicable: the explainer has no weights over a context.
        """
        # Rows of all links come first and say what went wrong; the others then have no row.
        if subset == ALL:
            try:
                stage = self._weigh()
                _ = stage.artefact  # made here, since this is where it may not apply
                self._made = stage
            except NotApplicable:
                if not self.floor:  # a floor needs a row to compare with
                    raise
        return self._made


def _columns(context: Spoken, weights_IN: np.ndarray) -> list[str]:
    """Return a context sentence's columns: its words, and EOS where that is one of them."""
    return [*context.words, EOS_MARK][: weights_IN.shape[1]]
