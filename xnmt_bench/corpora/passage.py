"""A sentence with the sentences around it, as text and as ids of one concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xnmt_bench.corpora.vocabulary.subwords import EOS, NO_WORD, SEPARATOR, Subwords, Tied


@dataclass(frozen=True)
class Context:
    """Which sentences stand around a sentence in a concatenation.

    Attributes:
        sentences: how many of the same document's previous sentences, at most.
        target: on the target side too (many-to-many), or only on the source side (many-to-one).
        following: how many of its following sentences, only on the source side, since they are
            not translated yet.
    """

    sentences: int = 0
    target: bool = True
    following: int = 0

    @property
    def has_sentences(self) -> bool:
        """Whether any sentence stands around."""
        return bool(self.sentences or self.following)


ALONE = Context()  # of a system that reads only the current sentence


@dataclass(frozen=True, slots=True)
class Passage:
    """A sentence pair and the sentences around it, as words between blanks.

    Attributes:
        source, target: the current sentence.
        source_context, target_context: the sentences before it, the nearest last.
        following: the source sentences behind it.
    """

    source: str
    target: str
    source_context: Sequence[str] = ()
    target_context: Sequence[str] = ()
    following: Sequence[str] = ()

    def read(self, context: Context) -> Passage:
        """Return the passage with only the nearest sentences, which a system with a context reads.

        A system that reads both sides reads as many sentences on either.
        """
        count = min(context.sentences, len(self.source_context))
        if context.target:
            # As many on either side, or source and target would be of unlike sentences.
            count = min(count, len(self.target_context))
        return Passage(
            self.source,
            self.target,
            nearest(self.source_context, count),
            # A bool as a factor: 0 sentences where the target side is not read.
            nearest(self.target_context, count * context.target),
            tuple(self.following[: context.following]),
        )

    def encode(self, source: Subwords, target: Subwords) -> tuple[list[int], list[int]]:
        """Return source and target ids, in their context."""
        source_tied, target_tied = self.tie(source, target)
        return source_tied.ids, target_tied.ids

    def tie(self, source: Subwords, target: Subwords) -> tuple[Tied, Tied]:
        """Return source and target ids with their words, in their context; see `concatenated`."""
        before, after = (
            [source.tie(text) for text in texts] for texts in (self.source_context, self.following)
        )
        target_before = [target.tie(text) for text in self.target_context]
        return (
            concatenated([*source.in_front, *before], source.tie(self.source), after),
            concatenated(target_before, target.tie(self.target)),
        )


def nearest(sentences: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the last sentences, in order."""
    # Not `[-count:]`, which for 0 would be all.
    return tuple(sentences[len(sentences) - count :])


def concatenated(before: Sequence[Tied], current: Tied, after: Sequence[Tied] = ()) -> Tied:
    """Return a sentence in its context as one list of ids, with their words.

    Each sentence before it is closed by a separator; it and each sentence behind it by EOS. Words
    are counted from 0 in each sentence.
    """
    # EOS and not a separator, which closes only what stands before the current sentence.
    closed = [(sentence, SEPARATOR) for sentence in before]
    closed += [(sentence, EOS) for sentence in (current, *after)]
    return Tied(
        [i for sentence, end in closed for i in (*sentence.ids, end)],
        [word for sentence, _ in closed for word in (*sentence.words, NO_WORD)],
    )
