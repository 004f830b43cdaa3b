"""The stage from an explained context-aware system to weights over the words of the context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch

from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.corpora.parcorfull import carried
from xnmt_bench.corpora.sentence import Gold, Sentence
from xnmt_bench.corpora.sentence import Mention as Place
from xnmt_bench.corpora.subwords import EOS, SEPARATOR, Subwords
from xnmt_bench.corpora.tokens import align_tokens
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.explainers.attention import Attention
from xnmt_bench.metrics.coref_attention import Mention
from xnmt_bench.metrics.links import to_words
from xnmt_bench.nmt.base import Batch
from xnmt_bench.rules.extract import REAL
from xnmt_bench.rules.table import relevance
from xnmt_bench.stages.explained import EVALUATED, Explained

Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = ("source", "target")


@dataclass(frozen=True)
class Spoken:
    """One sentence on one side, as the system reads or wrote it.

    Attributes:
        words: its words.
        mentions: coreference mentions on them.
    """

    words: list[str]
    mentions: tuple[Mention, ...]


class ContextWeights(Explained):
    """How much the words of a sentence look at the words of its context."""

    @cached_property
    def sentences_explained(self) -> list[Sentence]:
        """The test sentences that are explained, in order.

        Raises:
            NotApplicable: the system reads no context, or nobody annotated mentions.
        """
        if not self.config.nmt.context.sentences:
            raise NotApplicable(f"{self.config.nmt.name} reads no context")
        kept = set(self.split(EVALUATED).number[: self._sentences(EVALUATED)].tolist())
        found = [s for n, s in enumerate(self.corpus.sentences(EVALUATED)) if n in kept]
        if not any(s.gold and (s.gold.source_mentions or s.gold.target_mentions) for s in found):
            raise NotApplicable(f"corpus {self.corpus.name} has no coreference chains")
        return found

    @cached_property
    def _own(self) -> EncodedSplit:
        return self.contexts(EVALUATED, REAL)

    @cached_property
    def _matched(self) -> list[dict[int, int]]:
        """For each sentence, where the reference's words are in the system's own translation."""
        return [
            dict(align_tokens(sentence.target.split(), output.split()))
            for sentence, output in zip(self.sentences_explained, self.outputs, strict=False)
        ]

    @cached_property
    def spoken(self) -> dict[Side, list[Spoken]]:
        """Both sides of every sentence: the corpus's source, and the system's own target.

        Mentions of the reference are carried over to the system's translation by edit distance.
        """
        sides: dict[Side, list[Spoken]] = {"source": [], "target": []}
        for i, sentence in enumerate(self.sentences_explained):
            gold = sentence.gold or Gold()
            sides["source"].append(_spoken(sentence.source, gold.source_mentions))
            theirs = carried(gold.target_mentions, self._matched[i])
            sides["target"].append(_spoken(self.outputs[i], theirs))
        return sides

    @cached_property
    def match_rate(self) -> float:
        """Share of the reference mentions' words that the system's own translation has too."""
        right = total = 0
        for i, (sentence, place) in enumerate(
            zip(self.sentences_explained, self._matched, strict=True)
        ):
            words, output = sentence.target.split(), self.outputs[i].split()
            inside = [n for m in (sentence.gold or Gold()).target_mentions for n in m.words]
            total += len(inside)
            right += sum(n in place and output[place[n]] == words[n] for n in inside)
        return right / max(1, total)

    def weights(self) -> Iterator[tuple[int, dict[Side, list[np.ndarray]]]]:
        """Raw weights (I, N) over each context sentence, nearest first, on each side.

        They come with the index of their sentence; sentences without a context are left out.

        Of the attention explainer it is the self-attention of encoder and decoder. Of any other it
        is relevance, as shares of what helps a step; on the source side it stands for a current
        source word through the target words whose best current word it is.

        Raises:
            NotApplicable: the explainer does not cover this model.
        """
        attends = isinstance(self.explainer, Attention)
        for index, rows in self._self_attention() if attends else self._relevance():
            blocks: dict[Side, list[np.ndarray]] = {}
            for side in SIDES if self.own_context else SIDES[:1]:
                blocks[side] = self._blocks(side, index, rows[side])
            if blocks["source"]:
                yield index, blocks

    def _self_attention(self) -> Iterator[tuple[int, dict[Side, np.ndarray]]]:
        """Self-attention of the current words over all words of their side."""
        for index in range(len(self.sentences_explained)):
            batch = Batch.collate([(self._own.source[index], self._own.target[index])])
            weights = dict(zip(SIDES, self._reduced(batch), strict=True))
            rows = {}
            for side, weights_XX in weights.items():
                words, sizes = self._words(side, index)
                rows[side] = to_words(weights_XX, words, words)[sum(sizes[:-1]) :]
            yield index, rows

    @torch.no_grad()
    def _reduced(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Self-attention over source ids and over target ids, reduced as configured."""
        model, explainer = self.model, self.explainer
        assert isinstance(explainer, Attention)
        source = model.embed_source(batch.source_BS)
        encoder = model.encoder_attention(source, batch.layout)
        # A target word attends when it has been read, so EOS is appended for the last one.
        longer = Batch(batch.source_BS, torch.nn.functional.pad(batch.target_BT, (0, 1), value=EOS))
        decoder = model.attention(
            model.encode(source, longer.layout), model.embed_target(longer.input_BT)
        ).prefix_BLHTT
        if encoder is None or decoder is None:
            raise NotApplicable(f"{self.config.nmt.name} has no self-attention")
        return _array(explainer.reduce(encoder)[0]), _array(explainer.reduce(decoder)[0, 1:, 1:])

    def _relevance(self) -> Iterator[tuple[int, dict[Side, np.ndarray]]]:
        """Relevance of all words of a side, for the current words of that side."""
        explained = self.explained(REAL, (EVALUATED,))
        for index, found in enumerate(relevance(explained.path, EVALUATED)):
            source_words, source_sizes = self._words("source", index)
            target_words, target_sizes = self._words("target", index)
            steps = target_words[found.first :]
            now = [w - sum(target_sizes[:-1]) if w >= 0 else -1 for w in steps]
            source_YX = _shares(to_words(found.source_TS, now, source_words))
            target_YY = _shares(to_words(found.prefix_TT, now, target_words))
            yield index, {"source": _of_source(source_YX, source_sizes[-1]), "target": target_YY}

    def _words(self, side: Side, index: int) -> tuple[list[int], list[int]]:
        """For each id of a concatenation the number of its word, and the words of each sentence.

        Raises:
            XnmtError: subwords and blanks do not agree on what a word is.
        """
        place = SIDES.index(side)
        ids = (self._own.source, self._own.target)[place][index].tolist()
        words, sizes = segment_words(self.subwords[place], ids)
        spoken = self.spoken[side][index - len(sizes) + 1 : index + 1]
        if sizes != [len(s.words) for s in spoken]:
            texts = " / ".join(" ".join(s.words) for s in spoken)
            raise XnmtError(f"subwords and blanks do not agree on the words of {texts!r}")
        return words, sizes

    def _blocks(self, side: Side, index: int, rows_IX: np.ndarray) -> list[np.ndarray]:
        """The columns of each context sentence, nearest first."""
        _, sizes = self._words(side, index)
        ends = np.cumsum(sizes)
        return [
            rows_IX[:, end - n : end] for end, n in zip(ends[-2::-1], sizes[-2::-1], strict=True)
        ]


