"""Pronouns of a corpus's own coreference chains, such as ParCorFull's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from xnmt_bench.corpora.consistency.pronouns import PLURALS, PRONOUNS, THINGS, bare
from xnmt_bench.corpora.consistency.suite import Entity, Item, Span, Suite
from xnmt_bench.corpora.function_words import function_words
from xnmt_bench.corpora.sentence import Corpus, Mention, Sentence
from xnmt_bench.errors import NotApplicable

CLITIC = "'s"  # `Obama 's wife` is a wife
Nominal = tuple[int, str, Span]  # its sentence, its chain, its words


def chains(corpus: Corpus) -> Suite:
    """Every pronoun of the third person, and the nearest earlier nominal mention of its chain.

    The other entity is the nearest earlier nominal mention of another chain, if it is nearer or in
    the sentence of the entity or between. Sentences are those of the corpus's test set, with their
    references; words are the corpus's own.

    Raises:
        NotApplicable: the corpus has no chains.
    """
    sentences = list(corpus.sentences("test"))
    closed = function_words(corpus.source_language)
    items: list[Item] = []
    numbered = enumerate(sentences)
    for _, document in groupby(numbered, key=lambda pair: pair[1].document):
        items += _of_document(list(document), closed)
    if not items:
        raise NotApplicable(f"corpus {corpus.name} has no pronoun with an antecedent")
    return Suite(corpus.name, sentences, items)


def _of_document(
    document: Sequence[tuple[int, Sentence]], closed: frozenset[str]
) -> Iterator[Item]:
    earlier: list[Nominal] = []
    for number, sentence in document:
        words = sentence.source.split()
        mentions = sentence.gold.source_mentions if sentence.gold else ()
        for mention in sorted(mentions, key=lambda m: m.words):
            if (item := _item(number, words, mention, earlier)) is not None:
                yield item
            elif head := _head(words, mention.words, closed):
                earlier.append((number, mention.chain, head))


def _item(
    number: int, words: Sequence[str], mention: Mention, earlier: Sequence[Nominal]
) -> Item | None:
    """A pronoun with its antecedent; None where it is none, or has none."""
    pronoun = bare(words[mention.words[0]])
    if len(mention.words) > 1 or pronoun not in (*PRONOUNS, *THINGS):
        return None
    [place] = mention.words

    def nearest(own: bool) -> Nominal | None:
        """Of its chain, or of any other; a mention that the pronoun is a part of is neither."""
        return next(
            (m for m in reversed(earlier) if (m[1] == mention.chain) == own and place not in m[2]),
            None,
        )

    entity, other = nearest(True), nearest(False)
    if entity is None:
        return None
    if other is not None and other[0] < entity[0]:
        other = None
    gender = None if pronoun in (*THINGS, *PLURALS) else PRONOUNS[pronoun]
    first, second = (m and Entity(m[2], number - m[0]) for m in (entity, other))
    assert first is not None
    return Item(number, place, first, second, gender)


def _head(words: Sequence[str], span: Span, closed: frozenset[str]) -> Span:
    """The first run of content words, without what stands behind it (`man` of `the man who`)."""
    head: list[int] = []
    for place in span:
        content = words[place].lower() not in closed and bool(bare(words[place]))
        if content:
            head.append(place)
        elif words[place].lower() == CLITIC:
            head = []
        elif head:
            break
    return tuple(head)
