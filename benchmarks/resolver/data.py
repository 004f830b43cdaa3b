"""GAP and LitBank as texts with known antecedents."""

from __future__ import annotations

import re
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from xnmt_bench.corpora.text import present, text_lines
from xnmt_bench.errors import DataError
from xnmt_bench.parsing import parse_count
from xnmt_bench.resolvers.learnt.tokens import PRONOUNS

GAP_COLUMNS = (
    "ID",
    "Text",
    "Pronoun",
    "Pronoun-offset",
    "A",
    "A-offset",
    "A-coref",
    "B",
    "B-offset",
    "B-coref",
)
TRUTH = {"TRUE": True, "FALSE": False}
LITBANK = "litbank_coref_brat.tar.gz"
KIND = re.compile("(PROP|NOM|PRON)_[A-Z]+")
Stretch = tuple[int, int]  # characters, from the first to behind the last


@dataclass(frozen=True)
class GapRow:
    """An ambiguous pronoun and two names (Webster et al. 2018).

    Attributes:
        text: a paragraph of Wikipedia.
        pronoun: its characters.
        names: those of A and B.
        labels: whether the pronoun stands for A, and for B.
        feminine: the pronoun's gender.
    """

    text: str
    pronoun: Stretch
    names: tuple[Stretch, Stretch]
    labels: tuple[bool, bool]
    feminine: bool


def read_gap(path: Path) -> list[GapRow]:
    """Read a file of GAP.

    Raises:
        DataError: a column is missing, or a cell cannot be what it should, with file and line.
    """
    rows = []
    for line, cells in _tab_separated(path):
        try:
            stretches = []
            for name in ("Pronoun", "A", "B"):
                start = parse_count(cells[f"{name}-offset"])
                stretches.append((start, start + len(cells[name])))
                # Offsets of another encoding would place every name a little off.
                if cells["Text"][start : stretches[-1][1]] != cells[name]:
                    raise ValueError(f"{cells[name]!r} is not at character {start}")
            labels = TRUTH[cells["A-coref"].upper()], TRUTH[cells["B-coref"].upper()]
            feminine = PRONOUNS[cells["Pronoun"].lower()] == "she"
        except (ValueError, KeyError) as error:
            raise DataError(path, line, f"no row of GAP: {error}") from None
        pronoun, *names = stretches
        rows.append(GapRow(cells["Text"], pronoun, (names[0], names[1]), labels, feminine))
    return rows


def _tab_separated(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    header: list[str] = []
    for line, text in text_lines(path):  # quotes are characters here
        # Not the csv module: a quote in a cell would swallow what follows it.
        cells = text.split("\t")
        if not header:
            header = cells
            if missing := [name for name in GAP_COLUMNS if name not in header]:
                raise DataError(path, 1, f"no column {missing[0]!r}")
        elif len(cells) != len(header):
            raise DataError(path, line, f"{len(cells)} fields, but the header has {len(header)}")
        else:
            yield line, dict(zip(header, cells, strict=True))


@dataclass(frozen=True)
class Chained:
    """A text with coreference chains.

    Attributes:
        document: the file that it is from.
        text: words between blanks, a sentence a line.
        mentions: characters of each mention, its chain, and its kind such as `NOM_PER`.
    """

    document: str
    text: str
    mentions: tuple[tuple[Stretch, int, str], ...]


def read_litbank(path: Path) -> list[Chained]:
    """Read the documents of LitBank (Bamman et al. 2020), brat's form in a tar file.

    Raises:
        DataError: the file is not such an archive, or an annotation cannot be read.
    """
    contents: dict[str, str] = {}
    try:
        with tarfile.open(present(path)) as archive:
            for member in archive.getmembers():
                file = archive.extractfile(member) if member.isfile() else None
                if file is not None and member.name.endswith((".txt", ".ann")):
                    # Read in memory and never unpacked, since names in an archive may lead
                    # anywhere.
                    contents[member.name.rpartition("/")[2]] = file.read().decode("utf-8")
    except (tarfile.TarError, OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(path, None, f"no archive of LitBank: {error}") from None
    names = sorted(name[:-4] for name in contents if name.endswith(".txt"))
    if not names:
        raise DataError(path, None, "no .txt file in the archive")
    return [
        _chained(path, name, contents[f"{name}.txt"], contents.get(f"{name}.ann", ""))
        for name in names
    ]


def _chained(path: Path, name: str, text: str, annotation: str) -> Chained:
    """Return a document; its annotation has two lines a mention, of its kind and of its chain.

    Relations (copulas, appositions) are left alone.
    """
    kinds: dict[Stretch, str] = {}
    chain_names: dict[Stretch, str] = {}
    for number, line in enumerate(annotation.splitlines(), start=1):
        # brat marks stretches by T; relations and notes have other letters.
        if not line.startswith("T"):
            continue
        try:
            # A mention in several parts has several stretches; from its first to its last
            # character.
            label, *places = re.split("[ ;]", line.split("\t")[1])
            stretch = parse_count(places[0]), parse_count(places[-1])
        except (ValueError, IndexError) as error:
            problem = f"no annotation of brat: {error}"
            raise DataError(f"{path}:{name}.ann", number, problem) from None
        # Both lines of a mention name the same stretch, and their labels differ.
        (kinds if KIND.fullmatch(label) else chain_names)[stretch] = label
    numbers: dict[str, int] = {}
    mentions = [
        (stretch, numbers.setdefault(chain, len(numbers)), kinds.get(stretch, ""))
        for stretch, chain in sorted(chain_names.items())
    ]
    return Chained(name, text, tuple(mentions))


def passages(document: Chained, lengths: Sequence[int]) -> Iterator[Chained]:
    """Yield parts of a document one behind the other, of `lengths` sentences in turn."""
    lines = document.text.splitlines(keepends=True)
    line, turn, start = 0, 0, 0
    while line < len(lines):
        part = "".join(lines[line : line + lengths[turn % len(lengths)]])
        stop = start + len(part)
        inside = tuple(
            ((first - start, last - start), chain, kind)
            for (first, last), chain, kind in document.mentions
            # A mention that a passage cuts in two belongs to neither part.
            if start <= first and last <= stop
        )
        yield Chained(document.document, part, inside)
        line, turn, start = line + lengths[turn % len(lengths)], turn + 1, stop
