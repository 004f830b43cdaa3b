"""What a coreference resolver makes of a suite's sources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from xnmt_bench.corpora.consistency.suite import Entity, Item, Suite, left_out
from xnmt_bench.corpora.text import present, text_lines
from xnmt_bench.errors import DataError
from xnmt_bench.parsing import parse_json
from xnmt_bench.store import file_hash

TOKENS, CLUSTERS = ("tokens", "document"), "clusters"  # AllenNLP calls the tokens `document`
Stretch = tuple[int, int]  # first letter, and the one behind the last


class Resolver:
    """JSON lines of `tokens` (or `document`), and `clusters` of mentions `[first, last]`.

    Tokens are a resolver's own, which splits words or drops punctuation, so places are compared in
    letters and digits. Lines of no sentence of the suite are counted and listed.

    Raises:
        DataError: a line is not in this format, or none is of the suite.
    """

    def __init__(self, path: Path, suite: Suite) -> None:
        self._suite, self.fingerprint = suite, file_hash(present(path))[:16]
        suite_letters = {_letters(sentence.source) for sentence in suite.sentences}
        self._clusters: dict[str, list[list[Stretch]]] = {}
        problems: dict[int, str] = {}
        for number, text in text_lines(path):
            try:
                row: Any = parse_json(text)
                tokens = next(row[name] for name in TOKENS if name in row)
                # Letters alone are the same under every tokenisation.
                key = "".join(map(_letters, tokens))
                clusters = [
                    [_stretch(tokens, *mention) for mention in cluster] for cluster in row[CLUSTERS]
                ]
            except JSONDecodeError as error:
                raise DataError(path, number, f"no JSON: {error.msg}") from None
            except (ValueError, KeyError, TypeError, IndexError, StopIteration) as error:
                needed = "needed are tokens (or document) and clusters of [first, last]"
                raise DataError(path, number, f"{needed}: {error!r}") from None
            text = " ".join(tokens)
            if self._clusters.get(key, clusters) != clusters:
                raise DataError(path, number, f"other clusters than a line above has: {text!r}")
            if key in suite_letters:
                self._clusters[key] = clusters
            else:
                problems[number] = f"tokens of no sentence of the suite: {text!r}"
        if not self._clusters:
            raise DataError(path, None, f"no line is of a sentence of {suite.name}")
        left_out(path, problems)

    def right(self, item: Item) -> bool | None:
        """Return whether it joins a pronoun and its entity; None for a sentence that it lacks.

        A pronoun inside of a longer mention (`his` of `his car`) stands for what that mention does
        not name, and is not taken for it.
        """
        sentence = self._suite.sentences[item.sentence].source
        clusters = self._clusters.get(_letters(sentence))
        if clusters is None:
            return None
        words = _starts(sentence.split())
        # Its letters, from the first to behind the last.
        pronoun = (words[item.pronoun], words[item.pronoun + 1])
        return any(
            pronoun in cluster and any(_names(words, item.entity, mention) for mention in cluster)
            for cluster in clusters
        )


def _names(words: Sequence[int], entity: Entity, mention: Stretch) -> bool:
    """Return whether a mention holds a word of an entity."""
    # Two stretches of letters overlap.
    return any(mention[0] < words[n + 1] and words[n] < mention[1] for n in entity.words)


def _stretch(tokens: list[str], first: int, last: int) -> Stretch:
    """Return where a mention stands."""
    if not (isinstance(tokens, list) and 0 <= first <= last < len(tokens)):
        raise ValueError(f"no mention [{first}, {last}]")
    starts = _starts(tokens)
    return starts[first], starts[last + 1]


def _letters(text: str) -> str:
    return re.sub(r"\W", "", text)


def _starts(words: Sequence[str]) -> list[int]:
    """Return where each word starts, counted in letters, and where the last ends."""
    return [0, *accumulate(len(_letters(word)) for word in words)]
