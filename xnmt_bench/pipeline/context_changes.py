"""What a system's context changes at each word of given targets, in the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from xnmt_bench.corpora.passage import Context, Passage, nearest
from xnmt_bench.corpora.suites.context.example import ExampleSet
from xnmt_bench.corpora.vocabulary.subwords import NO_WORD, UNTIED
from xnmt_bench.errors import NotApplicable
from xnmt_bench.nmt.context_change import compare_contexts
from xnmt_bench.pipeline.decision_table import Columns, store_decisions
from xnmt_bench.pipeline.job import Job
from xnmt_bench.store import Stage

SHARD = 100  # examples
# What a context is compared with. Random sentences stand in the place of those of both sides, or of
# one side where a system reads both.
NONE, RANDOM = "no context", "random context"
RANDOM_SOURCE, RANDOM_TARGET = "random source context", "random target context"


@dataclass(frozen=True)
class Comparison:
    """A context, and what it is compared with.

    Attributes:
        sentences: of the context that are read, the nearest ones.
        against: `NONE`, or a kind of random context.
        draw: the number of a random context.
    """

    sentences: int
    against: str = NONE
    draw: int = 0


def list_comparisons(context: Context, samples: int) -> list[Comparison]:
    """Return what is compared of a system: each number of sentences with none, all with random.

    Args:
        context: that the system reads.
        samples: random contexts of each kind.
    """
    if not context.sentences:
        # Of a system without a context a row of zeros.
        return [Comparison(0)]
    kinds = [RANDOM, *([RANDOM_SOURCE, RANDOM_TARGET] if context.target else [])]
    return [Comparison(number) for number in range(1, context.sentences + 1)] + [
        Comparison(context.sentences, kind, draw) for kind in kinds for draw in range(samples)
    ]


def store_context_changes(
    job: Job, examples: ExampleSet, comparisons: Sequence[Comparison], seed: int
) -> Stage:
    """Return what contexts change at each word of the examples' targets; made if missing.

    The table has a row for each word and comparison: `example` (its index), `word` (`NO_WORD` is
    EOS), `comparison` (its index), `log_ratio` and `kl`, sums over the word's ids, `changed`:
    whether the most probable id changes at one of them, and `right`: whether each of them is the
    most probable one in the context. Examples whose ids cannot be tied to words,
    or are more than the system reads, have no row.

    Args:
        job: whose system.
        examples: the passages.
        comparisons: of each.
        seed: of random contexts.

    Raises:
        NotApplicable: the system is to read gold markers, which these texts lack.
    """
    system, pool = job.system, _ContextPool(examples, seed)
    if system.markers.are_gold:
        raise NotApplicable("nmt.coreference.read=gold: these texts have no annotated coreference")

    def change(example: int) -> Columns:
        passages = [
            passage
            for comparison in comparisons
            for passage in _contexts(example, comparison, system.context, pool)
        ]
        # What reads the same is read once, so that its change is 0 to the last digit.
        distinct = list(dict.fromkeys(passages))
        indices = [distinct.index(passage) for passage in passages]
        pairs = list(zip(indices[::2], indices[1::2], strict=True))
        return _compare(job, example, distinct, pairs)

    return store_decisions(
        job,
        "context_changes",
        "context changes",
        lambda: range(len(examples.examples)),
        lambda shard: [*map(change, shard)],
        shard=SHARD,
        sentences=len(examples.examples),
        version=1,
        together=1,  # examples are computed one by one
        examples=examples.fingerprint,
        context=asdict(system.context),
        comparisons=[asdict(comparison) for comparison in comparisons],
        seed=seed,
        markers=system.markers.resolved_by,
    )


class _ContextPool:
    """The context sentences of all examples, to draw those of other documents from."""

    def __init__(self, examples: ExampleSet, seed: int) -> None:
        self.examples, self._seed = examples.examples, seed
        documents = {
            pair: example.document
            for example in reversed(examples.examples)
            for pair in _pairs(example.passage)
        }
        self._pairs, self._documents = list(documents), list(documents.values())

    def draw(self, index: int, draw: int) -> list[tuple[str, str]]:
        """Return as many sentence pairs as an example's context has, of other documents.

        Raises:
            NotApplicable: there are too few.
        """
        example = self.examples[index]
        excluded, count = {*_pairs(example.passage)}, len(example.passage.source_context)
        rng = np.random.default_rng([self._seed, draw, index])
        # A few at a time, since most are of other documents; then all, in another order.
        for size in (min(len(self._pairs), count + 32), len(self._pairs)):
            drawn = rng.choice(len(self._pairs), size, replace=False).tolist()
            elsewhere = [n for n in drawn if self._documents[n] != example.document]
            pairs = [self._pairs[n] for n in elsewhere if self._pairs[n] not in excluded]
            if len(pairs) >= count:
                return pairs[:count]
        raise NotApplicable("there are too few sentences of other documents for random contexts")


def _pairs(passage: Passage) -> list[tuple[str, str]]:
    """Return the nearest context sentences of both sides; empty targets where there is none."""
    source = passage.source_context
    target = passage.target_context or ("",) * len(source)
    count = min(len(source), len(target))
    return list(zip(nearest(source, count), nearest(target, count), strict=True))


def _contexts(
    example: int, comparison: Comparison, context: Context, pool: _ContextPool
) -> tuple[Passage, Passage]:
    """Return a passage in its context, and in what that is compared with, as the system reads."""
    passage = pool.examples[example].passage
    read = passage.read(replace(context, sentences=comparison.sentences))
    if comparison.against == NONE:
        return read, passage.read(Context(0, context.target, 0))
    drawn = pool.draw(example, comparison.draw)
    # As many as are read of either side.
    source, target = (
        nearest([pair[side] for pair in drawn], len(sentences))
        for side, sentences in enumerate((read.source_context, read.target_context))
    )
    other = replace(
        read,
        source_context=read.source_context if comparison.against == RANDOM_TARGET else source,
        target_context=read.target_context if comparison.against == RANDOM_SOURCE else target,
    )
    return read, other


def _compare(
    job: Job, example: int, passages: Sequence[Passage], pairs: Sequence[tuple[int, int]]
) -> Columns:
    """Return the rows of an example; see `store_context_changes`."""
    model, subwords = job.system.model, job.system.subwords
    tied = [passage.tie(*subwords) for passage in job.system.markers.mark_passages(passages)]
    contexts = [(source.ids, target.ids) for source, target in tied]
    words_T = subwords[1].tie(passages[0].target).words
    longest = (model.longest_source, model.longest_target)
    readable = all(
        most is None or len(ids) <= most
        for sides in contexts
        for ids, most in zip(sides, longest, strict=True)
    )
    if not readable or UNTIED in words_T or not words_T:
        return _rows(example, np.zeros(0, dtype=np.int64), np.zeros((4, len(pairs), 0)))
    changes = compare_contexts(model, contexts, pairs)
    numbers_4KT = (changes.log_ratio_KT, changes.kl_KT, changes.changed_KT, ~changes.right_KT)
    # EOS is the last step, and of no word; a word without an id has no row.
    word_T = np.append(words_T, NO_WORD)
    word_X = np.unique(word_T)
    of_word_TX = (word_T[:, None] == word_X).astype(np.float64)
    return _rows(example, word_X, np.stack([x_KT @ of_word_TX for x_KT in numbers_4KT]))


def _rows(example: int, word_X: np.ndarray, sums_4KX: np.ndarray) -> Columns:
    _, count, words = sums_4KX.shape
    log_ratio, kl, changed, wrong = sums_4KX.reshape(4, -1)
    return {
        "example": np.full(count * words, example),
        "word": np.tile(word_X, count),
        "comparison": np.repeat(np.arange(count), words),
        "log_ratio": log_ratio,
        "kl": kl,
        "changed": changed > 0,
        "right": wrong == 0,
    }
