"""Wino-X (Emelin and Sennrich 2021): `it` is one of two things whose words differ in gender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xnmt_bench.corpora.suites.consistency.pronouns import THINGS, bare
from xnmt_bench.corpora.suites.consistency.suite import Entity, Item, Span, Suite, left_out
from xnmt_bench.corpora.text import json_object, text_lines
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import DataError

ANSWERS = (1, 2)
FIELDS = ("translation{}", "pronoun{}", "referent{}_en")
NEEDED = ("sentence", "answer", *(field.format(n) for n in ANSWERS for field in FIELDS))


def wino_x(data: Path, language: str) -> Suite:
    """Return JSON lines `wino_x/mt_en_<language>.jsonl`, as the published data card has them.

    `answer` says which of two translations, which differ in their pronoun, is the right one, and
    so which of two referents the pronoun has. The pronoun is the first `it` after both referents,
    else the last; where there is none, `its` or `itself`. Lines whose sentence holds none, or does
    not name two referents, are counted and listed.
    """
    path = data / "wino_x" / f"mt_en_{language}.jsonl"
    sources: list[str] = []
    targets: list[str] = []
    items: list[Item] = []
    problems: dict[int, str] = {}
    for number, text in text_lines(path):
        row = _row(path, number, text)
        words = split_words(row["sentence"])
        right = int(row["answer"])
        # The other one of 1 and 2.
        wrong = ANSWERS[0] + ANSWERS[1] - right
        named = {n: row[f"referent{n}_en"] for n in ANSWERS}
        spans = {n: _last_span(words, name) for n, name in named.items()}
        forms = [bare(word) for word in words]
        by_noun = ([n for n, form in enumerate(forms) if form == noun] for noun in THINGS)
        pronouns = next(filter(None, by_noun), [])
        expected = bare(row[f"pronoun{right}"])
        if lost := [name for n, name in named.items() if not spans[n]]:
            problems[number] = f"the sentence lacks {lost[0]!r}"
        elif set(spans[right]) & set(spans[wrong]):
            problems[number] = f"{named[right]!r} and {named[wrong]!r} are the same words"
        elif not expected:
            problems[number] = f"pronoun{right} is empty"
        elif not pronouns:
            problems[number] = f"the sentence has none of {', '.join(THINGS)}"
        else:
            behind = max(max(span) for span in spans.values())
            # A pronoun stands behind what it refers to, with few exceptions.
            pronoun = next((n for n in pronouns if n > behind), pronouns[-1])
            entity, other = Entity(spans[right]), Entity(spans[wrong])
            items.append(Item(len(sources), pronoun, entity, other, expected=expected))
        # Lines that are left out keep their place, so that translations stay aligned.
        sources.append(" ".join(words))
        targets.append(row[f"translation{right}"])
    left_out(path, problems)
    return Suite.of("wino_x", sources, items, targets)


def _row(path: Path, number: int, text: str) -> Mapping[str, Any]:
    row = json_object(path, number, text)
    if missing := [name for name in NEEDED if name not in row]:
        raise DataError(path, number, f"the field {missing[0]!r} is missing")
    # As text, since files have the answer as a number or in quotes.
    if str(row["answer"]) not in map(str, ANSWERS):
        raise DataError(path, number, f"answer {row['answer']!r} is neither 1 nor 2")
    if wrong := [name for name in NEEDED if name != "answer" and not isinstance(row[name], str)]:
        raise DataError(path, number, f"{wrong[0]} is not text")
    return row


def _last_span(words: Sequence[str], name: str) -> Span:
    """Return the last place of some words among others; none where they are not there."""
    name_forms, word_forms = ([bare(word) for word in some] for some in (split_words(name), words))
    starts = range(len(word_forms) - len(name_forms), -1, -1)  # from the right
    first = next(
        (n for n in starts if name_forms and word_forms[n : n + len(name_forms)] == name_forms),
        None,
    )
    return () if first is None else tuple(range(first, first + len(name_forms)))
