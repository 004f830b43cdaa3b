"""Trained students and their translations, each made once and kept in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch
from safetensors.torch import load_model, save_model

from xnmt_bench.corpora.sentence import Split
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS
from xnmt_bench.device import Room, device_of
from xnmt_bench.errors import NotApplicable
from xnmt_bench.lazy import Lazy
from xnmt_bench.metrics.student.guided import GuidedTransformer, Operator
from xnmt_bench.metrics.student.maps import (
    ExchangedMaps,
    GuidedBatches,
    Maps,
    StoredMaps,
    write_maps,
)
from xnmt_bench.nmt.decoding import length_limit, translate_encoded
from xnmt_bench.nmt.training_options import NMTTrainingOptions
from xnmt_bench.parquet import read_table, write_table
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.extract import GOLDEN, REAL, Scenario
from xnmt_bench.store import Stage, Work

WEIGHTS, MAPS, TEXTS = "student.safetensors", "maps.f4", "outputs.parquet"
# Whose maps a student reads: none, the explainer's, or the explainer's of another sentence.
Guide = Literal["none", "own", "exchanged"]
# Whose words a test map explains: those of the reference, or of the system's own translation.
MapOf = Literal["reference", "translation"]
SCENARIOS: dict[MapOf, Scenario] = {"reference": GOLDEN, "translation": REAL}


@dataclass(frozen=True)
class StudentOptions:
    """What decides a student besides its sentences and maps.

    Attributes:
        sizes: arguments of the Transformer.
        training: of its training.
        validation_share: share of the training sentences that is held out, the last ones.
    """

    sizes: Mapping[str, Any]
    training: NMTTrainingOptions
    validation_share: float


class Students(Lazy):
    """The students of a job's system and explainer.

    Args:
        job: its training sentences are those that rules are made of.
        options: of every student.
        beam: hypotheses that a student keeps when it translates.
    """

    def __init__(self, job: Job, options: StudentOptions, beam: int) -> None:
        self._job, self._options, self._beam = job, options, beam

    @cached_property
    def sentences(self) -> int:
        """The number of training sentences, the held-out ones among them.

        Raises:
            NotApplicable: none would be left to learn from; or the system reads a context.
        """
        context = self._job.system.context
        # Maps are of one sentence's words, and a context's would have no place in them.
        if context.has_sentences:
            raise NotApplicable(
                "the system reads a context, but the student reads single sentences"
            )
        sentences = self._job.decisions().count("train")
        if sentences < 2:
            raise NotApplicable("a student needs two training sentences, one of which is held out")
        return sentences

    @property
    def _cut(self) -> int:
        # The last sentences, so that students of all maps learn from the same ones.
        held_out = max(1, round(self._options.validation_share * self.sentences))
        return max(1, self.sentences - held_out)

    def _split(self, name: Split, scenario: Scenario) -> tuple[EncodedSplit, int]:
        """Return a split in the order of explanation, and the number of explained sentences."""
        decisions = self._job.decisions()
        return decisions.split(name, scenario), decisions.count_readable(name, scenario)

    def _maps(self, name: Split, scenario: Scenario) -> Stage:
        """Return the explainer's maps of a split."""
        # Only source words: a map guides attention to the source.
        relevances = self._job.relevance(scenario, source_alone=True, split=name)

        def work(folder: Path) -> None:
            write_maps(relevances, self._split(name, scenario)[0], folder / MAPS)

        return self._job.store.stage("student_maps", work, version=1, relevance=relevances)

    def open_maps(self, guide: Guide, name: Split, scenario: Scenario) -> Maps | None:
        """Return the maps that a student reads of a split; None of the one without maps.

        Raises:
            NotApplicable: maps are to be exchanged, and there is only one sentence.
        """
        if guide == "none":
            return None
        split, sentences = self._split(name, scenario)
        maps = StoredMaps(self._maps(name, scenario).path / MAPS, split, sentences)
        if guide == "own":
            return maps
        if sentences < 2:
            raise NotApplicable("maps can be exchanged only among two sentences or more")
        return ExchangedMaps(maps, split, sentences)

    def _recipe(self, guide: Guide, name: Split, scenario: Scenario) -> dict[str, Any]:
        if guide == "none":
            return {"guide": guide}
        return {"guide": guide, "maps": self._maps(name, scenario)}

    def _fresh(self, operator: Operator | None) -> GuidedTransformer:
        return GuidedTransformer(*self._job.texts.subwords, operator, **self._options.sizes)

    def trained(self, operator: Operator, guide: Guide) -> Stage:
        """Return a student that learnt the references, with maps that guide its attention.

        Args:
            operator: how maps change its attention; of a student without maps nothing depends on
                it.
            guide: whose maps it reads.

        Raises:
            NotApplicable: there is nothing to learn from, or the explainer does not cover it.
        """
        job, options = self._job, self._options
        # Without a map operators make no difference, so that one student serves them all.
        used = None if guide == "none" else operator
        sentences, recipe = self.sentences, self._recipe(guide, "train", GOLDEN)
        training = options.training
        described = "without maps" if used is None else f"{used}, maps of {job.explained.name}"

        def work(folder: Path) -> dict[str, Any]:
            # Lightning takes seconds to import, and most commands train nothing.
            from xnmt_bench.fitting import fit
            from xnmt_bench.metrics.student.training import StudentTraining

            split, _ = self._split("train", GOLDEN)
            maps = self.open_maps(guide, "train", GOLDEN)

            def build() -> StudentTraining:
                # Built within `fit`, which seeds the weights.
                student = self._fresh(used)
                return StudentTraining(student, split, maps, self._cut, sentences, training)

            module, facts = fit(
                build,
                folder,
                job.settings.seed,
                training.max_epochs,
                training.patience,
                job.options,
                f"student, {described}",
            )
            save_model(module.model, str(folder / WEIGHTS))  # type: ignore[arg-type]
            return dict(facts)

        return job.store.stage(
            "student",
            work,
            version=2,
            amount=Work(f"student of {sentences:,} sentences", training.max_epochs, "epochs"),
            encoded=job.texts.encoded["train"],
            drawn=job.texts.seed,
            sentences=sentences,
            operator=used,
            options=asdict(options),
            seed=job.settings.seed,
            precision=job.options.precision,
            **recipe,
        )

    def outputs(self, operator: Operator, guide: Guide, map_of: MapOf) -> Stage:
        """Return a student's translations of the test set, and log-likelihoods.

        Args:
            operator: as of `trained`.
            guide: as of `trained`.
            map_of: whose words its maps explain; log-likelihoods are of these words.
        """
        trained, scenario = self.trained(operator, guide), SCENARIOS[map_of]
        recipe = self._recipe(guide, EVALUATED, scenario)
        # Log-likelihoods are of the words that the map explains, so these decide the artefact.
        decided = self._job.decisions().decided(EVALUATED, scenario)

        def work(folder: Path) -> None:
            student = self._fresh(None if guide == "none" else operator)
            load_model(student, str(trained.path / WEIGHTS))
            student = student.eval().requires_grad_(False).to(self._job.options.device)
            split, sentences = self._split(EVALUATED, scenario)
            maps = self.open_maps(guide, EVALUATED, scenario)
            room = Room(None, cpu=2048, each=2**20)  # ids of sentences that are translated together
            work_on = partial(translate_and_score, student, split, maps, sentences, self._beam)
            columns = room.tried(device_of(student), work_on)
            numbers = {"sentence": split.number[:sentences]}
            write_table(pa.table(numbers | columns), folder / TEXTS)

        return self._job.store.stage(
            "student_outputs",
            work,
            version=1,
            student=trained,
            beam=self._beam,
            **decided,
            **recipe,
        )


