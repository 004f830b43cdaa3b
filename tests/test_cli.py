"""What is typed on the command line."""

import pytest
from conftest import command
from hydra.core.override_parser.overrides_parser import OverridesParser

from xnmt_bench.cli import quoted

PARSER = OverridesParser.create()


@pytest.mark.parametrize(
    "sentence",
    [
        "Der Hund schläft .",
        "it's \"here\", isn't it?",
        "a=b [c] {d} (e) $f",
        "100 %",
        "naïve 猫",
        '"Ja" sagt "er"',
        "ends in \\",
        "x",
    ],
)
@pytest.mark.parametrize("name", ["explain", "explain_target"])
def test_a_sentence_arrives_as_it_was_typed(name, sentence):
    override = PARSER.parse_override(quoted(f"{name}={sentence}"))
    assert override.key_or_group == name
    assert override.value() == sentence


@pytest.mark.parametrize(
    "argument",
    ["explain='quoted already'", "explain=null", "k=1,2", "nmt.path=/a/b", "--help", "-m"],
)
def test_everything_else_stays(argument):
    assert quoted(argument) == argument


@pytest.mark.parametrize(
    ("changes", "key"),
    [(["nmt=marian"], "nmt.path"), (["corpus=text", "corpus.root=x"], "corpus.source_language")],
)
def test_a_value_that_has_to_be_given_is_named(changes, key, tmp_path):
    done = command("train.py", *changes, cwd=tmp_path)
    assert done.returncode == 1
    assert f"error: {key} has no value yet; give {key}=..." in done.stderr
    assert "Traceback" not in done.stderr
