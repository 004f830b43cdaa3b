"""Which words may replace each other in a text whose grammar is unknown: a heuristic.

Words are alike that are about as frequent, have the same ending and are capitalised alike: `Hund`
and `Mund`, `sleeping` and `running`. Function words, numbers and punctuation have no substitute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from xnmt_bench.corpora.exchange.substitutes import BothSides, Substitutes, by_key
from xnmt_bench.corpora.function_words import function_words
from xnmt_bench.corpora.sentence import Corpus
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import NotApplicable

RAREST = 2  # occurrences; a word that occurs once may be a typing error
ENDING = 2  # letters


def frequency_bands(corpus: Corpus) -> BothSides:
    """Return categories of words by frequency, ending and capital, from the training split.

    A band reaches from a power of two to the next one.

    Args:
        corpus: its training split is read once.
    """
    sides: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for sentence in corpus.sentences("train"):
        for counts, text in zip(sides, (sentence.source, sentence.target), strict=True):
            counts.update(split_words(text))
    languages = (corpus.source_language, corpus.target_language)
    source, target = (
        Substitutes(by_key(_keyed(counts, function_words(language))).values())
        for counts, language in zip(sides, languages, strict=True)
    )
    return BothSides(source, target)


def categories_of(corpus: Corpus, heuristic: bool, option: str) -> BothSides:
    """Return which words may replace each other.

    Args:
        corpus: whose words.
        heuristic: by `frequency_bands`; else by the corpus's own grammar.
        option: its name, for the message.

    Raises:
        NotApplicable: the corpus does not know its grammar, and the heuristic is off.
    """
    if heuristic:
        return frequency_bands(corpus)
    if categories := corpus.substitutes():
        return categories
    raise NotApplicable(
        f"{corpus.name} does not say which words may replace each other; {option}=true takes "
        "words of like frequency and ending"
    )


def _keyed(counts: Counter[str], functions: frozenset[str]) -> Iterator[tuple[str, str]]:
    # Sorted, so that categories do not depend on the order of the text.
    for word, count in sorted(counts.items()):
        if count >= RAREST and word.isalpha() and word.lower() not in functions:
            band = count.bit_length()
            yield f"{band} {word[0].isupper()} {word[-ENDING:].lower()}", word
