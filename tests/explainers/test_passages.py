"""Sentences explained in their context, bare of a corpus."""

import pytest
import torch

from support.configurations import CONTEXT_AWARE, GENERATED, TRANSFORMER, configure
from support.forked_commands import command, must_run
from support.systems import context_aware
from xnmt_bench.corpora.passage import Passage
from xnmt_bench.errors import XnmtError
from xnmt_bench.explain import passage_of
from xnmt_bench.explainers.base import decide
from xnmt_bench.nmt.passages import context_of
from xnmt_bench.registry import load_explainer

SOURCES = ["the dog is old .", "the lamp is new .", "the door is red .", "it is small ."]
TARGETS = ["der Hund ist alt .", "die Lampe ist neu .", "die Tür ist rot .", "sie ist klein ."]
PASSAGE = Passage(SOURCES[-1], TARGETS[-1], SOURCES[:-1], TARGETS[:-1])


@pytest.mark.parametrize("name", CONTEXT_AWARE)
def test_a_passage_is_what_the_model_reads_of_it(workplace, name):
    model = context_aware(name, workplace).system.model
    explainer = load_explainer("gradient_norm")
    [explained] = explainer(model, [PASSAGE])
    read = PASSAGE.read(model.trained_context)
    batch, _ = decide(
        model, model.collate([read.encode(model.source_subwords, model.target_subwords)])
    )
    relevance = explainer.relevance(model, batch)
    current = batch.current_BT[0]
    assert torch.equal(explained.source_TS, relevance.source_BTS[0, current])
    assert torch.equal(
        explained.prefix_TT.nan_to_num(), relevance.prefix_BTT[0, current].nan_to_num()
    )
    steps = len(model.target_subwords.encode(TARGETS[-1])) + 1
    assert (
        len(explained.labels) == len(explained.probabilities) == len(explained.source_TS) == steps
    )
    assert len(explained.source_tokens) == explained.source_TS.shape[1]
    # A farther sentence than the model was trained with is not read.
    farther = Passage(
        PASSAGE.source, PASSAGE.target, ["a .", *SOURCES[:-1]], ["b .", *TARGETS[:-1]]
    )
    [other] = explainer(model, [farther])
    assert torch.equal(explained.source_TS, other.source_TS)
    [alone] = explainer(model, [(SOURCES[-1], TARGETS[-1])])
    assert alone.source_TS.shape == (steps, len(model.source_subwords.encode(SOURCES[-1])) + 1)
    nearest = Passage(PASSAGE.source, PASSAGE.target, SOURCES[2:3], TARGETS[2:3])
    [shown] = explainer(model, [nearest])
    assert alone.source_TS.shape[1] < shown.source_TS.shape[1] <= explained.source_TS.shape[1]


def test_a_sentence_level_system_refuses_a_context(transformer):
    with pytest.raises(XnmtError, match="was trained without a context"):
        load_explainer("attention")(transformer.system.model, [PASSAGE])


def test_a_context_that_is_not_read_is_refused(workplace, transformer):
    """It would be left out in silence, and the sentence explained alone."""
    behind = Passage("a b .", "c d .", following=["e ."])
    with pytest.raises(XnmtError, match="has others behind it, but the system was trained without"):
        context_of(transformer.system.model, behind)
    both = context_aware("cadec", workplace).system.model
    assert both.trained_context.target
    with pytest.raises(XnmtError, match="give target_context"):
        context_of(both, Passage("a b .", "c d .", ["e ."]))
    assert context_of(both, Passage("a b .", "c d .", ["e ."], ["f ."])) == both.trained_context


def test_what_is_known_of_no_model_is_read_as_it_stands(workplace, monkeypatch):
    model = context_aware("s_hier_to_2", workplace).system.model
    monkeypatch.setattr(model, "trained_context", None)
    with pytest.raises(XnmtError, match="reads exactly one sentence of context, the previous one"):
        context_of(model, PASSAGE)
    assert context_of(model, Passage("a", "b", ["c"], ["d"])).sentences == 1


def test_what_has_no_target_is_translated_behind_its_own_translations(workplace):
    system = context_aware("cadec", workplace).system
    text = " _eos ".join(SOURCES)

    def passage(target):
        return passage_of(
            system, configure(f"explain='{text}'", f"explain_target={target}", "nmt.beam=1")
        )

    behind_own = passage("null")
    assert behind_own.source == SOURCES[-1] and list(behind_own.source_context) == SOURCES[:-1]
    first = passage_of(system, configure(f"explain='{SOURCES[0]}'", "nmt.beam=1"))
    assert behind_own.target_context[0] == first.target
    behind = passage_of(system, configure(f"explain='{' _eos '.join(SOURCES[:2])}'", "nmt.beam=1"))
    assert list(behind_own.target_context[:2]) == [*behind.target_context, behind.target]
    last = passage(f"'{TARGETS[-1]}'")
    assert (list(last.target_context), last.target) == (
        list(behind_own.target_context),
        TARGETS[-1],
    )
    all_given = passage(f"'{' _eos '.join(TARGETS)}'")
    assert (list(all_given.target_context), all_given.target) == (TARGETS[:-1], TARGETS[-1])
    with pytest.raises(
        XnmtError, match="2 sentences, but explain has 4; give as many, or the last one only"
    ):
        passage("'a _eos b'")


@pytest.mark.long
def test_from_the_command_line(tmp_path):
    """The target is given, since a system that knows so little may never end its translation."""
    small = [*GENERATED, *TRANSFORMER, "nmt=concat", f"store={tmp_path}/store",
             f"results={tmp_path}/results"]  # fmt: skip
    assert command("train.py", *small, "metric=[]", cwd=tmp_path).returncode == 0
    source, target = (" _eos ".join(texts[2:]) for texts in (SOURCES, TARGETS))
    options = [f"explain={source}", f"explain_target={target}"]
    done = must_run("evaluate.py", *small, *options, cwd=tmp_path)
    assert "source (en): the door is red . _eos it is small ." in done.stdout
    assert (tmp_path / "results" / "explanation.png").exists()
