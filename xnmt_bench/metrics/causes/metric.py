"""Causes as a metric: does an explainer name the words that change the model's decision?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from xnmt_bench.corpora.exchange.exchangeable import EXCHANGED, HEURISTIC, HEURISTIC_NOTE
from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.measurement import Evidence, PlannedRow, ScoredRow
from xnmt_bench.measuring.metric import Column, Key, SumMetric, count, hundredths, percent, ratio
from xnmt_bench.measuring.sentence_sums import evidence_of_sentences
from xnmt_bench.measuring.units import Bounds
from xnmt_bench.metrics.causes.effects import Interventions
from xnmt_bench.metrics.causes.misled import STRONGEST, describe_decisions, miss_strongest
from xnmt_bench.metrics.causes.ranks import SIDES, Ranking, judge_side, judge_sides
from xnmt_bench.metrics.causes.sentences import tied_sentences
from xnmt_bench.metrics.causes.table import NONE, Decision, columns_of, load
from xnmt_bench.options import Count, Part
from xnmt_bench.parquet import write_table
from xnmt_bench.pipeline.decision_table import load_decisions, store_decisions
from xnmt_bench.pipeline.explained import EVALUATED, Relevances
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.extract import TEACHER_FORCING
from xnmt_bench.rules.table import SentenceRelevance
from xnmt_bench.store import Stage

SHARD = 50  # sentences
FEWEST = 100  # usable decisions of a side; fewer show nothing
TAKES_BOTH = (
    "Where two words decide together, replacing one of them alone says little: causal@k leaves "
    "these decisions out, and is n/a on planted decisions. At k = 2 the CSV has the effect of "
    "replacing both (`both`), and how often both are named (`names_both`)."
)


class Causes(SumMetric):
    """Whether the words that an explainer names change the decision when they are changed.

    A unit is a sentence; its sums are over its decisions, first pieces of target words.

    Args:
        substitutes: of a word, at most.
        least: the greatest effect that a side needs for a decision to be usable there.
        sentences: test sentences; null for all that are explained.
    """

    name = "causes"
    setting_options = ("substitutes", "least")
    needs = "a corpus with a grammar or training text"
    reads_relevance = True
    title = "Causes: what changes the decision"
    note = (
        "Words are replaced by others of their category, all else fixed. Causal@k: the "
        "effects of the k words that the explainer names, over the greatest sum of effects of k "
        "words, with its 95 % bootstrap interval over sentences. A word named that has no "
        "substitute counts as one without an effect; unknown: the share of such words. Words that "
        "are as relevant are named in all orders, each as probable. Above chance: (causal@k - "
        "chance) / (100 - chance), where chance is the causal@k of pieces drawn at random. With "
        "translation: a word and its translation are replaced together, by two that translate each "
        "other. Removed: the word's embedding is the vocabulary's mean. The prefix stays but for "
        "what is replaced, so these are direct effects. A decision counts on a side where some "
        "word has an effect of at least metric.causes.least (0.05 by default), whatever words are "
        "named."
    )
    keys = (Key("explainer", "explainer"), Key("k", "k", "k = {}"), Key("seed", "seed"))
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        "usable_planted": Bounds(0, 1, of="planted"),
        "usable_*": Bounds(0),
        "unusable_*": Bounds(0),
        "tau_*": Bounds(-1, 1, of="ranked_*"),
        **{
            f"{name}_*": Bounds(0, 1, of="usable_*")
            for name in ("causal", "chance", "unknown", "strongest", "ranked", "flips")
        },
        "takes_both": Bounds(0),
        "planted": Bounds(0),
        "names_both": Bounds(0, 1, of="planted"),
        "link_greatest": Bounds(0, 1, of="planted"),
        "cue_greatest": Bounds(0, 1, of="planted"),
        # A planted word without a substitute has no effect that is known.
        **{n: Bounds(0, 1, of="planted", nan=True) for n in ("link", "cue", "both", "earlier")},
    }
    columns = (
        *(
            column
            for side in SIDES
            for column in (
                Column.higher(f"causal_{side}", f"causal@k {side}", hundredths).means(
                    f"effect of the {side} words named, of the greatest there is, by which"
                ),
                Column(f"above_chance_{side}", f"above chance {side}", hundredths).means(
                    "100 is the greatest effect there is, 0 that of pieces drawn at random"
                ),
                Column(f"unknown_{side}", f"unknown % {side}", hundredths).means(
                    f"share of the {side} words named whose effect is not known"
                ),
            )
        ),
        *Column("chance_{}", "chance {}", hundredths, shown=False)
        .means("causal@k of {} pieces drawn at random")
        .of_each(SIDES),
        Column(
            "causal_pooled", "causal@k, both sides", hundredths, shown=False, interval=True
        ).means("effects of the words named on both sides, of the greatest of k words a side"),
        *Column("strongest_{}", "strongest % {}", hundredths, shown=False)
        .means("share of the decisions whose first {} word has the greatest effect")
        .of_each(SIDES),
        *Column("tau_{}", "tau {}", "{:+.2f}".format, shown=False)
        .means("Kendall's tau-b of relevance and effect over {} words, by decision")
        .of_each(SIDES),
        *Column(
            "causal_with_translation_{}", "with translation: causal@k {}", hundredths, interval=True
        )
        .means("as causal@k {}, with its translation replaced too")
        .of_each(SIDES),
        *Column("causal_removed_{}", "removed: causal@k {}", hundredths, interval=True)
        .means("as causal@k {}, where the word is taken away")
        .of_each(SIDES),
        *Column("change_{}", "log P {}", "{:+.2f}".format, shown=False)
        .means("change of log P(label) when a {} word named is replaced, in nats")
        .of_each(SIDES),
        *Column("flips_{}", "flips % {}", hundredths, shown=False)
        .means("share of the {} words named after whose replacement the label is not chosen")
        .of_each(SIDES),
        Column("causal_planted", "causal@k planted", hundredths, interval=True).means(
            "causal@k source on the decisions of planted words alone"
        ),
        Column("link", "effect of the link", "{:.3f}".format, shown=False),
        Column("cue", "effect of the cue", "{:.3f}".format, shown=False),
        *Column("{}_greatest", "{} greatest %", hundredths, shown=False)
        .means("share of the planted decisions in which no source word does more than it")
        .of_each(("link", "cue")),
        Column("both", "effect of both", "{:.3f}".format, shown=False).means(
            "effect of replacing link and cue at once on planted decisions"
        ),
        Column("earlier", "effect of the earlier word", "{:.3f}".format, shown=False),
        Column("names_both", "names both %", hundredths, shown=False).means(
            "share of the planted decisions whose k source words hold link and cue"
        ),
        Column("takes_both", "decisions that take two words", count, shown=False).means(
            "planted decisions that causal@k source leaves out, since two words decide"
        ),
        *Column("usable_{}", "decisions {}", count, shown=False).of_each(SIDES),
        *Column("unusable_{}", "decisions without a cause, {}", count, shown=False)
        .means("decisions in which no {} word has an effect by itself")
        .of_each(SIDES),
    )

    def __init__(
        self,
        substitutes: Count = 4,
        least: Part = 0.05,
        sentences: Count | None = None,
    ) -> None:
        self.substitutes, self.least, self.sentences = substitutes, least, sentences

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield the explainer's row."""
        make, stages = partial(self._evidence, job), partial(self._stages, job)
        yield self.plan(job, make, stages, explained=True, k=job.settings.k)

    def _stages(self, job: Job) -> list[Stage | None]:
        relevances = job.relevance(TEACHER_FORCING, source_alone=True)
        return [relevances.source, self._effects(job)]

    def _evidence(self, job: Job) -> Evidence:
        """Return the sums of one explainer.

        Raises:
            NotApplicable: the corpus knows no substitutes, or too few decisions are usable.
        """
        relevances = job.relevance(TEACHER_FORCING, source_alone=True)
        artefact = self._effects(job)
        effects, split = load(artefact), job.texts.split(EVALUATED)
        numbers, rows, explained = [], [], set[str]()
        strongest: list[dict[str, Any]] = []
        for relevance in relevances.read():
            if relevance.number in effects:
                index = split.index_of[relevance.number]
                words = [side.words(index).tolist() for side in (split.source, split.target)]
                decisions = effects[relevance.number]
                rows.append(self._sum(decisions, relevance, words, job.settings.k))
                strongest += self._miss_strongest(decisions, relevance, words)
                numbers.append(relevance.number)
                by_side = zip(SIDES, (relevance.source_TS, relevance.prefix_TT), strict=True)
                explained |= {side for side, x in by_side if not np.isnan(x).all()}
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: np.array([row.get(name, 0.0) for row in rows]) for name in names}
        # A side of few decisions would have an interval as wide as the scale. One that no sentence
        # has relevance of is left out too; a sentence that lacks only relevance has a share of 0.
        usable = {side: columns.get(f"usable_{side}", np.zeros(1)).sum() for side in SIDES}
        without = [s for s in SIDES if usable[s] < FEWEST or s not in explained]
        if len(without) == len(SIDES):
            side = "" if explained == {*SIDES} else " on the side that is explained"
            raise NotApplicable(f"fewer than {FEWEST} decisions have a word with an effect{side}")
        # With one side there is nothing to pool.
        left_out = tuple(f"_{s}" for s in (*without, *(["pooled"] if without else [])))
        columns = {n: c for n, c in columns.items() if not n.endswith(left_out)}
        settings = {EXCHANGED: job.exchangeable.rule}
        counts = load_decisions(artefact, ("substitutes", "as_long"))
        substitutes, as_long = (int(counts[name].sum()) for name in ("substitutes", "as_long"))
        facts = {"as_long": as_long / max(substitutes, 1)}
        made_by = {"effects": artefact.fingerprint, "relevance": relevances.fingerprint}
        evidence = evidence_of_sentences(
            job, np.asarray(numbers), columns, made_by, settings, facts
        )
        file = self._store_strongest(job, artefact, relevances, strongest)
        return replace(evidence, files={STRONGEST: file})

    def _miss_strongest(
        self,
        decisions: Sequence[Decision],
        relevance: SentenceRelevance,
        words: Sequence[Sequence[int]],
    ) -> Iterator[dict[str, Any]]:
        """Yield a row for each decision of a sentence that has a cause; see `misled`."""
        for decision in decisions:
            rankings = _rank(decision, relevance, words)
            if missed := miss_strongest(decision, rankings, self.least):
                side, probability = missed
                kept = {"sentence": relevance.number, "step": decision.step}
                yield {**kept, "side": side, "missed": probability}

    def _store_strongest(
        self,
        job: Job,
        artefact: Stage,
        relevances: Relevances,
        rows: Sequence[dict[str, Any]],
    ) -> Path:
        """Return a file with a row for each decision, its kind in each facet of `misled`."""

        def write(folder: Path) -> None:
            table = pa.Table.from_pylist([*describe_decisions(job, rows)])
            write_table(table, folder / f"{STRONGEST}.parquet")

        stage = job.store.stage(
            "strongest",
            write,
            version=1,
            effects=artefact,
            relevance=relevances.fingerprint,
            least=self.least,
            learnt=job.system.learnt_texts.encoded["train"],
        )
        return stage.path / f"{STRONGEST}.parquet"

    def _sum(
        self,
        decisions: Sequence[Decision],
        relevance: SentenceRelevance,
        words: Sequence[Sequence[int]],
        k: int,
    ) -> dict[str, float]:
        """Return a sentence's sums; `words` are those of both sides' pieces."""
        sums = Counter[str]()
        for decision in decisions:
            # A step sees the whole source, and the prefix before it.
            visible = (np.ones(len(words[0]), bool), np.arange(len(words[1])) < decision.step)
            rankings = _rank(decision, relevance, words)
            counts = [len(ranking.relevance_W) for ranking in rankings]
            if decision.takes_both:
                sums["takes_both"] += 1
            else:
                which = [decision.effects["replaced", side] for side in SIDES]
                pooled = judge_sides(rankings, which, k, self.least)
                if pooled is not None:
                    sums.update({"usable_pooled": 1.0, "causal_pooled": pooled})
            for n, (ranking, side) in enumerate(zip(rankings, SIDES, strict=True)):
                # Replacing only one source word says little there.
                if decision.takes_both and side == "source":
                    continue
                equal_X = np.where(visible[n], 0.0, np.nan)
                chance_W = Ranking.of_pieces(equal_X, words[n], counts[n]).named(k)
                for kind, name in (
                    ("replaced", side),
                    ("replaced_with_translation", f"with_translation_{side}"),
                    ("removed", f"removed_{side}"),
                ):
                    effect_W = decision.effects[kind, side]
                    shares = judge_side(ranking, chance_W, effect_W, k, self.least)
                    if shares:
                        sums.update({f"{key}_{name}": n for key, n in vars(shares).items()})
                    elif kind == "replaced" and not np.isnan(effect_W).all():
                        sums[f"unusable_{side}"] += 1
                    if shares and kind == "replaced":
                        # Means over the words to name, so that one without a substitute has part.
                        share_W = ranking.named(k) / chance_W.sum()
                        for effect in ("change", "flips"):
                            changed_W = np.nan_to_num(decision.effects[effect, side])
                            sums.update({f"{effect}_{side}": float(share_W @ changed_W)})
                        if side == "source" and decision.planted:
                            sums.update({"causal_planted": shares.causal, "usable_planted": 1.0})
            if decision.planted:
                effect_W = decision.effects["replaced", "source"]
                *both, earlier = decision.planted
                link, cue = (float(effect_W[place]) for place in both)
                sums.update({"link": link, "cue": cue, "both": decision.joint, "planted": 1.0})
                sums.update({"names_both": rankings[0].probability(both, k)})
                greatest = np.nanmax(effect_W)
                sums.update({"link_greatest": link >= greatest, "cue_greatest": cue >= greatest})
                if earlier != NONE:
                    effect_T = decision.effects["replaced", "prefix"]
                    sums.update({"earlier": float(effect_T[earlier])})
        return dict(sums)

    def _effects(self, job: Job) -> Stage:
        """Return the effects of each word of the test sentences, the same for every explainer.

        Raises:
            NotApplicable: the test set holds decisions that were chosen by their causes.
        """
        if job.corpus.twins:
            raise NotApplicable("the file of corpus.twins has the effects of the chosen decisions")
        count = job.explained.decisions.count(EVALUATED, self.sentences)

        def interventions() -> Interventions:
            return Interventions(job.system.model, job.exchangeable.categories, self.substitutes)

        def parts() -> Iterator[tuple[int, Sentence]]:
            return tied_sentences(job, count, interventions())

        def compute(sentences: list[tuple[int, Sentence]]) -> list[dict[str, Any]]:
            effects = interventions().effects(sentences)
            return [columns_of(*s, e) for s, e in zip(sentences, effects, strict=True)]

        return store_decisions(
            job,
            "causes",
            "causes",
            parts,
            compute,
            shard=SHARD,
            sentences=count,
            version=7,
            encoded=job.texts.encoded[EVALUATED],
            substitutes=self.substitutes,
            exchangeable=job.exchangeable,
        )

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return means over usable decisions, by side."""
        results: dict[str, np.ndarray] = {}
        for side in SIDES:
            if f"usable_{side}" not in sums_R:
                continue
            usable, chance = sums_R[f"usable_{side}"], sums_R[f"chance_{side}"]
            means = ("causal", "chance", "unknown", "strongest", "change", "flips")
            results |= {f"{name}_{side}": ratio(sums_R[f"{name}_{side}"], usable) for name in means}
            results |= {
                # Of sums, since a decision whose words all do as much has no room above chance.
                f"above_chance_{side}": ratio(sums_R[f"causal_{side}"] - chance, usable - chance),
                f"tau_{side}": ratio(sums_R[f"tau_{side}"], sums_R[f"ranked_{side}"]),
                f"usable_{side}": usable,
            }
            if f"unusable_{side}" in sums_R:
                results[f"unusable_{side}"] = sums_R[f"unusable_{side}"]
        sides = [f"{kind}_{side}" for kind in ("with_translation", "removed") for side in SIDES]
        for name in (*sides, "planted", "pooled"):
            if f"usable_{name}" in sums_R:
                usable = sums_R[f"usable_{name}"]
                results[f"causal_{name}"] = ratio(sums_R[f"causal_{name}"], usable)
        if "takes_both" in sums_R:
            results["takes_both"] = sums_R["takes_both"]
        planted = ("link", "cue", "link_greatest", "cue_greatest", "both", "earlier", "names_both")
        for word in planted:
            if word in sums_R:
                results[word] = ratio(sums_R[word], sums_R["planted"])
        return results

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return what substitutes are, and what the planted words of twins do."""
        measured = [s for s in scored if s.measurement.ok]
        if not measured:
            return []
        # The least of all rows: substitutes of other lengths move every later word.
        as_long = min(s.measurement.facts.of_metric["as_long"] for s in measured)
        notes = [f"{100 * as_long:.0f} % of the substitutes have as many pieces as the word."]
        if any(s.measurement.settings.get(EXCHANGED) == HEURISTIC for s in measured):
            notes.append(HEURISTIC_NOTE)
        if any(s.values.get("takes_both") for s in measured):
            notes.append(TAKES_BOTH)
        # By system, since each of several trainings has effects of its own.
        planted = {
            (s.row["corpus"], s.row["nmt"], s.measurement.model): s.values
            for s in measured
            if "link" in s.values
        }
        names = [(corpus, nmt) for corpus, nmt, _ in planted]
        return notes + [
            f"{corpus} {nmt}{f' {model[:6]}' * (names.count((corpus, nmt)) > 1)}: on planted "
            f"decisions the link's effect is {values['link']:.3f} (greatest of the source words' "
            f"in {percent(values['link_greatest'])}), the cue's {values['cue']:.3f} (greatest in "
            f"{percent(values['cue_greatest'])})."
            for (corpus, nmt, model), values in sorted(planted.items())
        ]


def _rank(
    decision: Decision, relevance: SentenceRelevance, words: Sequence[Sequence[int]]
) -> list[Ranking]:
    """Return each side's words by their relevance for a decision; `words` are those of pieces."""
    row = decision.step - relevance.first
    by_side = (relevance.source_TS[row], relevance.prefix_TT[row])
    counts = [len(decision.effects["removed", side]) for side in SIDES]
    return [Ranking.of_pieces(*x) for x in zip(by_side, words, counts, strict=True)]
