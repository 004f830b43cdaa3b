"""How much the words of a sentence look at the words of its context, and where mentions stand."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from xnmt_bench.code_hash import code_hash
from xnmt_bench.corpora.formats.parcorfull import carried
from xnmt_bench.corpora.sentence import SIDES, Gold, Links, Mention, Sentence
from xnmt_bench.corpora.tokens import align_tokens, split_words
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import NO_WORD, SEPARATOR, UNTIED
from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.coref_attention.link_attention import PlacedMention
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.texts import name_sentences
from xnmt_bench.rules.extract import REAL
from xnmt_bench.words.ibm_model_1 import agreed_links
from xnmt_bench.words.pieces import as_shares, count_through, to_words

log = logging.getLogger(__name__)
LEARNT_FROM = 100_000  # training pairs, the first ones, that word alignment learns from
# A sentence's index; for each side its weights (I, N) over each context sentence, nearest first.
Blocks = Iterator[tuple[int, dict[str, list[np.ndarray]]]]


@dataclass(frozen=True)
class Spoken:
    """One sentence on one side, as the system reads or wrote it, and the mentions on its words."""

    words: list[str]
    mentions: tuple[PlacedMention, ...]


class ContextWeights:
    """A job's weights over the context's words, and the sentences that they are of."""

    def __init__(self, job: Job) -> None:
        self._job, self._texts, self._explained = job, job.texts, job.explained

    @cached_property
    def sentences(self) -> list[Sentence]:
        """The test sentences that are explained, in order.

        Raises:
            NotApplicable: the system reads no context, or the corpus has no mentions.
        """
        if not self._job.system.context.sentences:
            raise NotApplicable(f"{self._job.system.name} reads no context")
        sentences = self._texts.sentences(EVALUATED, self._explained.decisions.count(EVALUATED))
        gold = [s.gold for s in sentences if s.gold]
        if not any(g.source_mentions or g.target_mentions for g in gold):
            raise NotApplicable(f"corpus {self._job.corpus.name} has no coreference chains")
        return sentences

    @property
    def numbers(self) -> list[int]:
        """The number of each of them in the corpus."""
        return self._texts.split(EVALUATED).number[: len(self.sentences)].tolist()

    @property
    def settings(self) -> dict[str, Any]:
        """Which sentences these are, and how the system translated them."""
        return {"test sentences": name_sentences(np.asarray(self.numbers))} | (
            self._job.search_settings
        )

    def depth(self, index: int) -> int:
        """Return how many sentences stand before a sentence."""
        return int((self._own.source[index] == SEPARATOR).sum())

    @cached_property
    def _own(self) -> EncodedSplit:
        """With the system's own translations."""
        return self._explained.decisions.split(EVALUATED, REAL)

    @cached_property
    def _outputs(self) -> list[tuple[list[str], dict[int, int]]]:
        """The words of each own translation, and where the reference's words are among them."""
        # All test sentences are translated, the first of them explained.
        pairs = zip(self.sentences, map(split_words, self._job.outputs().texts), strict=False)
        return [
            (words, dict(align_tokens(split_words(sentence.target), words)))
            for sentence, words in pairs
        ]

    @cached_property
    def spoken(self) -> dict[str, list[Spoken]]:
        """Both sides of every sentence: the corpus's source, and the system's own target.

        Mentions of the reference are carried over to the system's translation by edit distance.
        """
        spoken: dict[str, list[Spoken]] = {side: [] for side in SIDES}
        for sentence, (output, place) in zip(self.sentences, self._outputs, strict=True):
            gold = sentence.gold or Gold()
            spoken["source"].append(_spoken(split_words(sentence.source), gold.source_mentions))
            spoken["target"].append(_spoken(output, carried(gold.target_mentions, place)))
        return spoken

    @cached_property
    def links(self) -> list[Links]:
        """Source words and words of the system's translation that IBM model 1 links, both ways."""
        word_pairs = [
            (x.words, y.words)
            for x, y in zip(self.spoken["source"], self.spoken["target"], strict=True)
        ]
        train = islice(self._job.corpus.sentences("train"), LEARNT_FROM)
        return agreed_links(
            word_pairs, ((split_words(pair.source), split_words(pair.target)) for pair in train)
        )

    @cached_property
    def match_rate(self) -> float | None:
        """Share of the reference mentions' words that the translation has; None without any."""
        there = []
        for sentence, (output, place) in zip(self.sentences, self._outputs, strict=True):
            words, gold = split_words(sentence.target), sentence.gold or Gold()
            inside = [n for m in gold.target_mentions for n in m.words]
            # Carried and unchanged: a substituted word may be another entity.
            there += [n in place and output[place[n]] == words[n] for n in inside]
        return sum(there) / len(there) if there else None

    @cached_property
    def fingerprint(self) -> str:
        """What decides the weights: stored relevance, or the explainer's own look at each side."""
        explainer = self._explained.explainer
        if explainer.tells_own_side:
            return f"{code_hash(type(explainer))} {self._job.settings.explainer.phi}"
        return self._job.relevance(REAL).fingerprint

    def weights(self) -> Blocks:
        """Yield raw weights (I, N) over each context sentence; sentences without any are left out.

        So are those whose subwords cannot be tied to words.

        Of an explainer that can tell, it is how much each word looks at the words of its own side
        (of attention: the self-attention of encoder and decoder, or what else looks at the
        context). Where sentences are encoded one by one, EOS is the last of their N words. Of
        any other it is relevance, as
        shares of what helps a step; on the source side it replaces a current source word through
        the target words whose best current word it is. A blind explainer's is that of first
        pieces (see `to_words`), so that no word stands out for its pieces.

        Raises:
            NotApplicable: the explainer does not cover this model.
        """
        tells_own_side = self._explained.explainer.tells_own_side
        for index, blocks in self._own_side() if tells_own_side else self._relevance():
            if blocks["source"]:
                yield index, {side: blocks[side] for side in self._sides}

    @property
    def _sides(self) -> tuple[str, ...]:
        """Those on which the system reads a context."""
        return SIDES if self._job.system.context.target else SIDES[:1]

    def _own_side(self) -> Blocks:
        """Yield weights of the current words over all words of their side."""
        explainer, model = self._explained.ready, self._job.system.model
        for index in filter(self._tied, range(len(self.sentences))):
            # One by one, since `own_side` is of one sentence.
            batch = model.collate([(self._own.source[index], self._own.target[index])])
            blocks = {}
            for side, weights_XX in zip(SIDES, explainer.own_side(model, batch), strict=True):
                closed = side == "source" and model.reads_alone
                words, sizes = self._words(side, index, closed)
                size = sum(sizes)
                weights_of_words = to_words(
                    weights_XX.detach().cpu().double().numpy(), words, words, (size, size)
                )
                # Rows of the current sentence, which stands last.
                blocks[side] = _blocks(weights_of_words[sum(sizes[:-1]) :], sizes)
            yield index, blocks

    def _relevance(self) -> Blocks:
        """Yield relevance of all words of a side, for the current words of that side."""
        blind = self._explained.explainer.blind
        for index, relevance in enumerate(self._job.relevance(REAL)):
            if not self._tied(index):
                continue
            source_words, source_sizes = self._words("source", index)
            target_words, target_sizes = self._words("target", index)
            steps, size = target_words[relevance.first :], target_sizes[-1]
            current = np.where(steps >= 0, steps - sum(target_sizes[:-1]), NO_WORD)
            source_YX, target_YY = (
                as_shares(to_words(scores, current, words, (size, sum(sizes)), blind))
                for scores, words, sizes in (
                    (relevance.source_TS, source_words, source_sizes),
                    (relevance.prefix_TT, target_words, target_sizes),
                )
            )
            # Relevance is of target words; source words get theirs through the best alignment.
            source_IX = _of_source(source_YX, source_sizes[-1])
            # Shares are of the whole side, so that blocks of the context sum to less than 1.
            blocks = _blocks(source_IX, source_sizes), _blocks(target_YY, target_sizes)
            yield index, dict(zip(SIDES, blocks, strict=True))

    def _tied(self, index: int) -> bool:
        """Return whether it is known of each piece of a concatenation which word it belongs to."""
        sides = (self._own.source, self._own.target)
        if any(UNTIED in side.words(index) for side in sides):
            log.warning("left out: sentence %d: a subword may be a part of two words", index)
            return False
        return True

    def _words(self, side: str, index: int, closed: bool = False) -> tuple[np.ndarray, list[int]]:
        """Return the word of each id of a concatenation, and the words of each sentence.

        See `count_through`.
        """
        encoded = getattr(self._own, side)
        ids = encoded[index]
        depth = int((ids == SEPARATOR).sum())
        *before, current = (len(s.words) for s in self.spoken[side][index - depth : index + 1])
        sizes = [*(size + closed for size in before), current]
        return count_through(ids, encoded.words(index), sizes, closed), sizes

    def shuffled(self, seed: int) -> Blocks:
        """Yield a floor: the same weights, the words of each context sentence dealt anew.

        They are as many and as great as the explainer's own, so all that they find is chance.
        """
        for index, sides in self.weights():
            # By the sentence, so that a resumed run deals the same.
            generator = np.random.default_rng((seed, index))
            dealt = {
                side: [block[:, generator.permutation(block.shape[1])] for block in blocks]
                for side, blocks in sides.items()
            }
            yield index, dealt

    def uniform(self) -> Blocks:
        """Yield a floor, as `weights` gives them: every word attended to alike."""
        for index in range(len(self.sentences)):
            blocks = {}
            for side in self._sides:
                parts = self.spoken[side][index - self.depth(index) : index + 1]
                sizes = [len(part.words) for part in parts]
                # Even over all words of the side, the current sentence's included, as attention's
                # rows are.
                even_IX = np.full((sizes[-1], sum(sizes)), 1 / max(1, sum(sizes)))
                blocks[side] = _blocks(even_IX, sizes)
            yield index, blocks


def _spoken(words: list[str], mentions: tuple[Mention, ...]) -> Spoken:
    texts = [tuple(words[i] for i in m.words) for m in mentions]
    pairs = zip(mentions, texts, strict=True)
    return Spoken(words, tuple(PlacedMention(m.chain, m.words, t, m.needed) for m, t in pairs))


def _blocks(rows_IX: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
    """Return the columns of each context sentence, nearest first, of sentences of these sizes."""
    # The last sentence is the current one itself.
    return np.split(rows_IX, np.cumsum(sizes)[:-1], axis=1)[-2::-1]


def _of_source(shares_YX: np.ndarray, size: int) -> np.ndarray:
    """Return weights over all X words for each of the `size` current source words, the last of X.

    Those are of the target words whose best current source word it is, their mean.
    """
    rows_IX = np.zeros((size, shares_YX.shape[1]))
    current = shares_YX[:, shares_YX.shape[1] - size :]
    if current.size:
        # A target word that no current word helps replaces none.
        best, has_weight = current.argmax(1), current.max(1) > 0
        for word in np.unique(best[has_weight]):
            rows_IX[word] = shares_YX[has_weight & (best == word)].mean(0)
    return rows_IX
