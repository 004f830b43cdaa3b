"""Words of the closed classes, which carry structure and no content of their own."""

from __future__ import annotations

from xnmt_bench.corpora.languages import language_code
from xnmt_bench.corpora.text import word_lists
from xnmt_bench.morphology.base import stripped

EOS_MARK = "</s>"  # the name of EOS where it stands among words
# Russian with its inflected forms, since texts are not lemmatised. Chinese in single characters, as
# which metrics count its words; simplified, then traditional.
_WORDS = word_lists(__package__, "function_words.tsv")


def function_words(language: str) -> frozenset[str]:
    """Return the lower-cased function words of a language; none for a language without a list."""
    # An unknown language has no list, and all of its words count as content.
    return frozenset(_WORDS.get(language_code(language), ()))


def is_function(word: str, function_words: frozenset[str]) -> bool:
    """Return whether a word is a function word, punctuation or EOS (Dinarelli et al. 2024, 4).

    Args:
        word: as the text has it, with or without attached punctuation, or `EOS_MARK`.
        function_words: of its language.
    """
    if word == EOS_MARK or not any(map(str.isalnum, word)):
        return True
    return not function_words.isdisjoint((word.lower(), stripped(word).lower()))
