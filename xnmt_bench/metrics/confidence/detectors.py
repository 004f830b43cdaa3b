"""What else tells a broken translation: by its weights, its probability, or only its text.

Each is NaN where it cannot be told. Shapes as in `scores`; p_S: of all weights, the share that each
source token gets.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from xnmt_bench.corpora.languages import (
    CHARACTERS,
    CHINESE,
    UNKNOWN,
    cut_words,
    lacks_blanks,
    tokenizer_name,
)
from xnmt_bench.words import Weighed

LITTLE = 0.2  # attention below which a source token is ignored (Berard et al. 2019)
NEAREST, REFERENCE = 4, 1000  # of Wass-to-Data: sentences that are averaged, and compared with
ALIKE = 0.1  # how far their target lengths may differ
SEED = 0  # of the draw where more are alike
GRAM = 4  # words
GRAM_OF_CHARACTERS = {CHINESE: 7, CHARACTERS: 16}  # about four words of Chinese, and of Thai
ANY_LANGUAGES = (UNKNOWN, UNKNOWN)
DIGITS = re.compile(r"\d+")
CORRUPT = ("Cc", "Co", "Cs")  # control, private use, surrogate
KEPT = "\t\n\r"


def attention_to_eos(sentence: Weighed) -> float:
    """Return the share of all weights that goes to the source's EOS (Berard et al. 2019)."""
    total = sentence.weights_TS.sum()
    return (
        float(sentence.weights_TS[:, -1].sum() / total)  # EOS is the last token
        if sentence.source.eos and total > 0
        else np.nan
    )


def ignored_source(sentence: Weighed) -> float:
    """Return the share of source tokens whose weights sum to less than 0.2 (Berard et al. 2019)."""
    if not sentence.source.size:
        return np.nan
    return float((sentence.weights_TS.sum(0)[: sentence.source.size] < LITTLE).mean())


def wass_to_uniform(p_S: np.ndarray) -> float:
    """Return Wass-to-Unif, 0.5 * |p - u|_1: the distance from even (Guerreiro et al. 2023)."""
    return float(0.5 * np.abs(p_S - 1 / len(p_S)).sum()) if len(p_S) else np.nan


class WassToData:
    """Wass-to-Data: how far p is from other sentences' (Guerreiro et al. 2023).

    The earth mover's distance between two p, a token's place being its number, to other
    translations of like length (10 % more or less, at most 1,000); the mean of the four nearest.

    Args:
        shares: p_S of each sentence.
        lengths: the target tokens of each.
    """

    def __init__(self, shares: Sequence[np.ndarray], lengths: Sequence[int]) -> None:
        self._length_N = np.asarray(lengths)
        longest = max(map(len, shares), default=0)
        # Cumulated, behind its end 1: the distance is then the sum of absolute differences.
        self._cumulated_NS = np.array(
            # On a line the earth mover's distance is the area between two cumulated distributions.
            [np.pad(np.cumsum(p), (0, longest - len(p)), constant_values=1.0) for p in shares]
        )
        self._known_N = np.array([bool(len(p)) and bool(np.isfinite(p).all()) for p in shares])

    def of(self, index: int) -> float:
        """Return the number of one of the sentences; NaN where fewer than four others are alike."""
        if not self._known_N[index]:
            return np.nan
        length = self._length_N[index]
        alike = np.abs(self._length_N - length) <= ALIKE * length
        alike[index] = False  # its distance to itself is 0
        places = np.flatnonzero(alike & self._known_N)
        # Enough to find near ones; more would make the metric quadratic in the test set.
        if len(places) > REFERENCE:
            # By its own number, so that a sentence's score does not depend on which were scored
            # before.
            draw = np.random.default_rng((SEED, index))
            places = np.sort(draw.choice(places, REFERENCE, replace=False))
        if len(places) < NEAREST:
            return np.nan
        distance = np.abs(self._cumulated_NS[places] - self._cumulated_NS[index]).sum(1)
        # The four smallest, without sorting a thousand.
        return float(np.partition(distance, NEAREST - 1)[:NEAREST].mean())


def log_probability(sentence: Weighed) -> float:
    """Return the mean log-probability of the translation's tokens (Guerreiro et al. 2023)."""
    log_p = sentence.log_probability_T
    return np.nan if log_p is None or not len(log_p) else float(log_p.mean())


