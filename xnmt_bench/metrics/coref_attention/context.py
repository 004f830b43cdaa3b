"""How much the words of a sentence look at the words of its context, and where mentions stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.corpora.parcorfull import carried
from xnmt_bench.corpora.sentence import SIDES, Gold, Mention, Sentence
from xnmt_bench.corpora.subwords import EOS, SEPARATOR, Subwords
from xnmt_bench.corpora.tokens import align_tokens
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.metrics.aer.links import to_words
from xnmt_bench.metrics.coref_attention.links import PlacedMention
from xnmt_bench.nmt.base import Batch
from xnmt_bench.pipeline.explained import EVALUATED, code_hash
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.settings import plain
from xnmt_bench.rules.extract import REAL


@dataclass(frozen=True)
class Spoken:
    """One sentence on one side, as the system reads or wrote it.

    Attributes:
        words: its words.
        mentions: coreference mentions on them.
    """

    words: list[str]
    mentions: tuple[PlacedMention, ...]


class ContextWeights:
    """Weights over the context's words, and the sentences that they are of.

    Args:
        job: the job.
    """

    def __init__(self, job: Job) -> None:
        self._job, self._texts, self._explained = job, job.texts, job.explained

    @cached_property
    def sentences(self) -> list[Sentence]:
        """The test sentences that are explained, in order.

        Raises:
            NotApplicable: the system reads no context, or nobody annotated mentions.
        """
        if not self._job.system.context.sentences:
            raise NotApplicable(f"{self._job.system.name} reads no context")
        sentences = self._texts.sentences(EVALUATED, self._explained.count(EVALUATED))
        gold = [s.gold for s in sentences if s.gold]
        if not any(g.source_mentions or g.target_mentions for g in gold):
            raise NotApplicable(f"corpus {self._job.corpus.name} has no coreference chains")
        return sentences

    @property
    def numbers(self) -> list[int]:
        """The number of each of them in the corpus."""
        return self._texts.split(EVALUATED).number[: len(self.sentences)].tolist()

    def depth(self, index: int) -> int:
        """How many sentences stand before a sentence."""
        return self._texts.depth(EVALUATED, index)

    @cached_property
    def _own(self) -> EncodedSplit:
        return self._explained.contexts(EVALUATED, REAL)

    @cached_property
    def _matched(self) -> list[dict[int, int]]:
        """For each sentence, where the reference's words are in the system's own translation."""
        return [
            dict(align_tokens(sentence.target.split(), output.split()))
            for sentence, output in zip(self.sentences, self._outputs, strict=False)
        ]

    @cached_property
    def _outputs(self) -> list[str]:
        return self._job.outputs().texts

    @cached_property
    def spoken(self) -> dict[str, list[Spoken]]:
        """Both sides of every sentence: the corpus's source, and the system's own target.

        Mentions of the reference are carried over to the system's translation by edit distance.
        """
        sides: dict[str, list[Spoken]] = {side: [] for side in SIDES}
        for i, sentence in enumerate(self.sentences):
            gold = sentence.gold or Gold()
            sides["source"].append(_spoken(sentence.source, gold.source_mentions))
            on_output = carried(gold.target_mentions, self._matched[i])
            sides["target"].append(_spoken(self._outputs[i], on_output))
        return sides

    @cached_property
    def match_rate(self) -> float:
        """Share of the reference mentions' words that the system's own translation has too."""
        right = total = 0
        for i, (sentence, place) in enumerate(zip(self.sentences, self._matched, strict=True)):
            words, output = sentence.target.split(), self._outputs[i].split()
            inside = [n for m in (sentence.gold or Gold()).target_mentions for n in m.words]
            total += len(inside)
            right += sum(n in place and output[place[n]] == words[n] for n in inside)
        return right / max(1, total)

    @cached_property
    def fingerprint(self) -> str:
        """What decides the weights: stored relevance, or the explainer's own look at each side."""
        explainer = self._explained.explainer
        if explainer.tells_own_side:
            return f"{code_hash(type(explainer))} {plain(self._job.config.explainer.phi)}"
        return self._job.relevance(REAL).fingerprint

    def weights(self) -> Iterator[tuple[int, dict[str, list[np.ndarray]]]]:
        """Raw weights (I, N) over each context sentence, nearest first, on each side.

        They come with the index of their sentence; sentences without a context are left out.

        Of an explainer that can tell, it is how much each word looks at the words of its own side
        (of attention: the self-attention of encoder and decoder). Of any other it is relevance, as
        shares of what helps a step; on the source side it stands for a current source word through
        the target words whose best current word it is.

        Raises:
            NotApplicable: the explainer does not cover this model.
        """
        told = self._explained.explainer.tells_own_side
        for index, rows in self._own_side() if told else self._relevance():
            blocks = {side: self._blocks(side, index, rows[side]) for side in self._sides}
            if blocks["source"]:
                yield index, blocks

    @property
    def _sides(self) -> tuple[str, ...]:
        return SIDES if self._job.system.context.target else SIDES[:1]

    def _own_side(self) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Weights of the current words over all words of their side."""
        explainer, model = self._explained.explainer, self._job.system.model
        for index in range(len(self.sentences)):
            batch = Batch.collate([(self._own.source[index], self._own.target[index])])
            rows = {}
            weights = zip(SIDES, explainer.own_side(model, batch), strict=True)
            for side, weights_XX in weights:
                words, sizes = self._words(side, index)
                whole = to_words(weights_XX.detach().cpu().double().numpy(), words, words)
                rows[side] = whole[sum(sizes[:-1]) :]
            yield index, rows

    def _relevance(self) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Relevance of all words of a side, for the current words of that side."""
        for index, relevance in enumerate(self._job.relevance(REAL)):
            source_words, source_sizes = self._words("source", index)
            target_words, target_sizes = self._words("target", index)
            steps = target_words[relevance.first :]
            current = [w - sum(target_sizes[:-1]) if w >= 0 else -1 for w in steps]
            source_YX = _shares(to_words(relevance.source_TS, current, source_words))
            target_YY = _shares(to_words(relevance.prefix_TT, current, target_words))
            yield index, {"source": _of_source(source_YX, source_sizes[-1]), "target": target_YY}

    def _words(self, side: str, index: int) -> tuple[list[int], list[int]]:
        """For each id of a concatenation the number of its word, and the words of each sentence.

        Raises:
            XnmtError: subwords and blanks do not agree on what a word is.
        """
        place = SIDES.index(side)
        ids = (self._own.source, self._own.target)[place][index].tolist()
        words, sizes = segment_words(self._texts.subwords[place], ids)
        spoken = self.spoken[side][index - len(sizes) + 1 : index + 1]
        if sizes != [len(s.words) for s in spoken]:
            texts = " / ".join(" ".join(s.words) for s in spoken)
            raise XnmtError(f"subwords and blanks do not agree on the words of {texts!r}")
        return words, sizes

    def _blocks(self, side: str, index: int, rows_IX: np.ndarray) -> list[np.ndarray]:
        """The columns of each context sentence, nearest first."""
        _, sizes = self._words(side, index)
        ends = np.cumsum(sizes)
        return [
            rows_IX[:, end - n : end] for end, n in zip(ends[-2::-1], sizes[-2::-1], strict=True)
        ]

    def uniform(self) -> Iterator[tuple[int, dict[str, list[np.ndarray]]]]:
        """The floor, as `weights` gives them: every word attended to alike."""
        for index in range(len(self.sentences)):
            blocks: dict[str, list[np.ndarray]] = {}
            for side in self._sides:
                parts = self.spoken[side][index - self.depth(index) : index + 1]
                total = max(1, sum(len(part.words) for part in parts))
                blocks[side] = [
                    np.full((len(parts[-1].words), len(part.words)), 1 / total)
                    for part in parts[-2::-1]
                ]
            yield index, blocks


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


def _spoken(text: str, mentions: tuple[Mention, ...]) -> Spoken:
    words = text.split()
    placed = (
        PlacedMention(m.chain, m.words, tuple(words[i] for i in m.words), m.needed)
        for m in mentions
    )
    return Spoken(words, tuple(placed))


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
