"""The blocks of Python in README.md and docs/guide/python.md run, and the picture is made anew."""

import contextlib
import io
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from support.paths import ROOT
from xnmt_bench.nmt.loading import SHIPPED

pytestmark = pytest.mark.skipif(
    not (SHIPPED / "tatoeba_de_en").is_dir(), reason="no system is shipped"
)
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n((?:    [^\n]*\n)+))?", re.DOTALL)
PICTURE = ROOT / "docs" / "recorded" / "figures" / "tatoeba.svg"
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", ["README.md", "docs/guide/python.md"])
def test_blocks_print_what_the_page_says(name, tmp_path, monkeypatch):
    """Words are those of the page; numbers are near, since other processors round otherwise."""
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / name).read_text(encoding="utf-8"))
    assert blocks
    names = {}
    for code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        if expected:
            assert_alike(printed.getvalue(), re.sub("(?m)^    ", "", expected))


def assert_alike(printed, expected):
    """Whether two texts have the same words in order, and numbers that round alike."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", expected).split()
    numbers = [[*map(float, NUMBER.findall(text))] for text in (printed, expected)]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.02, abs=0.02)


def test_the_picture_is_the_one_that_the_command_makes(tmp_path):
    script, out = ROOT / "docs" / "site" / "picture.py", tmp_path / "tatoeba.svg"
    subprocess.run([sys.executable, script, "--out", out], check=True, cwd=tmp_path)
    made, kept = (ElementTree.parse(path).getroot() for path in (out, PICTURE))
    # What the figure says; shades may differ in their last digit.
    texts = [[text.text for text in root.iter(f"{SVG}text")] for root in (made, kept)]
    assert texts[0] == texts[1]
    bars = [[r.attrib for r in root.findall(f"{SVG}rect")] for root in (made, kept)]
    assert bars[0] == bars[1]


def test_readme_is_short_and_begins_with_the_picture():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 110
    assert text.index("tatoeba.svg") < text.index("```python") < text.index("| explainer |")
