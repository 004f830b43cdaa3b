"""What counts as the code of an explainer."""

import importlib
import sys
from pathlib import Path

import pytest

from xnmt_bench.code_hash import code_hash
from xnmt_bench.explainers.attention import Attention
from xnmt_bench.explainers.gradient_norm import GradientNorm
from xnmt_bench.explainers.prediction_difference import PredictionDifference
from xnmt_bench.judges.base_untuned import Base
from xnmt_bench.judges.evalx import EvalX


def test_an_edited_explainer_has_other_rules(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    texts = {
        "one": "class A:\n    '''Says this.'''\n    x = 1\n",
        "two": "class A:\n    '''Says that.'''\n\n    x = 1  # the same\n",
        "three": "class A:\n    '''Says this.'''\n    x = 2\n",
    }
    hashes = {}
    for name, text in texts.items():
        (tmp_path / f"phi_{name}.py").write_text(text)
        hashes[name] = code_hash(__import__(f"phi_{name}").A)
    assert hashes["one"] == hashes["two"] != hashes["three"]


MAIN = '''"""About the module."""

import math
{line}

import phi_elsewhere


class A:
    """About the class."""

    def relevance(self):
        """About the function."""
        return math.pi + phi_elsewhere.x
'''
SHARED = '''"""About it."""

from .deeper import d


def f():
    """What it does."""
    return d
'''
IMPORTS = [
    "from phi_package.shared import f",
    "from phi_package import shared",
    "from .shared import f",
    "from . import shared",
    "import phi_package.shared",
    "import phi_package.shared as other",
]


@pytest.fixture(params=IMPORTS)
def package(request, tmp_path, monkeypatch):
    """An explainer in a package of its own, which shares a module with others of it."""
    folder = tmp_path / "phi_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "main.py").write_text(MAIN.format(line=request.param))
    (folder / "shared.py").write_text(SHARED)
    (folder / "deeper.py").write_text("d = 1\n")
    (folder / "unrelated.py").write_text("u = 1\n")
    (tmp_path / "phi_elsewhere.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield folder
    for name in [n for n in sys.modules if n.startswith("phi_")]:
        del sys.modules[name]


def test_what_is_shared_within_the_package_is_part_of_it(package):
    cls = importlib.import_module("phi_package.main").A
    before = code_hash(cls)
    assert code_hash(cls) == before

    def changed(name, old, new):
        """Whether an edit is one; the file is as before afterwards."""
        path = package / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        after = code_hash(cls)
        path.write_text(text)
        return after != before

    assert changed("main.py", "math.pi", "math.e")
    assert changed("shared.py", "return d", "return -d")
    assert changed("deeper.py", "d = 1", "d = 2")
    # Comments, layout and docstrings do not count; nor does code that it does not import.
    assert not changed("main.py", "About the module", "Of the module")
    assert not changed("main.py", "About the class", "Of the class")
    assert not changed("main.py", "About the function", "Of the function")
    assert not changed("shared.py", "What it does", "Does this")
    assert not changed("shared.py", "    return d", "\n    # why\n    return d  # because")
    assert not changed("deeper.py", "d = 1", "d  =  (1)")
    assert not changed("unrelated.py", "u = 1", "u = 2")
    # Nor do the papers that a class names.
    assert not changed("main.py", "    def relevance", '    papers = ("a",)\n\n    def relevance')
    assert changed("main.py", "    def relevance", "    blind = True\n\n    def relevance")
    # A second module of the same author, and none that pip installed.
    assert changed("../phi_elsewhere.py", "x = 1", "x = 2")


@pytest.mark.parametrize(
    ("module", "concerned"),
    [
        ("explainers/base.py", {Attention, GradientNorm, PredictionDifference}),
        ("explainers/attention.py", {Attention}),
        ("nmt/switched.py", {PredictionDifference}),
        # What the explainers import of the models, directly or through others.
        *(
            (f"nmt/{name}.py", {Attention, GradientNorm, PredictionDifference})
            for name in ("base", "output", "decoding")
        ),
        ("nmt/training.py", set()),
        ("rules/topk.py", set()),
    ],
)
def test_what_our_explainers_share(monkeypatch, module, concerned):
    explainers = (Attention, GradientNorm, PredictionDifference)
    assert changed_by("edited = 1", explainers, monkeypatch, module) == concerned
    assert changed_by("# edited", explainers, monkeypatch, module) == set()


@pytest.mark.parametrize(
    ("module", "concerned"),
    [
        ("judges/judge.py", {Base, EvalX}),
        ("judges/masked.py", {Base}),
        ("judges/trained_proxy.py", {EvalX}),
        ("nmt/base.py", {Base}),  # EVAL-X never asks the model
    ],
)
def test_what_our_judges_share(monkeypatch, module, concerned):
    assert changed_by("edited = 1", (Base, EvalX), monkeypatch, module) == concerned


def changed_by(line, classes, monkeypatch, module):
    """Those of some classes whose code is another one when a line stands behind a module."""
    before = {cls: code_hash(cls) for cls in classes}
    assert len(set(before.values())) == len(classes)
    read = Path.read_text

    def edited(path, *arguments, **options):
        text = read(path, *arguments, **options)
        return f"{text}\n{line}\n" if path.as_posix().endswith(f"xnmt_bench/{module}") else text

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", edited)
        return {cls for cls in classes if code_hash(cls) != before[cls]}
