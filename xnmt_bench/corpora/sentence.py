"""The one sentence object that every corpus yields."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from xnmt_bench.errors import XnmtError
from xnmt_bench.lazy import Lazy

if TYPE_CHECKING:
    from xnmt_bench.corpora.exchange.substitutes import BothSides
    from xnmt_bench.corpora.suites.context.example import ExampleSet
    from xnmt_bench.corpora.suites.contrastive.group import ContrastiveSet

Split = Literal["train", "valid", "test"]
SIDES = ("source", "target")
# In this order in recipes, whose fingerprints depend on it.
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
Links = frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Mention:
    """A mention of a coreference chain.

    Attributes:
        chain: the chain's name.
        words: 0-based word positions in its sentence.
        needed: whether one has to look for its antecedent in the context, where annotators said so.
        kind: such as `np`, `pronoun` or `clause`, where annotators said so.
    """

    chain: str
    words: tuple[int, ...]
    needed: bool | None = None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Planted:
    """A target word that other words decide, by construction; which of them, the corpus says.

    Attributes:
        slot: its kind, such as `opening`.
        word: the target word's position in its sentence, counted from 0.
        link: the source word that is translated by it, or the first of two that decide.
        cue: the source word that says it again, or the second.
        other_links: words in the link's place that ask for another target word.
        other_cues: the same in the cue's place.
        earlier: an earlier target word that decides it; None where none does.
        takes_both: link and cue decide it together, so that replacing only one of them says
            little of what it does.
        link_in_prefix, cue_in_prefix: the word is an earlier target word, and no source word.
    """

    slot: str
    word: int
    link: int
    cue: int
    other_links: tuple[str, ...] = ()
    other_cues: tuple[str, ...] = ()
    earlier: int | None = None
    takes_both: bool = False
    link_in_prefix: bool = False
    cue_in_prefix: bool = False


@dataclass(frozen=True, slots=True)
class Gold:
    """Gold annotation of a sentence pair, on words separated by white space, counted from 0.

    Attributes:
        sure: (source word, target word) links an aligner must find.
        possible: links it may find; always holds the sure ones.
        source_mentions: coreference mentions on the source side.
        target_mentions: the same on the target side.
        deciding_source: for each target word, the source words that decide it.
        deciding_prefix: for each target word, the earlier target words that decide it.
        planted: target words with a link and a cue, where a corpus was made with them.
    """

    sure: Links = frozenset()
    possible: Links = frozenset()
    source_mentions: tuple[Mention, ...] = ()
    target_mentions: tuple[Mention, ...] = ()
    deciding_source: tuple[frozenset[int], ...] = ()
    deciding_prefix: tuple[frozenset[int], ...] = ()
    planted: tuple[Planted, ...] = ()


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence pair and its place in its document."""

    source: str
    target: str
    document: str
    position: int
    gold: Gold | None = None


class Corpus(Lazy, ABC):
    """What every corpus answers. Sentences stream: none is kept.

    Attributes:
        name: the corpus's name in results; it decides nothing.
        source_language: what is translated from.
        target_language: what is translated to.
        generated: the sentences were made by a program.
        tokenizer: what put blanks between words, where `raw` takes them out again.
        marked: source sentences hold markers around the mentions of clusters.
        plants: it is known of some target words which source words may decide them.
        translated: every sentence has a target; else it may be empty, as in a suite of sources.
    """

    name: str
    source_language: str
    target_language: str
    generated: bool = False
    tokenizer: str | None = None
    marked: bool = False
    plants: bool = False
    translated: bool = True

    @abstractmethod
    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Yield the pairs of a split, in an order that never changes."""

    @abstractmethod
    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return everything that decides the sentences, as plain JSON values.

        Args:
            split: those of this split alone, so that a system is trained once for all test sets.
                Some corpora return the same for each.
        """

    def raw(self, text: str, language: str) -> str:
        """Return a text as it was before it was cut into words; scores of tokens do not compare.

        Args:
            text: words between blanks, as `sentences` yields them.
            language: one of the corpus's two.
        """
        return text

    def words(self, text: str, language: str) -> str:
        """Return a text from elsewhere as `sentences` would yield it: tokenised and cased alike.

        Args:
            text: as it was written.
            language: one of the corpus's two.
        """
        return text

    def contrastive(self, split: Split) -> list[ContrastiveSet]:
        """Return the corpus's own contrastive sets of a split; empty for none."""
        return []

    def cued(self, split: Split) -> list[ExampleSet]:
        """Return the corpus's own sets of passages with cues in a split; empty for none."""
        return []

    @property
    def twins(self) -> Sequence[str]:
        """The fingerprints of the two systems whose decisions are its test set; empty for most."""
        return ()

    def vocabulary_corpus(self) -> Corpus:
        """Return the corpus whose training split vocabularies are learnt from; itself for most."""
        return self

    def substitutes(self) -> BothSides | None:
        """Return which words may replace each other, where the corpus knows its grammar."""
        return None

    def counts(self) -> Iterator[str]:
        """Return counts worth a line each, with published ones where there are any."""
        # Most corpora have no published counts to compare with.
        return iter(())


def named_split(splits: Mapping[str, str], split: str) -> str:
    """Return the name that a corpus gives a split; an XnmtError if it gives none."""
    if split not in splits:
        raise XnmtError(f"corpus.splits: no name is given for {split}")
    return splits[split]


def languages(corpus: Corpus) -> tuple[str, str]:
    """Return the languages of source and target."""
    return corpus.source_language, corpus.target_language


def lang_pair(corpus: Corpus) -> str:
    """Return the pair in the field's notation, such as `de-en`."""
    # From the corpus and not from its name, which decides nothing.
    return "-".join(languages(corpus))
