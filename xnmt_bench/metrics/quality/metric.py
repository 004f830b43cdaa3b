"""Translation quality as a metric; it needs no explainer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from xnmt_bench.corpora.languages import (
    BLANKS,
    require_tokenizers,
    tokenizer_name,
    tokenizer_signature,
)
from xnmt_bench.measuring.alike import settings_of
from xnmt_bench.measuring.measurement import TOKENIZER, Evidence, PlannedRow, ScoredRow
from xnmt_bench.measuring.metric import Column, SumMetric, TableRow, ratio
from xnmt_bench.measuring.sacre import BOUNDS, scores, signatures, statistics
from xnmt_bench.measuring.units import Bounds, Units
from xnmt_bench.metrics.quality.comet import comet
from xnmt_bench.options import Text
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.outputs import Outputs
from xnmt_bench.store import file_hash, fingerprint

COMET_FILE = "comet.npy"
DEFAULT_MODEL = "Unbabel/wmt22-comet-da"


two_digits = "{:.2f}".format  # as these scores are printed


class Quality(SumMetric):
    """BLEU, chrF and TER of a system's test set translations, detokenised, one reference each.

    A unit is a sentence; its columns are sacrebleu's sufficient statistics.

    Args:
        comet_command: path of `comet-score`, in an environment of its own; None for no COMET.
        comet_model: its model's name, or the path of a checkpoint.
    """

    name = "quality"
    papers = ("papineni2002", "popovic2015", "post2018", "snover2006")
    setting_options = ()
    inputs = ("outputs",)
    needs = "references"
    title = "Translation quality"
    note = (
        "BLEU, chrF and TER (sacrebleu) of the test set's translations, with 95 % bootstrap "
        "intervals over sentences; BLEU and chrF: higher is better, TER: lower."
    )
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {**BOUNDS, "sentences": Bounds(1, 1)}
    columns = (
        Column.higher("bleu", "BLEU", two_digits).means("overlap of n-grams with the references"),
        Column.higher("chrf", "chrF", two_digits).means(
            "overlap of character n-grams with the references"
        ),
        Column.lower("ter", "TER", two_digits).means("edits to the references, for each word"),
        Column.higher("comet", "COMET", "{:.4f}".format).means("score of a trained model"),
    )
    compared = "nmt"

    def __init__(
        self, comet_command: Text | None = None, comet_model: Text = DEFAULT_MODEL
    ) -> None:
        self.comet_command, self.comet_model = comet_command, comet_model

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield the system's translations, or a file's."""
        require_tokenizers(job.corpus.target_language)
        # One row for all scores: they are of the same translations.
        yield self.plan(job, lambda: self._measured(job), job.output_stages)

    def _measured(self, job: Job) -> Evidence:
        outputs, language = job.outputs(), job.corpus.target_language
        tokenizer = tokenizer_name(language)
        _, hypotheses, references = outputs.raw()
        # Sufficient statistics and not scores: BLEU of a sample is not a mean of BLEUs.
        columns = statistics(hypotheses, references, tokenizer)
        # What COMET's mean is divided by, in every sample.
        columns["sentences"] = np.ones(len(hypotheses), dtype=np.int64)
        made_by = {"outputs": outputs.fingerprint} | signatures(tokenizer)
        settings: dict[str, Any] = {"test sentences": outputs.which} | job.search_settings
        settings[TOKENIZER] = tokenizer_signature(language)
        if self.comet_command is not None:
            columns["comet"], model = self._comet(job, outputs)
            made_by["comet"] = model
            # Scores of two models do not compare.
            if model != DEFAULT_MODEL:
                settings["COMET model"] = model
        units = Units(outputs.test_set, outputs.number_N, columns)
        return Evidence(units, made_by, settings=settings)

    def _comet(self, job: Job, outputs: Outputs) -> tuple[np.ndarray, str]:
        """Return COMET of each translation, kept since it takes minutes, and what the model is.

        A model is a name on the hub, or a checkpoint's file name and the hash of its bytes.
        """
        command, model, texts = str(self.comet_command), self.comet_model, outputs.raw()
        named = model
        if (checkpoint := Path(model)).is_file():
            named = f"{checkpoint.name} {file_hash(checkpoint)[:12]}"

        def work(folder: Path) -> None:
            np.save(folder / COMET_FILE, comet(command, model, *texts, folder))

        # All three texts, since the outputs' fingerprint covers only the translations.
        recipe: dict[str, Any] = {"texts": fingerprint({"texts": texts}), "model": named}
        artefact = job.store.stage("comet", work, version=3, cheap=True, **recipe)
        # Without pickles, which could run code from a store that came from elsewhere.
        return np.load(artefact.path / COMET_FILE, allow_pickle=False), named

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return corpus scores of BLEU, chrF and TER; the mean of COMET's."""
        results = scores(sums_R)
        if "comet" in sums_R:
            results["comet"] = ratio(sums_R["comet"], sums_R["sentences"])
        return results

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return which language pairs have other words than what stands between blanks."""
        cut = {
            f"{s.row['lang_pair']}: BLEU counts words as sacrebleu's tokenizer {tokenizer} cuts "
            "them; TER's follow, and the signatures say how."
            for s in scored
            if (tokenizer := settings_of(s).get(TOKENIZER, BLANKS)) != BLANKS
        }
        return sorted(cut)

    def about_system(self, row: TableRow) -> str | None:
        """Return scores of the translations, which stand under every table of the system."""
        if row["status"] != "ok":
            return None
        # COMET is there only where its command was given.
        shown = [f"{c.heading} {c.form(row[c.name])}" for c in self.columns if c.name in row]
        return f"its translations have {', '.join(shown)}"
