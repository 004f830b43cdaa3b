"""What pictures share: how large they are, and fonts for words in any script."""

from __future__ import annotations

import logging
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, findSystemFonts, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text
from rich.cells import cell_len

from xnmt_bench.errors import ConfigError
from xnmt_bench.registry import unknown

log = logging.getLogger(__name__)
REGULAR = ("Regular", "Book", "Roman", "Normal")  # names of a font's ordinary style
LARGEST = 80.0  # inches of a side: more pixels than that have no readable letters
LONGEST_NAME = 40  # letters
EXAMPLES = 5  # characters that a message names
_chosen: dict[str, FT2Font] = {}  # by its family, each font that a figure needed so far
_missing: set[str] = set()  # characters that no font has, and that a message has named


def shorten(text: str, most: int = LONGEST_NAME) -> str:
    """Return a text with its middle left out, where it is wider than some number of letters."""
    if (width := cell_len(text)) <= most:
        return text
    kept = (most - 1) * len(text) // width  # a Chinese character is two letters wide
    return f"{text[: kept - kept // 2]}…{text[-(kept // 2) :]}"


def require_font(family: str) -> None:
    """Raise a ConfigError where no font of a family is installed."""
    families = {entry.name for entry in fontManager.ttflist}
    if family not in families:
        raise ConfigError([f"figures.font: {unknown('font', family, families)}"])


@contextmanager
def fonts_for(figure: Figure) -> Iterator[None]:
    """Draw a figure's texts in fonts that have their characters.

    matplotlib takes each character from the first of the fonts that has it. One line of the log
    names the characters that no installed font has; they are drawn as boxes.
    """
    texts: list[Text] = figure.findobj(Text)  # type: ignore[assignment]
    families = _families(set().union(*(text.get_text() for text in texts)))
    if families:
        for text in texts:
            text.set_fontfamily([*text.get_fontfamily(), *families])
    # Ticks that are made while a figure is drawn take their font from the defaults.
    defaults: Any = {"font.family": [*plt.rcParams["font.family"], *families]}
    with plt.rc_context(defaults), warnings.catch_warnings():
        # matplotlib has a warning for each character, and here a line names all of them.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font")
        yield


def _families(characters: Iterable[str]) -> list[str]:
    """Return the families that have what the default font lacks."""
    lacking = _left_by(FT2Font(findfont(FontProperties())), filter(_has_ink, characters))
    unknown = lacking - _missing
    for font in _chosen.values():
        unknown = _left_by(font, unknown)
    if unknown:
        _choose_fonts(unknown)
    return [name for name, font in _chosen.items() if _left_by(font, lacking) < lacking]


def _left_by(font: FT2Font, characters: Iterable[str]) -> set[str]:
    """Return the characters that a font lacks."""
    return {c for c in characters if not font.get_char_index(ord(c))}


def _has_ink(character: str) -> bool:
    # Blanks, controls, joiners; a variation selector is a mark without ink.
    blank = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp")
    return not blank and "VARIATION SELECTOR" not in unicodedata.name(character, "")


def _choose_fonts(characters: set[str]) -> None:
    """Choose few installed fonts for some characters; name those that no font has."""
    fonts = [(font, characters - _left_by(font, characters)) for font in _installed()]
    fonts = [(font, has) for font, has in fonts if has]
    fonts.sort(key=lambda pair: _plainness(pair[0]))
    while fonts:
        # Of several that have as many, the first, which is the plainest.
        best, has = max(fonts, key=lambda pair: len(pair[1] & characters))
        if not has & characters:
            break
        # It may have been installed after matplotlib made its own list.
        path = str(best.fname)
        if path not in {str(entry.fname) for entry in fontManager.ttflist}:
            fontManager.addfont(path)
        _chosen[best.family_name] = best
        characters = characters - has
    if characters:
        _missing.update(characters)
        log.warning("%s", _message(characters))


def _installed() -> Iterator[FT2Font]:
    for path in findSystemFonts():
        try:
            first = FT2Font(path)
            faces = [first, *(FT2Font(path, face_index=n) for n in range(1, first.num_faces))]
        except (OSError, RuntimeError):  # a broken file, or one that may not be read
            continue
        # A font of pictures, such as coloured emoji, has no outlines to draw.
        yield from (face for face in faces if face.scalable)


def _plainness(font: FT2Font) -> tuple[bool, bool, int, int, str]:
    """Return a key that sorts the plainest font first."""
    name = font.family_name
    # The first face of a collection is its default.
    return font.style_name not in REGULAR, "Sans" not in name, font.face_index, len(name), name


def _message(characters: set[str]) -> str:
    some = " ".join(sorted(characters)[:EXAMPLES])
    more = f" and {len(characters) - EXAMPLES} more" if len(characters) > EXAMPLES else ""
    packages = " ".join(sorted(set(map(_package, characters))))
    return (
        f"no installed font has {some}{more}, which figures show as boxes; "
        f"on Debian and Ubuntu: apt-get install {packages}"
    )


def _package(character: str) -> str:
    """Return the package of Debian whose font has a character."""
    symbol = unicodedata.category(character) in ("So", "Sk")
    emoji = symbol and ord(character) >= 0x1F000
    if unicodedata.east_asian_width(character) in "WFH" and not emoji:
        return "fonts-noto-cjk"
    return "fonts-symbola" if symbol else "fonts-noto-core"
