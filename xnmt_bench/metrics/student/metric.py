"""The student as a metric: its rows, its results, and the notes under its table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from xnmt_bench.corpora.languages import require_tokenizers, tokenizer_name, tokenizer_signature
from xnmt_bench.errors import XnmtError
from xnmt_bench.measuring.alike import settings_of
from xnmt_bench.measuring.measurement import (
    TOKENIZER,
    Evidence,
    PlannedRow,
    ScoredRow,
)
from xnmt_bench.measuring.metric import Column, Further, Key, SumMetric, count, digits, ratio
from xnmt_bench.measuring.sacre import BOUNDS, scores, signatures, statistics
from xnmt_bench.measuring.units import Bounds, Units
from xnmt_bench.metrics.student.guided import Operator
from xnmt_bench.metrics.student.stages import (
    SCENARIOS,
    Guide,
    MapOf,
    StudentOptions,
    Students,
    read_outputs,
)
from xnmt_bench.nmt.training_options import NMTTrainingOptions
from xnmt_bench.options import Count, Few, Positive, Rate, Share, Size
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.outputs import Outputs
from xnmt_bench.pipeline.texts import name_sentences
from xnmt_bench.store import Stage

two_digits = "{:.2f}".format
WITHOUT = "no map"  # the row of the student without maps
CODED = "code"  # the explainer that hides labels in its choice of words


class Student(SumMetric):
    """How well a small Transformer translates whose attention follows an explainer's relevance.

    A unit is a sentence; its columns are sacrebleu's statistics and the log-likelihood of the words
    that the test map explains.

    Args:
        operators: how a map changes the student's attention; a student and a row for each.
        maps: whose words the test maps explain; a row for each.
        controls: further students, without a map and with that of another sentence.
        layers: of the student, on each side.
        heads: of each attention.
        dimension: of embeddings and states.
        feed_forward: inner dimension of the feed-forward blocks.
        dropout: share of activations dropped in training.
        batch_tokens: rows times longest pair of a batch.
        learning_rate: Adam's rate at the end of the warm-up.
        warmup_steps: steps of the linear climb.
        label_smoothing: probability spread over the vocabulary.
        max_epochs: at most this many.
        patience: epochs without a better loss on the held-out sentences.
        validation_share: share of the training sentences that is held out, the last ones.
        beam: hypotheses that a student keeps when it translates.
    """

    of_words = False
    name = "student"
    setting_options = ()
    needs = "training sentences"
    reads_relevance = True
    title = "Student: translations of a model whose attention follows the explanation"
    note = (
        "A small Transformer learns the references of the training sentences. Its attention to the "
        "source is changed by the explainer's map, relevance of source words as shares of each "
        "step, in training and at the test (Nourbakhsh et al. 2026). BLEU and chrF of its "
        "translations against the references; PPL of the words that the map explains, where it "
        "reads them. A map of the reference is made with the reference in hand, and can give its "
        "words away. With 95 % bootstrap intervals over sentences."
    )
    keys = (
        Key("explainer", "explainer"),
        Key("operator", "operator", "operator: {}"),
        Key("map", "map of the", "maps of the {}"),
        Key("seed", "seed"),
    )
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        **BOUNDS,
        "log_likelihood": Bounds(high=0),
        "steps": Bounds(1),
    }
    columns = (
        Column.higher("bleu", "BLEU", two_digits).means(
            "overlap of n-grams of the student's translations with the references"
        ),
        Column.higher("chrf", "chrF", two_digits).means(
            "overlap of character n-grams with the references"
        ),
        Column.lower("ppl", "PPL", digits, log=True).means(
            "perplexity of the words that the map explains, under teacher forcing"
        ),
        Column("steps", "steps", count, shown=False),
    )

    def __init__(
        self,
        operators: Annotated[Sequence[Operator], Field(min_length=1)] = (
            "add",
            "multiply",
            "average",
            "replace",
        ),
        maps: Annotated[Sequence[MapOf], Field(min_length=1)] = ("reference", "translation"),
        controls: Sequence[Literal["none", "exchanged"]] = ("none", "exchanged"),
        layers: Few = 2,
        heads: Few = 4,
        dimension: Size = 128,
        feed_forward: Size = 512,
        dropout: Rate = 0.1,
        batch_tokens: Count = 2048,
        learning_rate: Positive = 1e-3,
        warmup_steps: Count = 400,
        label_smoothing: Rate = 0.1,
        max_epochs: Count = 30,
        patience: Count = 3,
        validation_share: Share = 0.05,
        beam: Few = 4,
    ) -> None:
        # Before anything runs, and not where a student is built.
        if dimension % heads:
            problem = f"should divide the dimension, {dimension}"
            raise XnmtError(f"metric.student.heads={heads}: {problem}")
        # Each once, however often it is given.
        self.operators, self.maps = tuple(dict.fromkeys(operators)), tuple(dict.fromkeys(maps))
        self.controls, self.beam = tuple(dict.fromkeys(controls)), beam
        sizes = {
            "layers": layers,
            "heads": heads,
            "dimension": dimension,
            "feed_forward": feed_forward,
            "dropout": dropout,
        }
        training: dict[str, Any] = {
            "batch_tokens": batch_tokens,
            "learning_rate": learning_rate,
            "warmup_steps": warmup_steps,
            "label_smoothing": label_smoothing,
            "max_epochs": max_epochs,
            "patience": patience,
        }
        self.options = StudentOptions(sizes, NMTTrainingOptions(**training), validation_share)
        self._settings = sizes | training | {"validation_share": validation_share}

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield the rows of the explainer's students, and of the controls."""
        require_tokenizers(job.corpus.target_language)
        # One object for all rows: their students share sentences and artefacts.
        students, seed = Students(job, self.options, self.beam), job.settings.seed
        explainer = job.explained_identity()["explainer"]
        controls = {"none": WITHOUT, "exchanged": f"{explainer} of another sentence"}
        for operator, map_of in product(self.operators, self.maps):
            keys: dict[str, Any] = {"operator": operator, "map": map_of, "seed": seed}
            make = partial(self._evidence, job, students, operator, "own", map_of)
            stages = partial(self._stages, students, operator, "own", map_of)
            yield self.plan(job, make, stages, explained=True, **keys)
            for guide in self.controls:
                make = partial(self._evidence, job, students, operator, guide, map_of)
                # Blind: a control shows what a gain is worth, and stands apart from ranked rows.
                row_name = controls[guide]
                stages = partial(self._stages, students, operator, guide, map_of)
                blind = partial(Further, facts={"blind": True})
                yield self.plan(job, make, stages, blind, explainer=row_name, **keys)

    def _stages(
        self, students: Students, operator: Operator, guide: Guide, map_of: MapOf
    ) -> list[Stage]:
        return [students.outputs(operator, guide, map_of)]

    def _evidence(
        self, job: Job, students: Students, operator: Operator, guide: Guide, map_of: MapOf
    ) -> Evidence:
        language = job.corpus.target_language
        tokenizer = tokenizer_name(language)
        trained = students.trained(operator, guide)
        outputs = students.outputs(operator, guide, map_of)
        columns = read_outputs(outputs)
        number_U, split = columns["sentence"], job.texts.split(EVALUATED)
        by_number = dict(zip(split.number.tolist(), job.texts.sentences(EVALUATED), strict=True))
        translations = Outputs(
            job.corpus,
            job.texts.test_set,
            number_U,
            [by_number[number] for number in number_U.tolist()],
            columns["text"],
            outputs.fingerprint,
        )
        _, hypotheses, references = translations.raw()
        sums = {
            name: values
            for name, values in statistics(hypotheses, references, tokenizer).items()
            # No column of this metric needs TER's statistics.
            if not name.startswith("ter")
        }
        # Sums and not perplexities, since a mean of perplexities weighs short sentences too much.
        sums |= {name: columns[name] for name in ("log_likelihood", "steps")}
        settings = {
            "test sentences": name_sentences(number_U),
            "training sentences": students.sentences,
            "seed of the draw": job.settings.rules.seed,
            "training precision": job.options.precision,
            "beam": self.beam,
            TOKENIZER: tokenizer_signature(language),
            **job.learning_settings,
            # What these maps explain is decided by the search of the system that is explained.
            **({"searched": job.search_settings} if map_of == "translation" else {}),
            **{f"student {name}": value for name, value in self._settings.items()},
        }
        facts: dict[str, Any] = {"capped": trained.facts["capped"]}
        if doubts := job.decisions().describe_left_out(EVALUATED, SCENARIOS[map_of]):
            facts["doubts"] = doubts
        made_by = {"student": trained.fingerprint, "outputs": outputs.fingerprint}
        made_by |= {n: text for n, text in signatures(tokenizer).items() if n != "ter"}
        units = Units(translations.test_set, number_U, sums)
        return Evidence(units, made_by, facts, settings=settings)

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return corpus scores, and perplexity."""
        # By id and not by sentence, as perplexity is defined.
        log_p_R = ratio(sums_R["log_likelihood"], sums_R["steps"])
        return {**scores(sums_R), "ppl": np.exp(-log_p_R), "steps": sums_R["steps"]}

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return first whether maps help that explain nothing."""
        rows = {_case(row): row for row in scored if row.measurement.ok}
        coded = {case: row for case, row in rows.items() if case[0] == CODED}
        pairs = [
            (row, rows[plain])
            for (_, *shared), row in coded.items()
            if (plain := (WITHOUT, *shared)) in rows
        ]
        # Where there is nothing to compare, the note says what to measure.
        return [_compare_with_code(*pair) for pair in pairs] or [
            "A map can give words away without explaining them. Measure explainer=code and a "
            "student without a map too: where the PPL of code is below that of no map, the gain "
            "of an explainer shows nothing."
        ]


def _case(row: ScoredRow) -> tuple[str, ...]:
    """Return the explainer, and behind it all that a row shares with those that it compares to."""
    columns = ("corpus", "lang_pair", "nmt", "operator", "map", "seed")
    # Students of other sizes or sentences are never compared.
    settings = json.dumps(settings_of(row), sort_keys=True, default=str)
    values = (str(row.row[column]) for column in columns)
    return (row.row["explainer"], *values, row.measurement.model, settings)


def _compare_with_code(coded: ScoredRow, plain: ScoredRow) -> str:
    """Return whether a map that hides the label helps a student, in a sentence or two."""
    row, ppl = coded.row, [digits(case.values["ppl"]) for case in (coded, plain)]
    text = (
        f"{row['corpus']} {row['nmt']}, {row['operator']}, maps of the {row['map']}, seed "
        f"{row['seed']}: code, which explains nothing and hides the label in its map, has PPL "
        f"{ppl[0]}, and a student without a map {ppl[1]}."
    )
    # Overlapping intervals show no difference, so the note draws no conclusion.
    if coded.values["ppl_high"] >= plain.values["ppl_low"]:
        return text
    return (
        f"{text} So a map can help without showing what the system looked at, and this metric does "
        "not tell the two apart."
    )
