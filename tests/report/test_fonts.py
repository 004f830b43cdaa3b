"""Fonts of figures, chosen among fonts that come with matplotlib."""

import warnings
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest
from fontTools.ttLib import TTFont

from xnmt_bench import pictures as fonts
from xnmt_bench.report.figure import save_figure

BUNDLED = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
SCRIPT = "\U0001d49f\U0001d4b9"  # mathematical letters: STIX has them, DejaVu Sans does not


def holds(name, characters):
    """By another library."""
    return {ord(c) for c in characters} <= set(TTFont(BUNDLED / name).getBestCmap())


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(fonts, "_chosen", {})
    monkeypatch.setattr(fonts, "_missing", set())

    def install(*names):
        paths = [str(BUNDLED / name) for name in names]
        monkeypatch.setattr(fonts, "findSystemFonts", lambda: paths)

    return install


def families_for(text):
    """The families that a text is drawn in behind the default one."""
    figure = plt.figure(figsize=(2, 1))
    shown = figure.text(0, 0, text)
    default = shown.get_fontfamily()
    with fonts.fonts_for(figure):
        return shown.get_fontfamily()[len(default) :]


def draw(text, folder, name="drawn"):
    figure = plt.figure(figsize=(2, 1))
    figure.text(0.1, 0.5, text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [path.read_bytes() for path in save_figure(figure, folder / name)]


def test_a_word_is_drawn_in_the_font_that_has_it(installed, tmp_path, caplog):
    assert holds("STIXGeneral.ttf", SCRIPT) and not holds("DejaVuSans.ttf", SCRIPT)
    assert not holds("cmr10.ttf", SCRIPT)
    installed("cmr10.ttf", "STIXGeneral.ttf")
    draw(SCRIPT, tmp_path)
    assert not caplog.messages
    figure = plt.figure(figsize=(2, 1))
    figure.text(0.1, 0.5, SCRIPT, fontfamily="STIXGeneral")
    figure.savefig(tmp_path / "expected.png", dpi=160)
    expected = plt.imread(tmp_path / "expected.png")
    assert (plt.imread(tmp_path / "drawn.png") == expected).all()


def test_ordinary_words_look_for_no_font(installed, monkeypatch, tmp_path):
    installed()
    monkeypatch.setattr(fonts, "findSystemFonts", lambda: pytest.fail("fonts were looked for"))
    draw("schläft über цвет ▁ 20 €\u200b", tmp_path)


def test_one_line_names_the_package_of_what_no_font_has(installed, tmp_path, caplog):
    installed("cmr10.ttf")
    draw("猫は魚", tmp_path)
    draw("魚 ไทย हिन्दी 🎉", tmp_path)
    draw("猫ไ", tmp_path)
    first, second = caplog.messages
    assert "は 猫 魚" in first and first.endswith("apt-get install fonts-noto-cjk")
    assert second.endswith("apt-get install fonts-noto-core fonts-symbola")
    assert "魚" not in second


@pytest.mark.parametrize(
    ("characters", "package"),
    [("猫はカ한ｱ，㎏", "fonts-noto-cjk"), ("กहאሀខ", "fonts-noto-core"), ("😀🎉☃", "fonts-symbola")],
)
def test_packages(characters, package):
    assert {fonts._package(c) for c in characters} == {package}


def test_few_fonts_are_chosen_and_the_plain_one_of_a_family(installed):
    names = ["STIXGeneralBolIta.ttf", "STIXGeneralBol.ttf", "STIXGeneral.ttf"]
    both = "\u24c9\u233f"
    assert holds(names[2], both) and not holds("DejaVuSans.ttf", both)
    installed(*names)
    assert families_for(both) == ["STIXGeneral"]
    assert fonts._chosen["STIXGeneral"].style_name == "Regular"


def test_a_broken_font_file_is_passed_over(installed, monkeypatch, tmp_path):
    installed("STIXGeneral.ttf")
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    paths = [str(tmp_path / "broken.ttf"), *fonts.findSystemFonts()]
    monkeypatch.setattr(fonts, "findSystemFonts", lambda: paths)
    assert families_for(SCRIPT) == ["STIXGeneral"]


def test_arabic_is_joined_and_runs_from_right_to_left(tmp_path):
    """As the forms of presentation have it, which Unicode lists for each letter in its place."""
    joined = "\ufeb3\ufefc\ufee1"  # seen, lam with alef, meem: initial, final ligature, isolated
    draw("سلام", tmp_path, "word")
    draw(joined, tmp_path, "forms")
    assert (plt.imread(tmp_path / "word.png") == plt.imread(tmp_path / "forms.png")).all()
