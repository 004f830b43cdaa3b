"""The stages from a trained NMT system to the alignment error rate of one explainer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from omegaconf import OmegaConf

from xnmt_bench.corpora.alignment import Alignment, to_pharaoh
from xnmt_bench.corpora.reversed import flipped
from xnmt_bench.corpora.sentence import Links
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.metrics.aer import LinkCounts, unaligned
from xnmt_bench.metrics.links import best_links, diagonal
from xnmt_bench.metrics.symmetrise import METHODS
from xnmt_bench.rules.extract import GOLDEN
from xnmt_bench.rules.table import relevance
from xnmt_bench.stages.explained import EVALUATED, Explained
from xnmt_bench.stages.systems import VERSIONS
from xnmt_bench.store import Artefact

FORWARD, BACKWARD = "forward", "backward"


class WordAlignment(Explained):
    """Word alignments of the test set, read off relevance, and how they compare with the gold."""

    @cached_property
    def backward(self) -> Self | None:
        """The same explainer on the system of the other direction, where one is given."""
        path = self.config.metric.aer.reverse
        if path is None:
            return None
        changes = {
            "corpus": {"reversed": not self.config.corpus.reversed},
            "nmt": {"path": path},
            "metric": {"aer": {"reverse": None}},
        }
        return type(self)(OmegaConf.merge(self.config, changes), self.options)  # type: ignore[arg-type]

    @cached_property
    def _numbers(self) -> list[int]:
        """The numbers of the sentences that are explained."""
        return self.split(EVALUATED).number[: self._sentences(EVALUATED)].tolist()

    @cached_property
    def _lengths(self) -> list[tuple[int, int]]:
        """Words of each of them, source and target, as the gold counts them."""
        wanted, lengths = set(self._numbers), []
        for number, sentence in enumerate(self.corpus.sentences(EVALUATED)):
            if number in wanted:
                lengths.append((len(sentence.source.split()), len(sentence.target.split())))
        return lengths

    @cached_property
    def _reference(self) -> list[Alignment]:
        """The gold of each of them.

        Raises:
            NotApplicable: the corpus has no gold word alignment.
        """
        gold = self.gold(EVALUATED)
        if not any(gold[n].possible for n in self._numbers if n in gold):
            raise NotApplicable(f"corpus {self.corpus.name} has no gold word alignment")
        return [Alignment(gold[n].sure, gold[n].possible) for n in self._numbers]

    @cached_property
    def _golden(self) -> Artefact:
        """Relevance for the reference's words."""
        return self.explained(GOLDEN, (EVALUATED,), source_alone=True)

    def links(self) -> Iterator[Links]:
        """The links of each sentence: the best source word of each target word.

        Raises:
            XnmtError: subwords and gold do not agree on what a word is.
        """
        split, (source, target) = self.split(EVALUATED), self.subwords
        for index, found in enumerate(relevance(self._golden.path, EVALUATED)):
            words = (
                source.current_words(split.source[index].tolist()),
                # Relevance is kept for the steps of the current sentence.
                target.current_words(split.target[index].tolist())[found.first :],
            )
            self._same_words(index, words)
            yield best_links(found.source_TS, *words)

    def _same_words(self, index: int, words: tuple[list[int], list[int]]) -> None:
        for side, found, there in zip(
            ("source", "target"), words, self._lengths[index], strict=True
        ):
            if max(found) + 1 != there:
                raise XnmtError(
                    f"test sentence {self._numbers[index]}: {there} {side} words between blanks, "
                    f"but its subwords make {max(found) + 1}"
                )

    @cached_property
    def alignment(self) -> Artefact:
        """Links and link counts of every direction and symmetrisation."""
        backward, reference = self.backward, self._reference
        recipe = {
            "version": VERSIONS["alignment"],
            "rules": self._golden.id,
            "backward": backward and backward._golden.id,
        }

        def work(folder: Path) -> dict[str, Any]:
            found = {FORWARD: list(self.links())}
            if backward and backward._numbers != self._numbers:
                raise XnmtError("the two directions leave out other pairs; raise corpus.max_length")
            if backward:
                found |= both(found[FORWARD], [flipped(links) for links in backward.links()])
            return self._save(found, reference, folder)

        return self.store.make("alignment", recipe, work)

    @cached_property
    def diagonal(self) -> Artefact:
        """Each target word linked to the source word at its own share of the sentence."""
        reference = self._reference
        recipe = {
            "version": VERSIONS["alignment"],
            "encoded": self.encoded.id,
            "sentences": len(self._numbers),
            "kind": "diagonal",
        }

        def work(folder: Path) -> dict[str, Any]:
            found = {FORWARD: [diagonal(*lengths) for lengths in self._lengths]}
            return self._save(found, reference, folder)

        return self.store.make("alignment", recipe, work)

    @cached_property
    def eflomal(self) -> Artefact:
        """Eflomal's links of the test set, aligned together with the training split.

        Raises:
            NotApplicable: eflomal is not installed.
        """
        from xnmt_bench.metrics.eflomal import align

        reference = self._reference
        recipe = {
            "version": VERSIONS["eflomal"],
            "encoded": self.encoded.id,
            "sentences": len(self._numbers),
        }

        def work(folder: Path) -> dict[str, Any]:
            wanted = set(self._numbers)
            test = [s for n, s in enumerate(self.corpus.sentences(EVALUATED)) if n in wanted]
            forward, backward = align(test, self.corpus.sentences("train"), folder)
            return self._save(both(forward, backward) | {FORWARD: forward}, reference, folder)

        return self.store.make("eflomal", recipe, work)

    def _save(
        self, found: Mapping[str, list[Links]], reference: list[Alignment], folder: Path
    ) -> dict[str, Any]:
        for method, hypotheses in found.items():
            text = "".join(f"{to_pharaoh(links)}\n" for links in hypotheses)
            (folder / f"{method}.links").write_text(text, encoding="utf-8")
            counts = LinkCounts.count(hypotheses, reference, self._numbers)
            counts.save(folder / f"{method}.parquet")
        judged = unaligned(reference, [target for _, target in self._lengths])
        return {"methods": list(found), "unaligned": judged.__dict__}


def both(forward: list[Links], backward: list[Links]) -> dict[str, list[Links]]:
    """The other direction, and every symmetrisation of the two."""
    pairs = list(zip(forward, backward, strict=True))
    return {BACKWARD: backward} | {
        name: [method(f, b) for f, b in pairs] for name, method in METHODS.items()
    }
