"""Tags of people in texts: `<p>..</p>` around a pronoun, `<hon>..<hoff>` around what it needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from xnmt_bench.corpora.tokens import split_words

PRONOUN, CUE = "p", "hon"
OPENS, CLOSES = {"<p>": PRONOUN, "<hon>": CUE}, {"</p>": PRONOUN, "<hoff>": CUE}
TAG = re.compile(r"</?p>|<hon>|<hoff>")
# SCAT's files have a further blank before and behind each highlight, which may be a part of a word.
PADDED = re.compile(r"</?p>| ?<hon>|<hoff> ?")


@dataclass(frozen=True)
class TaggedText:
    """A text without its tags, and what they are around.

    Attributes:
        text: the text.
        spans: kind, and first and last character, the last one excluded.
    """

    text: str
    spans: tuple[tuple[str, int, int], ...]

    def words(self, kind: str, write: Callable[[str], str]) -> tuple[str, frozenset[int]]:
        """Return the text as a system reads it, and its words that a tag of a kind touches.

        Args:
            kind: `PRONOUN` or `CUE`.
            write: returns a text as the system reads it, such as tokenised.

        Raises:
            ValueError: it changes more than blanks and case, so that tags have no place in it.
        """
        written = write(self.text)
        if len("".join(written.split())) != len("".join(self.text.split())):
            raise ValueError("the corpus writes the text with other letters")
        # Letters are counted, since blanks come and go.
        before = [len("".join(self.text[:n].split())) for n in range(len(self.text) + 1)]
        spans = [(before[a], before[b]) for k, a, b in self.spans if k == kind]
        touched, start = set[int](), 0
        for number, word in enumerate(split_words(written)):
            # A no-break space in a word does not count as a letter.
            end = start + len("".join(word.split()))
            if any(a < end and start < b for a, b in spans):
                touched.add(number)
            start = end
        return written, frozenset(touched)


def parse_tags(line: str, padded: bool) -> TaggedText:
    """Return a text and its tags; a `<p>` inside a word, as in `w<p>it</p>h`, is dropped.

    Args:
        line: with tags.
        padded: highlights have a further blank on either side.

    Raises:
        ValueError: a tag opens twice, closes nothing, is never closed, or is broken.
    """
    text, spans, opened, end = "", list[tuple[str, int, int]](), list[tuple[str, int]](), 0
    for match in (PADDED if padded else TAG).finditer(line):
        text += line[end : match.start()]
        end, tag = match.end(), match[0].strip()
        # A pronoun may stand inside of a highlight.
        if tag in OPENS and OPENS[tag] not in dict(opened):
            opened.append((OPENS[tag], len(text)))
        elif tag in CLOSES and opened and opened[-1][0] == CLOSES[tag]:
            spans.append((*opened.pop(), len(text)))
        else:
            raise ValueError(f"unbalanced tags: {tag} at character {match.start() + 1}")
    if opened:
        raise ValueError(f"unbalanced tags: <{opened[0][0]}> is never closed")
    text += line[end:]
    if broken := re.search(r"</?(p|hon?|hoff?)\b|\b(hon|hof?f)>", text):
        raise ValueError(f"a broken tag: {broken[0]}")
    kept = (s for s in spans if s[0] != PRONOUN or not _inside(text, *s[1:]))
    return TaggedText(text, tuple(kept))


def _inside(text: str, start: int, end: int) -> bool:
    """Return whether a stretch is a part of a word."""
    return text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()
