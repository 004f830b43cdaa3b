"""Documents of MMAX2 XML (Müller and Strube 2006): words, sentences and coreference mentions."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from xnmt_bench.corpora.sentence import Mention
from xnmt_bench.errors import DataError

NO_CHAIN = ("", "empty")


@dataclass(frozen=True)
class Document:
    """One side of a document.

    Attributes:
        name: the file's own, such as `000_1756`.
        sentences: the words of each sentence.
        mentions: for each sentence its mentions, from left to right.
        problem: why the mentions could not be read, or None.
    """

    name: str
    sentences: list[list[str]]
    mentions: list[list[Mention]]
    problem: DataError | None = None


def read_document(folder: Path, name: str, needed: str | None = None) -> Document:
    """Read `<folder>/Basedata/<name>_words.xml` and its markables.

    A mention that runs over several sentences is cut at the end of its first. A layer of mentions
    that is not XML leaves the text without mentions and is named in `problem`.

    Raises:
        DataError: words or sentences are not readable, with file and line.
    """
    path = folder / "Basedata" / f"{name}_words.xml"
    # A dictionary keeps the order of the file, which is that of the text.
    elements = [*_elements(path)]
    words = {e.get("id", ""): (e.text or "").strip() for e in elements}
    if len(words) < len(elements):
        raise DataError(path, None, "two words have one id")
    if not words:
        raise DataError(path, None, "the document has no words")
    # Spans name words by id, and not by place.
    places = {identifier: place for place, identifier in enumerate(words)}
    path = folder / "Markables" / f"{name}_sentence_level.xml"
    spans = sorted(_span(path, m, places) for m in _elements(path))  # files have them in any order
    sentence_of = {place: s for s, span in enumerate(spans) for place in span}
    place_in = [{place: n for n, place in enumerate(span)} for span in spans]
    mentions: list[list[Mention]] = [[] for _ in spans]
    path, problem = folder / "Markables" / f"{name}_coref_level.xml", None
    try:
        chained = [
            (
                m.get("coref_class", ""),
                _span(path, m, places),
                _answer(path, m, needed),
                m.get("mention", ""),
            )
            for m in _elements(path)
            if m.get("coref_class", "") not in NO_CHAIN
        ]
    except DataError as error:
        chained, problem = [], error
    for chain, span, answer, kind in chained:
        if span[0] in sentence_of:  # a mention may be in no sentence
            s = sentence_of[span[0]]
            inside = tuple(place_in[s][p] for p in span if sentence_of.get(p) == s)
            mentions[s].append(Mention(chain, inside, answer, kind))
    texts = list(words.values())
    sentences = [[texts[place] for place in span] for span in spans]
    return Document(name, sentences, [sorted(m, key=lambda x: x.words) for m in mentions], problem)


def document_names(folder: Path) -> list[str]:
    """Return the documents of a folder, in order.

    Raises:
        DataError: there are none.
    """
    paths = (folder / "Basedata").glob("*_words.xml")
    names = sorted(path.name.removesuffix("_words.xml") for path in paths)
    if not names:
        raise DataError(folder, None, "no Basedata/*_words.xml is here")
    return names


def _elements(path: Path) -> ET.Element:
    try:
        return ET.parse(path).getroot()
    except FileNotFoundError:
        raise DataError(path, None, "no such file") from None
    except ET.ParseError as error:
        raise DataError(path, error.position[0], f"not well-formed XML: {error}") from None
    except (LookupError, ValueError) as error:  # an encoding that there is not
        raise DataError(path, 1, f"not readable XML: {error}") from None


def _span(path: Path, markable: ET.Element, places: dict[str, int]) -> tuple[int, ...]:
    """Return the words of `word_3..word_5,word_9`: a discontinuous span has a comma."""
    span: list[int] = []
    for part in markable.get("span", "").split(","):
        ends = part.split("..")
        is_known = places.keys() >= set(ends)
        # A span that runs backwards is damage.
        if len(ends) > 2 or not is_known or places[ends[0]] > places[ends[-1]]:
            raise DataError(path, None, f"{markable.get('id')}: the document has no words {part!r}")
        span += range(places[ends[0]], places[ends[-1]] + 1)
    return tuple(span)


def _answer(path: Path, markable: ET.Element, attribute: str | None) -> bool | None:
    """Return an attribute's yes or no; None where it is not given."""
    answer = markable.get(attribute) if attribute else None
    if answer not in (None, "yes", "no"):
        problem = f"{markable.get('id')}: {attribute} is {answer!r}, not yes or no"
        raise DataError(path, None, problem)
    return None if answer is None else answer == "yes"
