"""Which language a text is in, where py3langid is installed."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from xnmt_bench.corpora.languages import cut_words, language_code

log = logging.getLogger(__name__)
LEAST_WORDS = 4  # fewer words are ambiguous
# Among all that it knows it finds rare ones: short English is Nigerian Pidgin to it.
USUAL = ("cs", "de", "en", "es", "fr", "it", "lv", "nl", "pl", "pt", "ru", "uk")


def available() -> bool:
    """Return whether py3langid is installed."""
    return find_spec("py3langid") is not None


def language(text: str, languages: Collection[str]) -> str:
    """Return the language of a text, such as `de`; empty where it has fewer than four words.

    Args:
        text: the text.
        languages: languages that it may be in, besides the usual ones.
    """
    # Whichever language it is in: of a script without blanks each character counts.
    if len(cut_words(text)) < LEAST_WORDS:
        return ""
    identifier, _ = _identifier(frozenset(languages))
    return str(identifier.classify(text)[0])


@lru_cache(maxsize=64)
def code(name: str) -> str:
    """Return py3langid's code of a language, such as `zh` for `zh-CN`; empty if unknown."""
    if not available():
        return ""
    _, languages = _identifier(frozenset())
    if (short := language_code(name)) in languages:
        return short
    log.warning("no language %r is known: translations are not checked for it", name)
    return ""


@lru_cache(maxsize=8)
def _identifier(languages: frozenset[str]) -> tuple[Any, set[str]]:
    """Return py3langid for some languages, and all languages that it knows."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    every = set(identifier.nb_classes)
    # Sorted, so that ties between languages fall alike on every run.
    identifier.set_languages(sorted({*USUAL, *languages} & every))
    return identifier, every
