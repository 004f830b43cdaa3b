"""Confidence in translations from their own weights, as a metric (Rikters 2018)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from xnmt_bench.corpora.formats.annotated import AnnotatedCorpus
from xnmt_bench.corpora.languages import (
    BLANKS,
    UNKNOWN,
    require_tokenizers,
    tokenizer_name,
    tokenizer_signature,
)
from xnmt_bench.corpora.sentence import SIDES, Corpus, languages
from xnmt_bench.corpora.text import decode_line, lines
from xnmt_bench.dumps import Dump
from xnmt_bench.dumps.base import ROUNDING
from xnmt_bench.dumps.json_lines import JsonLines, written
from xnmt_bench.errors import DataError, StoreError
from xnmt_bench.measuring.listing import Listing, names
from xnmt_bench.measuring.measurement import (
    TOKENIZER,
    Evidence,
    Measurement,
    PlannedRow,
    ScoredRow,
)
from xnmt_bench.measuring.metric import (
    OFF_WORDS,
    Column,
    Further,
    Key,
    Metric,
    TableRow,
    hundredths,
    ratio,
)
from xnmt_bench.measuring.sacre import warn_of_blanks
from xnmt_bench.measuring.units import Bounds, Units
from xnmt_bench.metrics.confidence.language import available
from xnmt_bench.metrics.confidence.listed_translations import caption, listing
from xnmt_bench.metrics.confidence.lists import Thresholds, listed, suspected
from xnmt_bench.metrics.confidence.scores import Definition
from xnmt_bench.metrics.confidence.sentences import (
    PERCENTAGES,
    WORDS,
    Eos,
    Reading,
    Unit,
    numbers_of,
    rows,
    sentence_quality,
)
from xnmt_bench.options import Natural
from xnmt_bench.parquet import read_table, write_table
from xnmt_bench.pipeline.inputs import ANNOTATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.weighed_sentences import WeighedSentences, require_words, skip_unreadable
from xnmt_bench.store import Stage, fingerprint
from xnmt_bench.words.weighed import Weighed, joined

log = logging.getLogger(__name__)
# Scores that are shares of a sentence, or say whether something holds.
SHARES = (
    *("overlap", "attention_to_eos", "ignored_source", "source_contribution", "top_source"),
    *("digits_differ", "wrong_language", "source_language", "in_training", "wass_to_uniform"),
    OFF_WORDS.name,
)
UNLIKE = (
    "Some rows have weights of EOS and others do not, so they cannot be compared; set "
    "metric.confidence.eos=drop"
)
IN_CONTEXT = (
    "For systems that read a context, weights, attention too, are shares of the current sentence's "
    "words only."
)
SENTENCES, WEIGHTS = "sentences.parquet", "weights.jsonl.gz"
one_digit, three_digits = "{:.1f}".format, "{:.3f}".format


class Confidence(Metric):
    """Confidence in each translation by its weights, and by detectors.

    A unit is a sentence; its columns are its scores.

    Args:
        definition: the paper's, or the released tool's (see `scores.confidence`).
        eos: keep the row and column of EOS, where there are any, or drop them.
        unit: what rows and columns are: the system's pieces, or words.
        show: the number of a sentence whose matrix and scores are printed.
        lists: thresholds of the lists of suspects.
    """

    name = "confidence"
    papers = ("rikters2018",)
    setting_options = ()
    inputs = ("relevance", "outputs")
    title = "Confidence"
    note = (
        "Means over sentences of Rikters's (2018) confidence and its parts, as percentages, with "
        "95 % bootstrap intervals: 100 is at best. CDP: each source token gets attention of 1. "
        "APout, APin: a target token attends to few source tokens, and is attended by few. Without "
        "overlap: not penalised for copying. The number says how sure the weights look, not how "
        "good a translation is."
    )
    keys = (
        Key("definition", "definition", "definition: {}", usual="paper"),
        Key("eos", "EOS", "EOS: {}", usual="keep"),
        Key("unit", "unit", "in {}", usual="pieces"),
        Key("explainer", "explainer"),
        Key("seed", "seed"),
    )
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        "label_*": Bounds(0, 1),
        **{name: Bounds(0, 1, nan=True) for name in SHARES},
        **{f"{name}_pct": Bounds(0, 100, nan=True) for name in PERCENTAGES},
        "bleu": Bounds(0, 100),
        "chrf": Bounds(0, 100),
        "ter": Bounds(0),
        # Other tools print log-probabilities rounded.
        "log_probability": Bounds(high=ROUNDING, nan=True),
        "source_words": Bounds(0),
        "target_words": Bounds(0),
        # A detector has no number of a sentence that it cannot judge.
        "*": Bounds(nan=True),
    }
    columns = (
        Column("confidence_pct", "confidence %", one_digit, interval=True).means(
            "CDP, APout and APin in one number, as a percentage"
        ),
        Column("without_overlap_pct", "without overlap %", one_digit, interval=True).means(
            "the same for all translations, copies of the source among them"
        ),
        Column("cdp_pct", "CDP %", one_digit).means(
            "coverage deviation penalty: how far each source word's weight is from 1"
        ),
        Column("ap_out_pct", "APout %", one_digit).means(
            "how widely a target word spreads its weight over the source"
        ),
        Column("ap_in_pct", "APin %", one_digit).means(
            "how widely a source word spreads its weight over the target"
        ),
        Column("overlap", "copied %", hundredths).means(
            "characters of the longest run that the source has too, of the translation's"
        ),
        Column("attention_to_eos", "to EOS %", hundredths).means(
            "share of all weight that is on the source's end of sentence"
        ),
        Column("ignored_source", "ignored %", hundredths).means(
            "share of the source words that get next to no weight"
        ),
        Column("log_probability", "log P", three_digits).means(
            "mean log-probability of the translation's pieces"
        ),
        Column("source_contribution", "source share %", hundredths).means(
            "share of the relevance that is on the source, and not on the prefix"
        ),
        Column("chrf", "chrF", one_digit).means("chrF of the translations against the references"),
        OFF_WORDS,
        *(
            Column(name, name.replace("_", " "), three_digits, shown=False)
            for name in (
                *("cdp", "ap_out", "ap_in", "without_overlap", "confidence", "overlap_penalty"),
                *("wass_to_uniform", "wass_to_data", "top_source", "top_four_gram"),
                *("length_ratio", "usual_length_ratio", "digits_differ", "wrong_language"),
                *("source_language", "strange_symbols", "in_training"),
                *("source_words", "target_words", "bleu", "ter"),
            )
        ),
    )

    def __init__(
        self,
        definition: Definition = "paper",
        eos: Eos = "keep",
        unit: Unit = "pieces",
        show: Natural | None = None,
        lists: Thresholds | None = None,
    ) -> None:
        self.definition, self.eos, self.unit, self.show = definition, eos, unit, show
        # From a configuration it comes as plain values.
        self.thresholds = Thresholds.model_validate(lists or {})

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield a dump; or the system's own translations, or a file's, under its explainer."""
        keys: dict[str, Any] = {"definition": self.definition, "eos": self.eos, "unit": self.unit}
        input_file = job.input_file("relevance")
        if input_file is not None and (dump := input_file.dump) is not None:
            pair = [getattr(job.settings.relevance, f"{side}_language") for side in SIDES]
            require_tokenizers(*pair)
            dump_keys = {"corpus": f"{input_file.format} dump", "nmt": input_file.name}
            dump_keys["explainer"] = dump.method or ("attention" if dump.attention else "relevance")
            dump_keys["lang_pair"] = "-".join(pair) if all(pair) else ""
            # A dump has no seed, and a name in the system's place.
            identity = dict.fromkeys(self.identity, "") | dump_keys | keys
            make = partial(self._of_dump, job, dump, pair)
            yield PlannedRow.without_system(identity, make, {"relevance": input_file.fingerprint})
            return
        require_tokenizers(*languages(job.corpus))
        further: Callable[[], Further] | None = None
        if outputs := job.input_file("outputs"):  # of another system, which ours is made to say
            # The row is named by both: whose translations, and whose weights.
            keys["explainer"] = f"{job.explained.name} of {job.system.name}"
            if outputs.format == ANNOTATED:
                keys["corpus"] = outputs.path.name
            # Translations of a file have no system of their own, and ours has a part in the row.
            further = partial(_explained_by, job)
        stages = partial(self._stages, job)
        yield self.plan(job, partial(self._of_job, job), stages, further, explained=True, **keys)

    def _stages(self, job: Job) -> list[Stage | None]:
        return [_weighed(job)[0].source]

    def _of_dump(self, job: Job, dump: Dump[Any], pair: Sequence[str | None]) -> Evidence:
        weighed_sentences = job.weighed_sentences()
        reading = self._reading(weighed_sentences.shares, pair, dump.unread_eos)
        tokenizer = tokenizer_name(reading.languages[1])
        if tokenizer == BLANKS:  # a dump holds words between blanks
            tokenizer = "none"
        references, reference = None, job.settings.relevance.reference
        if reference is not None:
            texts = enumerate(lines(Path(reference)), start=1)
            references = [joined(decode_line(x, Path(reference), n).split()) for n, x in texts]
            warn_of_blanks(references, tokenizer, "relevance.target_language")
        quality = partial(sentence_quality, tokenizer)
        artefact = self._made(job, weighed_sentences, reading, references, quality)
        sources = read_table(artefact.path / SENTENCES, ["source"])["source"].to_pylist()
        # Two dumps of the same sources are paired, by systems or by tools.
        return self._evidence(artefact, reading, f"dump {fingerprint({'sources': sources})}")

    def _of_job(self, job: Job) -> Evidence:
        input_file = job.input_file("outputs")
        weighed_sentences, corpus, test_set, labels = _weighed(job)
        _, target = languages(corpus)
        references = [corpus.raw(s.target, target) for s in corpus.sentences("test")]
        tokenizer = tokenizer_name(target)
        warn_of_blanks(references, tokenizer, "the corpus's target language")

        # Raw texts: chrF and BLEU of tokenised ones would differ from those of `metric=[quality]`.
        def quality(text: str, reference: str) -> dict[str, float]:
            return sentence_quality(tokenizer, corpus.raw(text, target), reference)

        reading = self._reading(weighed_sentences.shares, languages(corpus))
        # Translations of a file are another system's, whose training data are unknown.
        train = None if input_file is not None else job.system.learnt_texts.corpus
        artefact = self._made(job, weighed_sentences, reading, references, quality, train)
        evidence = self._evidence(artefact, reading, test_set, labels)
        if (off_words := weighed_sentences.off_words()) is not None:
            units = evidence.units
            means_U = np.array([off_words[number].mean() for number in units.number_U.tolist()])
            units = replace(units, columns={**units.columns, OFF_WORDS.name: means_U})
            evidence = replace(evidence, units=units)
        facts = evidence.facts | {"generated": corpus.generated}
        settings = evidence.settings
        if input_file is None or input_file.format != ANNOTATED:  # it is of the configured test set
            settings |= {"test sentences": job.explained_sentences} | job.search_settings
        facts["in_context"] = job.system.context.has_sentences
        if job.settings.rules.test_sentences is None:  # what has too many subwords has no weights
            facts["left_out"] = len(references) - len(evidence.units)
        return replace(evidence, facts=facts, settings=settings)

    def _reading(
        self, shares: bool, pair: Sequence[str | None], unread_eos: bool = False
    ) -> Reading:
        source, target = (name or UNKNOWN for name in pair)
        return Reading(self.definition, self.eos, self.unit, shares, (source, target), unread_eos)

    def _made(
        self,
        job: Job,
        weighed_sentences: WeighedSentences,
        reading: Reading,
        references: list[str] | None,
        quality: Callable[[str, str], Mapping[str, float]],
        trained_on: Corpus | None = None,
    ) -> Stage:
        """Return the scores of every sentence, and the sentences with their weights."""

        def work(folder: Path) -> dict[str, Any]:
            # Filled while the sentences stream; read once they are written.
            problems: list[str] = []
            ends: set[str] = set()
            # The first goes into the error if nothing can be read, their number under the table.
            sentences: Iterable[Weighed | DataError] = weighed_sentences
            if reading.unit == "words":
                sentences = require_words(sentences)
            good = _ends_noted(skip_unreadable(sentences, problems), ends)
            kept = written(good, folder / WEIGHTS, weighed_sentences.shares)
            train = None if trained_on is None else trained_on.sentences("train")
            columns = rows(kept, reading, references, quality, train)
            if not columns:
                input_file = job.input_file("relevance")
                where = input_file.path if input_file else "the explainer's weights"
                why = f": {problems[0]}" if problems else ""
                raise DataError(where, None, f"none of its sentences can be read{why}")
            write_table(pa.table(columns), folder / SENTENCES)
            unread = reading.unread_eos
            return {"problems": problems, "eos": sorted(ends), "unread_eos": unread}

        return job.store.stage(
            "confidence",
            work,
            version=6,
            cheap=True,
            weights=weighed_sentences,
            references=references and fingerprint({"texts": references}),
            language=available(),  # with the detector installed, other columns are filled
            reading=vars(reading),
            tokenizer=tokenizer_signature(*reading.languages),
            trained_on=None if trained_on is None else trained_on.recipe("train"),
        )

    def _evidence(
        self,
        artefact: Stage,
        reading: Reading,
        test_set: str,
        labels: Sequence[Mapping[str, bool]] | None = None,
    ) -> Evidence:
        """Return the scores as units, with annotated `labels` by sentence."""
        path = artefact.path / SENTENCES
        columns = read_table(path).to_pydict()
        numbers = np.asarray(columns["sentence"], dtype=np.int64)
        values = numbers_of(columns)
        for name in labels[0] if labels else ():
            label_U = [labels[n][name] for n in numbers.tolist()]  # type: ignore[index]
            # As units, so that `detects` resamples labels and scores of a sentence together.
            values[f"label_{name}"] = np.asarray(label_U, dtype=np.float64)
        units = Units(test_set, numbers, values)
        facts = {name: artefact.facts[name] for name in ("eos", "unread_eos")}
        facts |= {"left_out": len(artefact.facts["problems"])}
        settings = {TOKENIZER: tokenizer_signature(*reading.languages)}
        files = {"sentences": path, "weights": artefact.path / WEIGHTS}
        return Evidence(units, {"weights": artefact.fingerprint}, facts, files, settings)

    def score(self, units: Units, weights_RU: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return means over the sentences of which there is a number."""
        results = {}
        for name, values_U in units.columns.items():
            there_U = ~np.isnan(values_U)
            if there_U.any():
                # Sentences without a number weigh nothing in sum and count.
                sums_R = weights_RU @ np.nan_to_num(values_U)
                results[name] = ratio(sums_R, weights_RU @ there_U.astype(np.float64))
        return results

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return how many sentences were left out, and which rows do not compare."""
        measured = [s.measurement for s in scored if s.measurement.ok]
        ends = {
            end for m in measured if m.identity["eos"] == "keep" for end in m.facts.of_metric["eos"]
        }
        notes = [f"{UNLIKE} ({'; '.join(sorted(ends))})."] if len(ends) > 1 else []
        counts = {
            f"{m.identity['nmt']}: {m.facts.of_metric['left_out']} sentences cannot be read or are "
            "too long, and are left out; the log says why."
            for m in measured
            if m.facts.of_metric["left_out"]
        }
        # Weights on a context are dropped here, which changes every score of such a system.
        if any(m.facts.of_metric.get("in_context") for m in measured):
            notes.append(IN_CONTEXT)
        return [*notes, *sorted(counts), *self._suspects(measured)]

    def _suspects(self, measurements: Sequence[Measurement]) -> Iterator[str]:
        """Yield how many sentences each list has."""
        for m in measurements:
            lists = listed(m.units().columns, self.thresholds)
            counts = [f"{name} {len(places)}" for name, (_, places) in lists.items() if len(places)]
            if counts:
                row_name = f"{m.identity['nmt']}, {m.identity['explainer']}"
                yield f"Suspects ({self.name}_lists.csv) of {row_name}: {', '.join(counts)}."

    def details(self, measurements: Sequence[Measurement]) -> Iterator[tuple[str, list[TableRow]]]:
        """Yield a row for each sentence of every measurement."""
        sentence_rows: list[TableRow] = []
        for m, path in _files(measurements, "sentences"):
            table = read_table(path)
            # Lists with a value a token have no place in a CSV of sentences.
            kept = [name for name in table.column_names if not name.endswith(WORDS)]
            sentence_rows += [m.identity | row for row in table.select(kept).to_pylist()]
        if sentence_rows:
            yield f"{self.name}_sentences", sentence_rows
        suspects: list[TableRow] = []
        for m, path in _files([m for m in measurements if m.ok], "sentences"):
            sentences = read_table(path).to_pylist()
            suspects += suspected(m.identity, sentences, m.units().columns, self.thresholds)
        if suspects:
            yield f"{self.name}_lists", suspects

    def listings(self, measurements: Sequence[Measurement]) -> Iterator[Listing]:
        """Yield the translations of every measurement."""
        row_names = names(measurements, self.identity)
        for name, m in zip(row_names, measurements, strict=True):
            for _, sentences in _files([m], "sentences"):
                for _, weights in _files([m], "weights"):
                    columns = read_table(sentences).to_pydict()
                    yield listing(name, columns, weights, _reading_of(m), self.thresholds)

    def shows(self, measurements: Sequence[Measurement]) -> Iterator[tuple[str, Weighed]]:
        """Yield the sentence numbered `show` of every measurement, under its texts and scores."""
        if self.show is None:
            return
        readable = [*_files([m for m, _ in _files(measurements, "sentences")], "weights")]
        row_names = names([m for m, _ in readable], self.identity)
        for (m, path), name in zip(readable, row_names, strict=True):
            dump = JsonLines(path)
            # The file streams; no index is kept for one sentence.
            readable_sentences = (w for w in dump if isinstance(w, Weighed))
            sentence = next((w for w in readable_sentences if w.number == self.show), None)
            if sentence is None:
                log.warning("%s: no sentence %d", m.identity["nmt"], self.show)
                continue
            table = read_table(m.file("sentences")).to_pylist()
            row = next(row for row in table if row["sentence"] == self.show)
            scored = replace(_reading_of(m), shares=dump.attention).read(sentence)
            of_tokens = "ap_in" if m.identity["definition"] == "softalignments" else "ap_out"
            yield caption(name, row, scored.target.pieces, of_tokens), scored


def _ends_noted(sentences: Iterable[Weighed], ends: set[str]) -> Iterator[Weighed]:
    """Pass sentences on and note which sides have EOS among their tokens."""
    for sentence in sentences:
        sides = [name for name in SIDES if getattr(sentence, name).eos]
        ends.add(" and ".join(sides) or "neither side")
        yield sentence


def _reading_of(measurement: Measurement) -> Reading:
    """Return how a row's weights were read; its file holds shares already."""
    definition, eos, unit = (measurement.identity[key] for key in ("definition", "eos", "unit"))
    unread = measurement.facts.of_metric["unread_eos"]
    return Reading(definition, eos, unit, shares=True, languages=("", ""), unread_eos=unread)


def _files(measurements: Sequence[Measurement], name: str) -> Iterator[tuple[Measurement, Path]]:
    """Yield each measurement with a file of its own that is there and whole."""
    for m in (m for m in measurements if name in m.files):
        try:
            # A damaged file costs its own sentences, and not the page of all other rows.
            yield m, m.file(name)
        except StoreError as error:
            log.warning("%s", error)


def _weighed(job: Job) -> tuple[WeighedSentences, Corpus, str, Sequence[Mapping[str, bool]] | None]:
    """Return weighed translations of a job, their corpus, what it counts in, and people's labels.

    The translations are the system's own, or a file's; labels are None where the file lacks them.
    """
    input_file = job.input_file("outputs")
    if input_file is None:
        return job.weighed_sentences(), job.corpus, job.texts.test_set, None
    if input_file.format != ANNOTATED:
        texts = job.outputs().texts
        return job.weighed_sentences(targets=texts), job.corpus, job.texts.test_set, None
    corpus = AnnotatedCorpus(input_file.path, job.corpus)
    weighed_sentences = job.weighed_sentences(corpus=corpus, targets=corpus.translations())
    labels = [row.labels for row in corpus.rows]
    # Annotated translations are a test set of their own.
    return weighed_sentences, corpus, f"annotated {input_file.fingerprint}", labels


def _explained_by(job: Job) -> Further:
    """Return that our system says the translations of another one."""
    return Further(content={"system": job.system.fingerprint})
