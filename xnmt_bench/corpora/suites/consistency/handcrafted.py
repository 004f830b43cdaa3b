"""Sentences of Saunders and Byrne (2020): `the X finished his work .|translation`."""

from __future__ import annotations

from pathlib import Path

from xnmt_bench.corpora.suites.consistency.pronouns import ARTICLES, PRONOUNS
from xnmt_bench.corpora.suites.consistency.suite import Entity, Item, Suite
from xnmt_bench.corpora.text import text_lines
from xnmt_bench.corpora.tokens import BLANKS, split_words
from xnmt_bench.errors import DataError

VERB = "finished"


def handcrafted(data: Path, language: str) -> Suite:
    """Return one entity a sentence, and one pronoun; the translations are references."""
    path = data / "handcrafted" / f"handcrafted.en-{language}.txt"
    sources: list[str] = []
    targets: list[str] = []
    items: list[Item] = []
    for number, text in text_lines(path):
        source, bar, target = text.partition("|")
        words = split_words(source)
        pronouns = [n for n, word in enumerate(words) if word in PRONOUNS]
        if not bar or len(pronouns) != 1 or words[0] not in ARTICLES or VERB not in words[2:]:
            raise DataError(path, number, "not of the form 'the X finished his work .|translation'")
        entity = Entity(tuple(range(1, words.index(VERB))))  # between article and verb
        gender = PRONOUNS[words[pronouns[0]]]
        items.append(Item(len(items), pronouns[0], entity, gender=gender))
        sources.append(source.strip(BLANKS))
        targets.append(target.strip(BLANKS))
    return Suite.of("handcrafted", sources, items, targets)
