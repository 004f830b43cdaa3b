"""Alignment error rate as a metric: of explainers, of baselines, of any tool's alignment file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from xnmt_bench.corpora.formats.alignment import Alignment, AlignmentFile, Form, counts_from_one
from xnmt_bench.corpora.gold import read_pairs
from xnmt_bench.corpora.sentence import Links
from xnmt_bench.corpora.text import present
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import XnmtError
from xnmt_bench.measuring.measurement import (
    REVERSE,
    Evidence,
    PlannedRow,
    ScoredRow,
)
from xnmt_bench.measuring.metric import (
    OFF_WORDS,
    Column,
    Key,
    SumMetric,
    count,
    hundredths,
    percent,
    ratio,
)
from xnmt_bench.measuring.units import Bounds, Units
from xnmt_bench.metrics.aer.alignments import BOTH, FORWARD, STEPS, Alignments
from xnmt_bench.metrics.aer.counts import (
    BOUNDS,
    about_reading,
    alignment_scores,
    count_links,
    line,
    skip_unaligned,
)
from xnmt_bench.metrics.aer.symmetrise import METHODS
from xnmt_bench.options import Text
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.texts import name_sentences
from xnmt_bench.registry import unknown
from xnmt_bench.store import file_hash

SKIP = "skip"
# What was done with words that AER cannot judge, by the value of the row's column.
UNJUDGED = {
    SKIP: "their links by relevance or the diagonal are left out",
    "count": "unaligned=count takes their links for wrong",
    "": "an aligner's links of them count as wrong",
}


class AER(SumMetric):
    """Alignment error rate of each target word's best source word (Li et al. 2020, section 4.4).

    A unit is a sentence pair; its sums are counts of links.

    Args:
        unaligned: words without any gold link, where each word is given a link (by relevance or by
            the diagonal): `skip` leaves their links out, as the paper does; `count` takes them for
            wrong. They are target words; of `backward` links, which each source word has one of,
            source words. Aligners may leave a word without a link, so theirs are always counted.
        reverse: a trained system of the other direction; adds it and its symmetrisations.
        gold: an alignment file, to score `hypothesis` with no model.
        hypothesis: an alignment file of any tool.
        backward: the hypothesis of the other direction, target words first, to be symmetrised with.
        symmetrisation: how.
        gold_base: what the gold's words are counted from.
        gold_form: `pharaoh` (i-j sure, ipj possible) or `naacl` (a link a line).
        gold_reverse: target words stand first.
        gold_all_sure: take possible links for sure ones.
        gold_ignore_possible: leave possible links out.
        hypothesis_base: what the hypothesis's words are counted from.
        hypothesis_form: as the gold's.
        hypothesis_reverse: as the gold's.
        text: two files or one of both sides, to catch links beyond their sentence.
    """

    name = "aer"
    papers = ("och2003", "li2020")
    setting_options = ()
    inputs = ("relevance",)
    needs = "gold word alignment, or two link files (metric.aer.gold, metric.aer.hypothesis)"
    title = "Alignment error rate"
    note = (
        "AER against the gold alignment in %, with its 95 % bootstrap interval over sentence "
        "pairs; lower is closer to human annotators, which says nothing of the model."
    )
    keys = (
        Key("alignment", "alignment", "{} links"),
        Key("unaligned", "unaligned words", "unaligned words: {}", usual=SKIP),
        Key("explainer", "explainer"),
        Key("seed", "seed"),
    )
    unit_bounds = BOUNDS | {OFF_WORDS.name: Bounds(0, 1, of=STEPS)}
    columns = (
        Column.lower("aer", "AER %", hundredths).means(
            "alignment error rate: links of the explanation against links of people"
        ),
        Column("precision", "precision", percent).means(
            "share of the explanation's links that people accept"
        ),
        Column("recall", "recall", percent).means(
            "share of people's sure links that the explanation finds"
        ),
        Column("links", "links", count).means("links that the explanation makes"),
        Column("no_link", "no gold link", percent, shown=False),
        Column("no_sure_link", "no sure link", percent, shown=False),
        OFF_WORDS,
    )

    def __init__(
        self,
        unaligned: Literal["skip", "count"] = "skip",
        reverse: Text | None = None,
        gold: Text | None = None,
        hypothesis: Text | None = None,
        backward: Text | None = None,
        symmetrisation: Text = "grow-diagonal-final",
        gold_base: Literal[0, 1] = 0,
        gold_form: Form = "pharaoh",
        gold_reverse: bool = False,
        gold_all_sure: bool = False,
        gold_ignore_possible: bool = False,
        hypothesis_base: Literal[0, 1] = 0,
        hypothesis_form: Form = "pharaoh",
        hypothesis_reverse: bool = False,
        text: Sequence[str] | None = None,
    ) -> None:
        # Only one of them would be ignored, and the model measured instead.
        if bool(gold) != bool(hypothesis):
            raise XnmtError("metric.aer.gold and metric.aer.hypothesis: give both, or neither")
        if symmetrisation not in METHODS:
            problem = unknown("symmetrisation", symmetrisation, METHODS)
            raise XnmtError(f"metric.aer.symmetrisation: {problem}")
        self.unaligned = unaligned
        self.gold, self.hypothesis, self.backward = gold, hypothesis, backward
        self.reverse, self.symmetrisation, self.text = reverse, symmetrisation, text
        self._gold_file = partial(
            AlignmentFile,
            base=gold_base,
            reverse=gold_reverse,
            all_sure=gold_all_sure,
            ignore_possible=gold_ignore_possible,
            form=gold_form,
        )
        self._hypothesis_file = partial(AlignmentFile, base=hypothesis_base, form=hypothesis_form)
        self._hypothesis_reverse = hypothesis_reverse

    def measured_from_files(self, job: Job) -> bool:
        """Return whether files hold everything; two alignment files need no model either."""
        return bool(self.gold) or job.input_file("relevance") is not None

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield the explainer's alignments and those that need no model; or only a file's."""
        if self.gold and self.hypothesis:
            method = self.symmetrisation if self.backward else FORWARD
            hypothesis = self._hypothesis_file(
                Path(self.hypothesis), reverse=self._hypothesis_reverse
            )
            names = {
                "corpus": self._gold_file(Path(self.gold)).label,
                "explainer": hypothesis.label,
            }
            blank = dict.fromkeys(self.identity, "")
            make = partial(self._of_files, job.settings.doubts.gold_shift)
            files = {"gold": self.gold, "hypothesis": self.hypothesis, "backward": self.backward}
            # By what they hold: another file of the same name is another row.
            content = {n: file_hash(present(Path(f)))[:16] for n, f in files.items() if f}
            yield PlannedRow.without_system(blank | names | {"alignment": method}, make, content)
            return
        alignments = Alignments(job, self.reverse)

        def counted(kind: str, method: str, unaligned: str) -> Evidence:
            [artefact] = alignments.stages(kind)
            units = Units.load(artefact.path / f"{method}.parquet")
            # Stored counts hold all links; what is skipped is decided when they are read.
            units = skip_unaligned(units) if unaligned == SKIP else units
            if kind == "explained" and method == FORWARD:
                units = replace(units, columns={**units.columns, **alignments.off_words})
            settings = {"test sentences": name_sentences(np.asarray(alignments.numbers))}
            if kind == "eflomal":  # which learns from it
                settings["training text"] = job.texts.training_text
            if method != FORWARD and kind == "explained":
                settings[REVERSE] = alignments.reverse_family[:6]
            facts, made_by = {"left_out": alignments.left_out}, {"links": artefact.fingerprint}
            return Evidence(units, made_by, facts, settings=settings)

        for method in BOTH if self.reverse else (FORWARD,):
            make = partial(counted, "explained", method, self.unaligned)
            stages = partial(alignments.stages, "explained")
            keys: dict[str, Any] = {"alignment": method, "unaligned": self.unaligned}
            yield self.plan(job, make, stages, explained=True, **keys)
        baselines: list[tuple[str, str, str]] = [("diagonal", FORWARD, self.unaligned)]
        # An extra with a compiled part; without it the table lacks one baseline, and nothing fails.
        if find_spec("eflomal"):
            # An aligner may leave words without a link, so `unaligned` has no value there.
            baselines += [("eflomal", method, "") for method in BOTH]
        for name, method, unaligned in baselines:
            make = partial(counted, name, method, unaligned)
            row: dict[str, Any] = {"nmt": "", "explainer": name, "alignment": method, "seed": ""}
            stages = partial(alignments.stages, name)
            yield self.plan(job, make, stages, of_system=False, unaligned=unaligned, **row)

    def _of_files(self, threshold: float | None) -> Evidence:
        """Return the counts of an alignment file of any tool against a gold file.

        Args:
            threshold: see `about_reading`; None for no doubt.

        Raises:
            DataError: a malformed file, with file and line.
        """
        lengths = None
        if self.text:
            pairs = read_pairs([Path(path) for path in self.text])
            # Lengths let a link beyond the end of a sentence be found, with its line.
            lengths = [(len(split_words(x)), len(split_words(y))) for x, y in pairs]
        gold_path, path = Path(str(self.gold)), Path(str(self.hypothesis))
        gold = self._gold_file(gold_path).read(lengths)

        def read(file: Path, reverse: bool) -> list[Links]:
            pairs = self._hypothesis_file(file, reverse=reverse).read(lengths, len(gold))
            return [pair.possible for pair in pairs]

        links, made_by = read(path, self._hypothesis_reverse), {"hypothesis": file_hash(path)[:16]}
        if self.backward:
            method = METHODS[self.symmetrisation]
            backward = read(Path(self.backward), True)
            links = [method(f, b) for f, b in zip(links, backward, strict=True)]
            made_by["backward"] = file_hash(Path(self.backward))[:16]
        digest = file_hash(gold_path)[:16]  # names the units, which pair files of the same gold
        targets = [target for _, target in lengths] if lengths else None
        units = count_links(f"{gold_path.name} {digest}", range(len(gold)), links, gold, targets)
        doubts = list(self._doubts(links, gold, threshold))
        return Evidence(units, {"gold": digest} | made_by, {"doubts": doubts} if doubts else {})

    def _doubts(
        self, links: Sequence[Links], gold: Sequence[Alignment], threshold: float | None
    ) -> Iterator[str]:
        """Yield doubts about how two files were read; see `about_reading`."""
        if threshold is None:
            return
        if doubt := about_reading(links, gold, threshold):
            yield doubt
        for name, base, file_links in (
            ("gold", self._gold_file.keywords["base"], [pair.possible for pair in gold]),
            ("hypothesis", self._hypothesis_file.keywords["base"], links),
        ):
            if base == 0 and counts_from_one(file_links):
                yield (
                    f"no {name} link has word 0: if the file counts words from 1, set "
                    f"metric.aer.{name}_base=1"
                )

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the results (R,) from the sums; see `counts.alignment_scores`."""
        results = alignment_scores(sums_R)
        if OFF_WORDS.name in sums_R:
            results[OFF_WORDS.name] = ratio(sums_R[OFF_WORDS.name], sums_R[STEPS])
        return results

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return notes on words that AER cannot judge, and a file's result in the field's form."""
        unjudged: dict[str, set[str]] = {}
        of_files = []
        for row in (row_scored.row for row_scored in scored if row_scored.measurement.ok):
            # Only rows of two files have neither.
            if not row["nmt"] and not row["lang_pair"]:
                of_files.append(f"{row['explainer']}: {line(row)}")
            if "no_link" in row:
                where = f"{row['corpus']} {row['lang_pair']}".strip()
                text = (
                    f"{where}: {percent(row['no_link'])} of the target words have no gold link, "
                    f"{percent(row['no_sure_link'])} no sure one. AER cannot judge the former, "
                    "fidelity can"
                )
                # One note for each corpus, however many rows it has.
                unjudged.setdefault(text, set()).add(row["unaligned"])
        counts = [
            f"{text}: {'; '.join(done for how, done in UNJUDGED.items() if how in hows)}."
            for text, hows in sorted(unjudged.items())
        ]
        lost = {
            f"{m.identity['corpus']} {m.identity['nmt'] or m.identity['explainer']}: "
            f"{m.facts.of_metric['left_out']} sentences are left out, since they cannot be read or "
            "it is not known which words their subwords belong to."
            for m in (s.measurement for s in scored)
            if m.ok and m.facts.of_metric.get("left_out")
        }
        return [*counts, *sorted(lost), *of_files]