@torch.no_grad()
def translate_and_score(
    student: GuidedTransformer,
    split: EncodedSplit,
    maps: Maps | None,
    sentences: int,
    beam: int,
    batch_tokens: int,
) -> dict[str, Sequence[Any] | np.ndarray]:
    """Return a student's translations of a split's first sentences, and log P of their targets.

    Args:
        student: in evaluation mode.
        split: the sentences.
        maps: of the sentences; None for a student without.
        sentences: how many.
        beam: hypotheses kept; 1 is greedy.
        batch_tokens: rows times longest pair of a batch.

    Returns:
        `text`, `log_likelihood` in nats, and `steps`, of how many ids it is the sum, by sentence.
    """
    # Without a seed, in the order of the split, since nothing is learnt.
    batches = GuidedBatches(split, maps, np.arange(sentences), batch_tokens, None)
    texts = [""] * sentences
    log_p_N, steps_N = np.zeros(sentences), np.zeros(sentences, dtype=np.int64)
    for indices in batches.indices:
        batch = batches.collate(indices).to(device_of(student))
        mask_BT = batch.target_mask_BT
        # Only real steps reach the output layer, which is the widest.
        log_p = student.log_probability(student.states(batch)[mask_BT], batch.target_BT[mask_BT])
        mask_BT = mask_BT.cpu()
        # Summed in double: the terms of a long target are many.
        log_p_BT = torch.zeros(mask_BT.shape, dtype=torch.float64)
        log_p_BT[mask_BT] = log_p.cpu().double()
        log_p_N[indices], steps_N[indices] = log_p_BT.sum(1).numpy(), mask_BT.sum(1).numpy()
        first_R1 = torch.full_like(batch.source_BS[:, :1], BOS)
        limits = [length_limit(ids) for ids in batch.source_BS.tolist()]
        encoding = student.encode_batch(batch)
        translations = translate_encoded(student, encoding, first_R1, limits, beam)
        for index, ids in zip(indices.tolist(), translations, strict=True):
            # A translation that the limit cut lacks EOS.
            texts[index] = student.target_subwords.decode([i for i in ids if i != EOS])
    return {"text": texts, "log_likelihood": log_p_N, "steps": steps_N}


def read_outputs(outputs: Stage) -> dict[str, Any]:
    """Return the columns of a student's outputs, as lists and arrays."""
    table = read_table(outputs.path / TEXTS)
    columns = {name: table[name].to_numpy() for name in ("sentence", "log_likelihood", "steps")}
    return columns | {"text": table["text"].to_pylist()}