def source_contribution(sentence: Weighed) -> tuple[float, float]:
    """Return how much of what helps a step is source (Dale et al. 2023, after ALTI+).

    Of positive weights, the source's share of source and prefix, the mean over steps; and the
    greatest source token's share of them, the mean over steps. NaN without prefix weights.
    """
    if sentence.prefix_TT is None or not len(sentence.weights_TS):
        return np.nan, np.nan
    # What lowers a step's probability contributes nothing to it.
    source_TS, prefix_TT = np.maximum(sentence.weights_TS, 0), np.maximum(sentence.prefix_TT, 0)
    total_T = source_TS.sum(1) + prefix_TT.sum(1)
    there = total_T > 0  # a step that nothing helps has no share
    if not there.any():
        return np.nan, np.nan
    share_TS = source_TS[there] / total_T[there, None]
    return float(share_TS.sum(1).mean()), float(share_TS.max(1).mean())


def top_four_gram(source: str, target: str, languages: tuple[str, str] = ANY_LANGUAGES) -> int:
    """Return the translation's commonest 4-gram's count, less the source's (Raunak et al. 2021).

    Where words are characters, it is of seven of Chinese and of sixteen of other scripts.
    """
    source_count, target_count = map(_count_commonest, (source, target), languages)
    return target_count - source_count


def _count_commonest(text: str, language: str) -> int:
    words = cut_words(text, language)
    tokenizer = tokenizer_name(language) if language else CHARACTERS
    size = GRAM_OF_CHARACTERS.get(tokenizer, GRAM) if lacks_blanks([text]) else GRAM
    grams = Counter(zip(*(words[n:] for n in range(size)), strict=False))  # the shortest ends it
    return max(grams.values(), default=0)


def length_ratio(source: str, target: str, languages: tuple[str, str] = ANY_LANGUAGES) -> float:
    """Return words of the translation over words of the source (Rikters 2018, section 4)."""
    source_words, target_words = map(len, map(cut_words, (source, target), languages))
    return target_words / source_words if source_words else np.nan


def digits_differ(source: str, target: str) -> bool:
    """Return whether the numbers in digits are not the same (Rikters 2018, section 4)."""
    # As bags: languages order numbers in other ways.
    return Counter(_find_numbers(source)) != Counter(_find_numbers(target))


def _find_numbers(text: str) -> list[str]:
    # Arabic, Hindi and Thai have digits of their own, and Chinese texts wide ones.
    return ["".join(str(unicodedata.digit(c)) for c in run) for run in DIGITS.findall(text)]


def strange_symbols(source: str, target: str) -> int:
    """Return characters of the translation that are foreign or corrupt (Rikters 2018, section 4).

    Corrupt: replacement, control and private characters, and letters that are UTF-8 read as
    Latin-1, such as the two of `Ã¼`. Foreign: letters of another script than most of its letters,
    which the source has not either.
    """
    corrupt = sum(
        c == "\N{REPLACEMENT CHARACTER}" or (unicodedata.category(c) in CORRUPT and c not in KEPT)
        for c in target
    )
    scripts = Counter(script for c in target if (script := _script(c)))
    most = scripts.most_common(1)[0][0] if scripts else ""
    # A foreign name may be copied from the source.
    foreign = sum(_script(c) not in ("", most) and c not in source for c in target)
    return corrupt + foreign + len(MOJIBAKE.findall(target))


# The lead byte of most Latin letters and signs, each byte read as a character of Latin-1, or of
# Windows-1252.
MOJIBAKE = re.compile("[\u00c2\u00c3][\u0080-\u00bf]|\u00e2\u20ac.")
EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO")


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    """Return a script such as LATIN or CYRILLIC; empty for signs, `º` and `µ` among them."""
    plain = unicodedata.normalize("NFKC", letter)
    # Letters that are compatibility forms, such as the micro sign, belong to no script of the text.
    if not letter.isalpha() or unicodedata.category(letter) == "Lm" or plain != letter:
        return ""
    name = unicodedata.name(letter, "").split(" ")[0]
    # Japanese and Korean mix several of these scripts in one sentence.
    return "CJK" if name.startswith(EAST_ASIAN) else name
