"""Word alignments of a job's test set: read off relevance, by a diagonal, by eflomal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from xnmt_bench.corpora.alignment import Alignment, to_pharaoh
from xnmt_bench.corpora.reversed import flipped
from xnmt_bench.corpora.sentence import Links, Sentence
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.metrics.aer.counts import count_links
from xnmt_bench.metrics.aer.eflomal import align
from xnmt_bench.metrics.aer.links import best_links, diagonal
from xnmt_bench.metrics.aer.symmetrise import METHODS
from xnmt_bench.pipeline.explained import EVALUATED, Relevances
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.extract import GOLDEN
from xnmt_bench.store import Artefact

FORWARD, BACKWARD = "forward", "backward"
BOTH = (FORWARD, BACKWARD, *METHODS)


class Alignments:
    """Word alignments of the explained part of a job's test set.

    Args:
        job: the job.
        reverse: the folder of a system of the other direction, if there is one.
    """

    def __init__(self, job: Job, reverse: str | None = None) -> None:
        self._job, self._reverse = job, reverse

    @cached_property
    def sentences(self) -> list[Sentence]:
        """The sentences that are aligned."""
        return self._job.texts.sentences(EVALUATED, self._job.explained.count(EVALUATED))

    @cached_property
    def numbers(self) -> list[int]:
        """Their numbers in the corpus."""
        split, count = self._job.texts.split(EVALUATED), self._job.explained.count(EVALUATED)
        return split.number[:count].tolist()

    @cached_property
    def _gold(self) -> list[Alignment]:
        """The gold of each of them.

        Raises:
            NotApplicable: the corpus has no gold word alignment.
        """
        gold = [s.gold for s in self.sentences]
        if not any(g and g.possible for g in gold):
            raise NotApplicable(f"corpus {self._job.corpus.name} has no gold word alignment")
        return [Alignment(g.sure, g.possible) if g else Alignment(frozenset(), frozenset())
                for g in gold]  # fmt: skip

    @cached_property
    def _relevance(self) -> Relevances:
        """For the reference's words."""
        return self._job.relevance(GOLDEN, source_alone=True)

    @cached_property
    def _backward(self) -> Alignments | None:
        """The same explainer on the system of the other direction, where one is given."""
        if self._reverse is None:
            return None
        changes = {
            "corpus": {"reversed": not self._job.config.corpus.reversed},
            "nmt": {"path": self._reverse},
        }
        return Alignments(self._job.changed(changes))

    def links(self) -> Iterator[Links]:
        """The links of each sentence: the best source word of each target word.

        Raises:
            XnmtError: subwords and gold do not agree on what a word is, or the relevance is of
                other sentences.
        """
        split, (source, target) = self._job.texts.split(EVALUATED), self._job.texts.subwords
        explained = list(self._relevance)
        if [r.number for r in explained] != self.numbers:
            raise XnmtError("the relevance is not of this test set's sentences")
        for index, (sentence, relevance) in enumerate(zip(self.sentences, explained, strict=True)):
            words = (
                source.current_words(split.source[index].tolist()),
                # Relevance is kept for the steps of the current sentence.
                target.current_words(split.target[index].tolist())[relevance.first :],
            )
            for side, own in zip(("source", "target"), words, strict=True):
                there = len(getattr(sentence, side).split())
                if max(own) + 1 != there:
                    raise XnmtError(
                        f"test sentence {self.numbers[index]}: {there} {side} words between "
                        f"blanks, but its subwords make {max(own) + 1}"
                    )
            yield best_links(relevance.source_TS, *words)

    @cached_property
    def explained(self) -> Artefact:
        """Links by relevance: of this direction, and with the other one symmetrised."""
        gold, backward = self._gold, self._backward

        def work(folder: Path) -> None:
            links = {FORWARD: list(self.links())}
            if backward:
                if backward.numbers != self.numbers:
                    raise XnmtError(
                        "the two directions leave out other pairs; raise corpus.max_length"
                    )
                links |= _both(links[FORWARD], [flipped(pair) for pair in backward.links()])
            self._save(links, gold, folder)

        return self._job.store.make(
            "alignment",
            work,
            version=2,
            relevance=self._relevance,
            encoded=self._job.texts.encoded,
            backward=backward and backward._relevance,
        )

    @cached_property
    def diagonal(self) -> Artefact:
        """Each target word linked to the source word at its own share of the sentence."""
        gold = self._gold

        def work(folder: Path) -> None:
            lengths = [(len(s.source.split()), len(s.target.split())) for s in self.sentences]
            self._save({FORWARD: [diagonal(*pair) for pair in lengths]}, gold, folder)

        return self._job.store.make(
            "alignment",
            work,
            version=2,
            kind="diagonal",
            encoded=self._job.texts.encoded,
            sentences=len(self.sentences),
        )

    @cached_property
    def eflomal(self) -> Artefact:
        """Eflomal's links, aligned together with the training split.

        Raises:
            NotApplicable: eflomal is not installed.
        """
        gold = self._gold

        def work(folder: Path) -> None:
            training = self._job.corpus.sentences("train")
            forward, backward = align(self.sentences, training, folder)
            self._save({FORWARD: forward} | _both(forward, backward), gold, folder)

        return self._job.store.make(
            "eflomal",
            work,
            version=2,
            encoded=self._job.texts.encoded,
            sentences=len(self.sentences),
        )

    def _save(
        self, links: Mapping[str, Sequence[Links]], gold: Sequence[Alignment], folder: Path
    ) -> None:
        lengths = [len(s.target.split()) for s in self.sentences]
        for method, hypotheses in links.items():
            text = "".join(f"{to_pharaoh(pair)}\n" for pair in hypotheses)
            (folder / f"{method}.links").write_text(text, encoding="utf-8")
            units = count_links(self._job.texts.test_set, self.numbers, hypotheses, gold, lengths)
            units.save(folder / f"{method}.parquet")


def _both(forward: Sequence[Links], backward: Sequence[Links]) -> dict[str, list[Links]]:
    """The other direction, and every symmetrisation of the two."""
    pairs = list(zip(forward, backward, strict=True))
    return {BACKWARD: list(backward)} | {
        name: [method(f, b) for f, b in pairs] for name, method in METHODS.items()
    }
