"""What people answered to a sheet, as a metric."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from xnmt_bench.errors import ConfigError
from xnmt_bench.measuring.measurement import Evidence, PlannedRow, ScoredRow
from xnmt_bench.measuring.metric import Column, Key, Metric, count, hundredths, ratio
from xnmt_bench.measuring.units import Bounds, Units
from xnmt_bench.metrics.annotation.answers import Answers, Group, read_answers
from xnmt_bench.metrics.annotation.coefficients import (
    MISSING,
    SUMS,
    as_set,
    cohen_kappa,
    differ,
    krippendorff_alpha,
    masi_of_answers,
    pairwise_agreement,
    sets_differ,
    sum_over_people,
)
from xnmt_bench.metrics.annotation.published import judged_annotations, read_links
from xnmt_bench.parsing import parse_number
from xnmt_bench.pipeline.job import Job
from xnmt_bench.sheets.consistency import GENDER, IS_TRANSLATION, ConsistencySheet
from xnmt_bench.sheets.files import AUTOMATIC, BLIND, RELEVANCE
from xnmt_bench.sheets.links import LinksSheet
from xnmt_bench.sheets.sheet import Question

log = logging.getLogger(__name__)
PEOPLE, AUTOMATIC_COLUMN, OF_RELEVANCE, OF_LINKS = "people", "automatic", "relevance", "links"
PERSON, WORDS, COLUMN, SUM = "person:", "words:", "automatic:", "sum:"  # beginnings of columns
BOTH = "both questions"
two_digits = "{:.2f}".format
three_digits = "{:.3f}".format


class Annotation(Metric):
    """Agreement of people with each other, with automatic columns, and with relevance.

    A unit is an item of the sheet. The files are those of `sheet.path` and `sheet.key`.
    """

    name = "annotation"
    setting_options = ()
    reads_sheets = True
    needs = "answered sheets (sheet.path) and where their items are from (sheet.key)"
    title = "What people answered"
    note = (
        "With 95 % bootstrap intervals over items. Between people: agreement is the share of pairs "
        "of answers to one item that are the same (of sets of words, the mean of 1 - MASI "
        "distance, beside the share of the same words); kappa is Cohen's, of two people; alpha is "
        "Krippendorff's, of sets with the MASI distance. Automatic: people "
        "beside what was measured; with several people kappa is the mean of theirs. Relevance: "
        "agreement is the share of a person's n words among the explainer's n greatest, beside "
        "average precision and hit@k."
    )
    keys = (
        Key("sheet", "sheet", "sheet: {}"),
        Key("question", "question"),
        Key("between", "beside", "beside {}"),
        Key("explainer", "explainer"),
    )
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        f"{SUM}annotations": Bounds(0),
        f"{SUM}weight": Bounds(0),
        f"{SUM}attended": Bounds(0),
        f"{SUM}spread": Bounds(0, 1, of=f"{SUM}spread_asked"),
        f"{SUM}*": Bounds(0, 1, of=f"{SUM}annotations"),
    }
    columns = (
        Column.higher("agreement", "agreement %", hundredths).means(
            "share of answers that are the same"
        ),
        Column.higher("exact", "same words %", hundredths).means(
            "share of answers that are the same set of words"
        ),
        Column.higher("kappa", "kappa", two_digits).means("agreement beyond chance of two (Cohen)"),
        Column.higher("alpha", "alpha", two_digits).means(
            "agreement beyond chance of two or more, some answers missing (Krippendorff)"
        ),
        Column.higher("average_precision", "average precision %", hundredths).means(
            "mean precision of relevance down to each word that people chose"
        ),
        Column.higher("hit_1", "hit@1 %", hundredths).means(
            "how often people chose the most relevant word"
        ),
        Column.higher("hit_3", "hit@3 %", hundredths).means(
            "how often people chose one of the three most relevant words"
        ),
        Column("naive", "naive %", hundredths, interval=True).means("links found by shared words"),
        Column("max_weight", "max-weight %", hundredths, interval=True).means(
            "links with the greatest weight of their row"
        ),
        Column("nonzero", "non-zero weight %", hundredths, interval=True).means(
            "links with a weight above that of a uniform look"
        ),
        Column("weight", "average weight", three_digits).means("mean weight of the links"),
        Column("attended", "dispersion", two_digits).means("content words that a word looks at"),
        Column("spread", "dispersed %", hundredths, interval=True).means(
            "links whose weight people call spread over many words"
        ),
        Column("alignment_errors", "alignment error", count).means("marked words: no translation"),
        Column("gender_errors", "gender prediction error", count).means("another gender"),
        Column("correct", "correct annotation", count).means("neither error"),
        Column("annotations", "annotations", count).means("answers that count"),
    )

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield what the files of `sheet.path` hold, and with `sheet.key` what they are about.

        Raises:
            ConfigError: no file is given, or only one person's without a key.
        """
        options = job.settings.sheet
        if not options.path:
            raise ConfigError(["metric=[annotation] needs sheet.path=[first.csv,second.csv]"])
        key = Path(options.key) if options.key else None
        answers = read_answers([Path(path) for path in options.path], key, options.format)
        if len(answers.filled) < 2 and answers.key is None:
            problem = "agreement needs the answers of two people; give a second file, or sheet.key"
            raise ConfigError([f"sheet.path: {problem}"])
        # Logged first: a sheet that is filled in part is valid, and its gaps would else go unseen.
        for line in answers.people():
            log.info("answers of %s", line)
        for group, items in answers.groups():
            for question in answers.questions:
                # One person has no other to agree with: only comparisons with the key are left.
                if len(answers.filled) > 1:
                    columns = _people_columns(answers, question, items)
                    yield self._row(answers, group, items, columns, question.name, PEOPLE)
                if answers.key is not None:
                    yield from self._hidden_rows(answers, group, items, question)
            if answers.key is not None:
                yield from self._published_rows(answers, group, items)

    def measured_from_files(self, job: Job) -> bool:
        """Return whether answers are given; no model is needed for them."""
        return bool(job.settings.sheet.path)

    def _row(
        self,
        answers: Answers,
        group: Group,
        items: Sequence[int],
        columns: Mapping[str, np.ndarray],
        question: str,
        between: str,
        explainer: str = "",
        blind: bool = False,
    ) -> PlannedRow:
        """Plan a row; its identity holds the sheet, so that later answers replace it."""
        kind = answers.filled[0].kind
        keys: dict[str, Any] = dict(group) | {
            "sheet": kind,
            "question": question,
            "between": between,
            "explainer": explainer,
        }
        # Named by the sheet, so that items of two sheets are never paired.
        units = Units(f"sheet {answers.sheet}", np.asarray(items, dtype=np.int64), columns)
        facts = {"people": answers.people(), "blind": blind}
        # The sheet and not the answers: a file that was filled further replaces its earlier row.
        content = {"answers to": answers.sheet}
        return PlannedRow.without_system(keys, partial(Evidence, units, {}), content, **facts)

    def _hidden_rows(
        self, answers: Answers, group: Group, items: Sequence[int], question: Question
    ) -> Iterator[PlannedRow]:
        """Yield people compared with the automatic answers, and with each explainer's relevance."""
        assert answers.key is not None
        automatic_U = answers.hidden(f"{AUTOMATIC}{question.name}", items)
        # Some questions have no automatic answer, such as whether the context is needed.
        if (automatic_U != MISSING).any():
            columns = _people_columns(answers, question, items) | {COLUMN: automatic_U}
            yield self._row(answers, group, items, columns, question.name, AUTOMATIC_COLUMN)
        if not question.words_of:
            return
        chosen = [[as_set(a) for a in person_U] for person_U in answers.given(question.name, items)]
        hidden = dict.fromkeys(name for item in items for name in answers.key.rows[item])
        for column in (name for name in hidden if name.startswith((RELEVANCE, BLIND))):
            cells_U = answers.hidden(column, items)
            # An explainer may have weighed part of the sentences; its other cells are empty.
            places = [place for place, cell in enumerate(cells_U) if cell != MISSING]
            if not places:
                continue
            sums = np.array(
                [
                    sum_over_people(
                        [person[place] for person in chosen],
                        answers.key.parse(items[place], column, _weights),
                    )
                    for place in places
                ]
            )
            names = (f"{SUM}{name}" for name in (*SUMS, "annotations"))
            yield self._row(
                answers,
                group,
                [items[place] for place in places],
                dict(zip(names, sums.T, strict=True)),
                question.name,
                OF_RELEVANCE,
                column.partition(":")[2],
                column.startswith(BLIND),
            )

    def _published_rows(
        self, answers: Answers, group: Group, items: Sequence[int]
    ) -> Iterator[PlannedRow]:
        """Yield the rows of the paper that the kind of sheet is from."""
        kind = answers.filled[0].kind
        question_names = {question.name for question in answers.questions}
        if kind == ConsistencySheet.name and {IS_TRANSLATION, GENDER} <= question_names:
            sums = judged_annotations(answers, items)
            yield self._row(answers, group, items, _summed(sums), BOTH, AUTOMATIC_COLUMN)
        if kind == LinksSheet.name:
            for explainer, links, sums in read_links(answers, items):
                yield self._row(answers, group, items, _summed(sums), links, OF_LINKS, explainer)

    def score(self, units: Units, weights_RU: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return what the row's columns allow: coefficients of answers, or ratios of sums."""
        columns = units.columns
        people = [columns[name] for name in columns if name.startswith((PERSON, WORDS))]
        if not people:
            sums = {
                name.removeprefix(SUM): weights_RU @ columns[name]
                for name in columns
                if name.startswith(SUM)
            }
            return _ratios(sums)
        sets = any(name.startswith(WORDS) for name in columns)
        distance: Callable[[str, str], float] = masi_of_answers if sets else differ
        if COLUMN in columns:
            return _beside_automatic(people, columns[COLUMN], weights_RU)
        answered_U = np.sum([person_U != MISSING for person_U in people], axis=0)
        results = {
            "agreement": pairwise_agreement(people, weights_RU, distance),
            "alpha": krippendorff_alpha(people, weights_RU, distance),
            "annotations": weights_RU @ answered_U,
        }
        # Cohen's kappa is of two people and of nominal answers; of sets it would call near misses
        # whole errors.
        if sets:
            results["exact"] = pairwise_agreement(people, weights_RU, sets_differ)
        elif len(people) == 2:
            results["kappa"] = cohen_kappa(people[0], people[1], weights_RU)
        return results

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return whose answers they are, and what is unanswered."""
        people = {
            (s.row["sheet"], tuple(s.measurement.facts.of_metric["people"])): None
            for s in scored
            if s.measurement.ok
        }
        notes = [f"Answers to {sheet}: {', '.join(names)}." for sheet, names in people]
        if find_spec("krippendorff") is None:
            notes.append("No alpha: pip install 'xnmt_bench[annotation]'.")
        return notes


def _weights(cell: str) -> np.ndarray:
    """Return the relevance of each source word, (S,)."""
    return np.array([parse_number(text) for text in cell.split()])


def _people_columns(
    answers: Answers, question: Question, items: Sequence[int]
) -> dict[str, np.ndarray]:
    """Return a column of answers for each person."""
    start = WORDS if question.words_of else PERSON
    answers_PU = answers.given(question.name, items)
    return {f"{start}{number}": person_U for number, person_U in enumerate(answers_PU, start=1)}


def _summed(sums: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{SUM}{name}": sums_U for name, sums_U in sums.items()}


def _beside_automatic(
    people: Sequence[np.ndarray], automatic_U: np.ndarray, weights_RU: np.ndarray
) -> dict[str, np.ndarray]:
    """Return how often people answer as the automatic column, and their mean kappa with it."""
    answered = [(person_U != MISSING) & (automatic_U != MISSING) for person_U in people]
    agreed_U = np.sum(
        [a & (p == automatic_U) for a, p in zip(answered, people, strict=True)], axis=0
    )
    annotations_R = weights_RU @ np.sum(answered, axis=0)
    results = {
        "agreement": ratio(weights_RU @ agreed_U, annotations_R),
        "annotations": annotations_R,
    }
    # Against a column with only one answer kappa is 0 for any answers of people.
    if len({answer for answer in automatic_U if answer != MISSING}) < 2:
        return results
    kappas = np.array([cohen_kappa(p, automatic_U, weights_RU) for p in people])
    # A bootstrap draw may leave a person only one answer, and so no kappa: that person is left
    # out of this draw's mean.
    defined_PR = ~np.isnan(kappas)
    return results | {"kappa": ratio(np.where(defined_PR, kappas, 0).sum(0), defined_PR.sum(0))}


def _ratios(sums_R: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return results from sums over items: of relevance, of Table 10, or of Table 5."""
    annotations_R = sums_R["annotations"]
    results = {"annotations": annotations_R}
    # Each kind of row is known by a sum that only it has.
    if "correct" in sums_R:
        errors = {name: sums_R[name] for name in ("alignment_errors", "gender_errors", "correct")}
        return {"agreement": ratio(sums_R["correct"], annotations_R)} | errors | results
    if "nonzero" in sums_R:
        shares = {
            name: ratio(sums_R[name], annotations_R)
            for name in ("naive", "max_weight", "nonzero", "weight")
        }
        # Of mentions that look anywhere: a row without weight has no words to spread it over.
        attended = ratio(sums_R["attended"], sums_R["looking"])
        spread = ratio(sums_R["spread"], sums_R["spread_asked"])
        # Whether it finds the antecedent at all is what a heatmap is summed up by.
        return (
            {"agreement": shares["nonzero"]}
            | shares
            | {"attended": attended, "spread": spread}
            | results
        )
    return {name: ratio(sums_R[name], annotations_R) for name in SUMS} | results