def segment_words(subwords: Subwords, ids: list[int]) -> tuple[list[int], list[int]]:
    """Words of a concatenation.

    Returns:
        For each id the number of its word in the whole concatenation, -1 for separators and EOS;
        and how many words each sentence has.
    """
    words: list[int] = []
    sizes: list[int] = []
    ends = [n for n, i in enumerate(ids) if i in (SEPARATOR, EOS)]
    for start, end in zip([0, *(end + 1 for end in ends)], ends, strict=False):
        own = subwords.words(ids[start:end])
        words += [w + sum(sizes) for w in own] + [-1]
        sizes.append(max(own, default=-1) + 1)
    return words, sizes


def _spoken(text: str, mentions: tuple[Place, ...]) -> Spoken:
    words = text.split()
    found = (
        Mention(m.chain, m.words, tuple(words[i] for i in m.words), m.needed) for m in mentions
    )
    return Spoken(words, tuple(found))


def _shares(relevance_IN: np.ndarray) -> np.ndarray:
    """Relevance as shares of what helps each step, so that it compares with attention."""
    positive = np.maximum(relevance_IN, 0)
    total = positive.sum(1, keepdims=True)
    return np.divide(positive, total, out=np.zeros_like(positive), where=total > 0)


def _of_source(shares_YX: np.ndarray, size: int) -> np.ndarray:
    """Current source words by source words, from current target words by source words.

    A current source word is explained through the target words whose best current word it is.

    Args:
        shares_YX: relevance of all source words for the current target words.
        size: how many of the source words, the last ones, are current.
    """
    rows_IX = np.zeros((size, shares_YX.shape[1]))
    current = shares_YX[:, shares_YX.shape[1] - size :]
    if current.size:
        best, seen = current.argmax(1), current.max(1) > 0
        for word in np.unique(best[seen]):
            rows_IX[word] = shares_YX[seen & (best == word)].mean(0)
    return rows_IX


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()
