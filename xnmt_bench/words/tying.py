"""Ties the tokens of another tool's dump to the words of the text that they are of."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.words.weighed import Tokens, unescaped

UNKNOWN = re.compile(r"<unk>|\[unk\]|unk|⁇", re.IGNORECASE)  # as tools write an unknown word


def tie_tokens(tokens: Tokens, text: str) -> Tokens | None:
    """Return tokens with the words of a text, or None where they cannot be tied to them.

    Tools change letters (case, compatibility forms, accents) and blanks, but keep the order of
    letters. The letters of all tokens are compared with those of the text. Where they differ, as by
    an unknown word, there have to be as many words, and no two neighbours may differ.

    Args:
        tokens: of a dump, with words by the marks of its tool.
        text: with words between ASCII blanks.
    """
    words = split_words(text)
    pieces = [
        _letters(unescaped(piece)) if word >= 0 else ""
        for piece, word in zip(tokens.bare, tokens.words, strict=True)
    ]
    letters = [_letters(unescaped(word)) for word in words]
    tied: Sequence[int] | None = None
    if "".join(pieces) == "".join(letters):
        tied = _by_letters(pieces, letters, tokens.words)
    if tied is None and _alike(tokens, words):
        tied = tokens.words
    return None if tied is None else replace(tokens, words=tuple(tied))


def _letters(text: str) -> str:
    """Return what tools keep of a text: its base letters and symbols, in one case."""
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    # Blanks, control and format characters, and marks come and go.
    return "".join(c for c in decomposed if unicodedata.category(c)[0] not in "ZCM")


def _by_letters(
    pieces: Sequence[str], letters: Sequence[str], groups: Sequence[int]
) -> list[int] | None:
    """Return the word that holds the letters of each piece; None where two or none do.

    Args:
        pieces: the letters of each.
        letters: of each word.
        groups: the word of each piece by the tool's marks; below 0 for none.
    """
    word_of_letter = [number for number, word in enumerate(letters) for _ in word]
    tied, start = list[int](), 0
    for group, members in groupby(zip(groups, pieces, strict=True), key=lambda member: member[0]):
        if group < 0:
            tied += [group for _ in members]
            continue
        words_of_pieces: list[set[int]] = []
        for _, piece in members:
            words_of_pieces.append(set(word_of_letter[start : start + len(piece)]))
            start += len(piece)
        with_letters = [numbers for numbers in words_of_pieces if numbers]
        # A mark that was cut off the word before it, unless it may be a word of only marks.
        if not with_letters:
            before, behind = ([-1, *word_of_letter, len(letters)][start + n] for n in (0, 1))
            with_letters = [{before}] if 0 <= before == behind - 1 else []
        if not with_letters or any(len(numbers) > 1 for numbers in with_letters):
            return None
        # A piece without letters, such as a single blank, is of the word of the next one.
        following = with_letters[-1]
        for place in reversed(range(len(words_of_pieces))):
            following = words_of_pieces[place] = words_of_pieces[place] or following
        tied += [number for numbers in words_of_pieces for number in numbers]
    return tied


def _alike(tokens: Tokens, words: Sequence[str]) -> bool:
    """Return whether a dump has as many words, and each is plainly the text's."""
    joined_tokens = tokens.whole()
    in_words = zip(joined_tokens.pieces, joined_tokens.words, strict=True)
    token_words = [unescaped(piece) for piece, word in in_words if word >= 0]
    if len(token_words) != len(words):
        return False
    differs = [
        _letters(token) != _letters(unescaped(word))
        for token, word in zip(token_words, words, strict=True)
    ]
    unknown = [bool(UNKNOWN.fullmatch(token)) for token in token_words]
    # One word that vanished and a neighbour that was split would keep the count.
    return not any(
        a and b and not (known_a and known_b)
        for (a, known_a), (b, known_b) in pairwise(zip(differs, unknown, strict=True))
    )
