"""Pronouns of a corpus's own coreference chains, such as ParCorFull's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from xnmt_bench.corpora.function_words import function_words
from xnmt_bench.corpora.sentence import Corpus, Mention, Sentence
from xnmt_bench.corpora.suites.consistency.pronouns import PRONOUNS, THINGS, bare
from xnmt_bench.corpora.suites.consistency.suite import Entity, Item, Span, Suite
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import NotApplicable

ANEW = ("'s", "'", ",")  # `Obama 's wife` is a wife
KINDS = [(kind, "of") for kind in ("kind", "kinds", "sort", "sorts")]
NOMINAL = ("", "np")  # kinds of mentions; the first is the default


@dataclass(frozen=True)
class Nominal:
    """A mention that names something: its sentence, and the words that do."""

    sentence: int
    mention: Mention
    head: Span

    def seen_from(self, sentence: int) -> Entity:
        """Return the entity of a pronoun in a later sentence, or in the same."""
        return Entity(self.head, sentence - self.sentence)


def chains(corpus: Corpus) -> Suite:
    """Make a suite of third-person pronouns, each with the nearest earlier nominal of its chain.

    The other entity is the nearest earlier nominal mention of another chain, from the entity's
    sentence on. The source tells no gender: a person's, which `she` shows, is not the noun's.
    Sentences are those of the corpus's test set, with their references; words are its own.

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
    # All sentences, also those without a pronoun: their numbers are the test set's.
    return Suite(corpus.name, sentences, items)


def _of_document(
    document: Sequence[tuple[int, Sentence]], closed: frozenset[str]
) -> Iterator[Item]:
    earlier: list[Nominal] = []
    for number, sentence in document:
        words = split_words(sentence.source)
        mentions = sentence.gold.source_mentions if sentence.gold else ()
        # In reading order: what is nearest and earlier depends on it.
        for mention in sorted(mentions, key=lambda m: m.words):
            if (item := _item(number, words, mention, earlier)) is not None:
                yield item
            elif mention.kind in NOMINAL and (head := _head(words, mention.words, closed)):
                earlier.append(Nominal(number, mention, head))


def _item(
    number: int, words: Sequence[str], mention: Mention, earlier: Sequence[Nominal]
) -> Item | None:
    """Return a pronoun with its antecedent; None for other words or without one."""
    pronoun = bare(words[mention.words[0]])
    if len(mention.words) > 1 or pronoun not in (*PRONOUNS, *THINGS):
        return None
    [place] = mention.words
    # What the pronoun is a part of, as of `his brother`, it does not refer to.
    apart = [m for m in reversed(earlier) if m.sentence != number or place not in m.mention.words]
    entity = next((m for m in apart if m.mention.chain == mention.chain), None)
    if entity is None:
        return None
    other_nominals = (
        m
        for m in apart
        if m.mention.chain != mention.chain
        and m.sentence >= entity.sentence
        and not (m.sentence == entity.sentence and set(m.head) & set(entity.head))
    )
    other = next((nominal.seen_from(number) for nominal in other_nominals), None)
    return Item(number, place, entity.seen_from(number), other)


def _head(words: Sequence[str], span: Span, closed: frozenset[str]) -> Span:
    """Return the first run of content words, without what follows (`man` of `the man who`).

    Behind a comma between adjectives, `'s` and `kind of` it begins anew; numbers are left out.
    """
    head: list[int] = []
    forms = [words[place].lower() for place in span]
    content = [bool(bare(form)) and form not in closed for form in forms]
    for n, place in enumerate(span):
        if content[n]:
            head += [] if forms[n].isdigit() else [place]
        elif not head:
            continue
        elif (forms[n - 1], forms[n]) in KINDS or (
            forms[n] in ANEW and any(content[n + 1 : n + 2])
        ):
            # The words so far do not belong to the head, as an owner's before `'s`.
            head = []
        else:
            break
    return tuple(head)
