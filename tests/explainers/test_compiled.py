"""Planted truth inside a Transformer: weights written by hand copy one word, the cue."""

import pytest
import torch

from support.handwritten_transformer import CUES, SPECIAL, WORDS, build_copying_transformer
from xnmt_bench.corpora.exchange.substitutes import BothSides, Substitutes
from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.explainers.base import decide
from xnmt_bench.metrics.causes.effects import PREFIX, SOURCE, Interventions
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.registry import load_explainer

PLACES = (0, 2, 3, 1, 3)  # of the cue, in five sentences
LENGTH = 5
CATEGORY = [[str(SPECIAL + n) for n in range(CUES)], [str(n) for n in range(SPECIAL + CUES, 12)]]
# The last word stays in the state that is read, and both measure its gradient too: on the prefix
# they name it first in some steps. Integrated gradients are not tried: norms forget lengths, so the
# path from zeros changes the label at its very start, between two of the points.
OF_SOURCE = ("cp_lrp", "gradient_norm")
METHODS = (
    "alti", "attention", "attention_norm", "lime", "prediction_difference", "rollout", "shapley",
    "value_zeroing",
)  # fmt: skip
# Beside the defaults, which read the last layer and all heads: of the only ones that there are. The
# mean of the vocabulary is half a cue here, so that it erases nothing.
OPTIONS = (
    ("attention", {"layer": 0, "heads": 0}),
    ("attention", {"layer": None, "heads": "max"}),
    ("attention_norm", {"layer": 0, "heads": 0}),
    ("alti", {"layer": 0, "heads": 0}),
    ("value_zeroing", {"layer": 0, "heads": 0}),
    ("prediction_difference", {"removal": "attention"}),
    ("shapley", {"removal": "attention"}),
)
CASES = [
    (side, name, options, pre_norm)
    for side, names in (("source", (*METHODS, *OF_SOURCE)), ("prefix", METHODS))
    for name, options in (*((name, {}) for name in names), *OPTIONS)
    for pre_norm in (False, True)
]


def sentences(side):
    """Five pairs of five words, of which one is a cue that the labels say."""
    drawn = torch.Generator().manual_seed(0)
    for n, place in enumerate(PLACES):
        other_words = [
            (torch.randperm(WORDS - CUES, generator=drawn) + SPECIAL + CUES).tolist()
            for _ in range(4)
        ]
        source, target = [*other_words[0], other_words[1][0]], [*other_words[2], other_words[3][0]]
        words = source if side == "source" else target
        words[place] = SPECIAL + n % CUES
        yield place, words[place], source, target


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("side", ["source", "prefix"])
def test_it_copies_the_cue(side, pre_norm):
    model = build_copying_transformer(side, pre_norm)
    for place, cue, source, target in sentences(side):
        batch, log_p_BT = decide(model, Batch.collate([(source, target)]))
        first_step = 0 if side == "source" else place + 1
        assert (batch.labels_BT[0, first_step:] == cue).all()
        assert log_p_BT[0, first_step:].exp().min() > 0.9


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("side", ["source", "prefix"])
def test_interventions_name_the_cue_and_nothing_else(side, pre_norm):
    model = build_copying_transformer(side, pre_norm)
    categories = BothSides(Substitutes(CATEGORY), Substitutes(CATEGORY))
    for n, (place, _, source, target) in enumerate(sentences(side)):
        texts = [" ".join(map(str, words)) for words in (source, target)]
        sentence = (n, Sentence(*texts, 0, 0))
        [effects] = Interventions(model, categories, 8).effects([sentence])
        cue_side = SOURCE if side == "source" else PREFIX
        sees_cue = effects.step_N > (place if side == "prefix" else -1)
        assert effects.replaced[cue_side][sees_cue, place].min() > 0.9
        for s, words in ((SOURCE, source), (PREFIX, target)):
            for word in range(len(words)):
                if (s, word) != (cue_side, place):
                    other_effects = effects.replaced[s][sees_cue, word]
                    assert not (other_effects > 0.02).any()


@pytest.mark.parametrize(("side", "name", "options", "pre_norm"), CASES)
def test_the_cue_is_named_first(side, name, options, pre_norm):
    model = build_copying_transformer(side, pre_norm)
    for place, _, source, target in sentences(side):
        batch, _ = decide(model, Batch.collate([(source, target)]))
        relevance = load_explainer(name, **options).relevance(model, batch)
        scores = relevance.source_BTS if side == "source" else relevance.prefix_BTT
        for step in range(0 if side == "source" else place + 1, LENGTH):
            assert scores[0, step].nan_to_num(-torch.inf).argmax() == place, step
