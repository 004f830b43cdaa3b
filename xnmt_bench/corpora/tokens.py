"""Tokens: from raw text to words between blanks, and back; and how two tokenisations align."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from xnmt_bench.errors import XnmtError

CLITIC = re.compile(r" '(?=(?:s|t|re|ve|ll|d|m)\b)", re.IGNORECASE)
VERSION = 2  # raise it when the same text is cut otherwise
BLANKS = " \t\n\r\v\f"
# Other blanks of Unicode, such as a no-break space, lie within a word.
WORD = re.compile(f"[^{BLANKS}]+")


def split_words(text: str) -> list[str]:
    """Return the words of a text: what stands between ASCII blanks.

    Gold annotation, corpora and dumps count these. `str.split` cuts at other characters too.
    """
    return WORD.findall(text)


@cache
def tokenizer(name: str | None, language: str) -> Callable[[str], str]:
    """Return a function that puts blanks between words; English clitics may stand alone already.

    Args:
        name: `moses` (sacremoses, nothing escaped), or None for the unchanged text.
        language: such as `de`.

    Raises:
        XnmtError: no such tokeniser.
    """
    if name is None:
        return str
    if name != "moses":
        raise XnmtError(f"unknown tokenizer {name!r}; the only one is 'moses'")
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(language)
    # A clitic that stands alone already would be cut once more: `don 't` into `don ' t`.
    joined = CLITIC.sub if language == "en" else (lambda _, text: text)
    return lambda text: moses.tokenize(joined("'", text), return_str=True, escape=False)


@cache
def detokenizer(language: str) -> Callable[[Sequence[str]], str]:
    """Return a function that joins tokens to raw text, by Moses' rules for a language.

    Penn Treebank quotes become plain ones, as raw text has them.
    """
    from sacremoses import MosesDetokenizer

    moses = MosesDetokenizer(language)
    quotes = {"``": '"', "''": '"'}
    return lambda tokens: moses.detokenize([quotes.get(t, t) for t in tokens])


def align_tokens(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    """Return pairs of tokens that the cheapest edits carry from one sequence to the other.

    Insertion, deletion, substitution and the swap of two neighbours cost 1 each. Matched,
    substituted and swapped tokens are paired; inserted and deleted ones are not. Where edits cost
    the same, a substitution stands before a swap, and both before a deletion and an insertion.

    Args:
        first: tokens, such as a corpus's.
        second: tokens, such as a system's.
    """
    cost = _costs(first, second)  # which the way back retraces from the end
    pairs: list[tuple[int, int]] = []
    # Back from the end, by the costs that `_costs` has kept.
    i, j = len(first), len(second)
    while i and j:
        differs = first[i - 1] != second[j - 1]
        # Tried in this order, which decides among edits of equal cost.
        if cost[i][j] == cost[i - 1][j - 1] + differs:
            pairs.append((i - 1, j - 1))
            i, j = i - 1, j - 1
        elif _swapped(first, second, i, j) and cost[i][j] == cost[i - 2][j - 2] + 1:
            pairs += [(i - 1, j - 2), (i - 2, j - 1)]
            i, j = i - 2, j - 2
        elif cost[i][j] == cost[i - 1][j] + 1:
            i -= 1
        else:
            j -= 1
    return sorted(pairs)


def _costs(first: Sequence[str], second: Sequence[str]) -> list[list[int]]:
    """Return edits between every two prefixes."""
    rows = [list(range(len(second) + 1))]
    for i in range(1, len(first) + 1):
        row = [i]
        for j in range(1, len(second) + 1):
            changed = rows[i - 1][j - 1] + (first[i - 1] != second[j - 1])
            # Substitution, deletion, insertion.
            row.append(min(changed, rows[i - 1][j] + 1, row[j - 1] + 1))
            if _swapped(first, second, i, j):
                # Restricted edit distance: swapped neighbours are not edited again.
                row[j] = min(row[j], rows[i - 2][j - 2] + 1)
        rows.append(row)
    return rows


def _swapped(first: Sequence[str], second: Sequence[str], i: int, j: int) -> bool:
    """Return whether the last two tokens of both prefixes are each other's, exchanged."""
    return min(i, j) > 1 and first[i - 2] == second[j - 1] != first[i - 1] == second[j - 2]
