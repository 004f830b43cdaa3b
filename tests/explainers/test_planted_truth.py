"""Models built by hand whose label depends on one known word: explainers have to find it."""

import pytest
import torch
from torch import nn

from xnmt_bench.explainers.base import decide
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch, Encoding
from xnmt_bench.registry import load_explainer

V, S, T = 12, 6, 6


class Words:
    """Stands for a vocabulary."""

    has_unknown = True

    def __len__(self):
        return V


class Copier(NMTModel):
    """At step t it copies the source word at a known place, or the prefix word before the last.

    Embeddings are one-hot, so that a word's embedding is its identity; the state of a step is the
    embedding of the word that decides it, sharpened by the output layer.
    """

    def __init__(self, side: str) -> None:
        super().__init__()
        self.side = side
        self.source_subwords = self.target_subwords = Words()
        self.table = nn.Parameter(torch.eye(V, dtype=torch.float64), requires_grad=False)

    def embed_source(self, ids_BS):
        return self.table[ids_BS]

    def embed_target(self, ids_BT):
        return self.table[ids_BT]

    def encode(self, source_BSD, layout):
        return Encoding(source_BSD, layout)

    def decode(self, encoding, input_BTD):
        steps = input_BTD.shape[1]
        if self.side == "source":
            return encoding.states_BSD[:, [self.place(t) for t in range(steps)]]
        return input_BTD[:, [self.place(t) + 1 for t in range(steps)]]

    def place(self, t):
        return (t * 2 + 1) % (S - 1) if self.side == "source" else max(-1, t - 2)

    def logits(self, states):
        return 4.0 * states

    def attention(self, encoding, input_BTD):
        raise NotImplementedError


OBJECTIVES = [
    {},
    {"of": "log_probability"},
    {"of": "logit"},
    {"foil": "second"},
    {"of": "logit", "foil": "second"},
]
GRADIENTS = ("gradient_norm", "weighted_gradient", "integrated_gradients")
METHODS = ("prediction_difference", "shapley", *GRADIENTS)
CASES = [
    *((name, options) for name in METHODS for options in OBJECTIVES),
    ("gradient_norm", {"norm": "l2"}),
    *(
        (name, {"removal": removal})
        for name in ("prediction_difference", "shapley")
        for removal in ("mean", "unk")
    ),
]


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("side", ["source", "prefix"])
def test_the_planted_word_is_ranked_first(name, options, side):
    torch.manual_seed(0)
    model = Copier(side).eval()
    # Words are all different within a side, so that no other word could explain the label.
    rows = [(torch.randperm(V - 4)[:S] + 4, torch.randperm(V - 4)[:T] + 4) for _ in range(5)]
    batch, _ = decide(model, Batch.collate([(x.tolist(), y.tolist()) for x, y in rows]))
    relevance = load_explainer(name, **options).relevance(model, batch)
    scores = relevance.source_BTS if side == "source" else relevance.prefix_BTT
    for step in range(3, T):
        best = torch.nan_to_num(scores[:, step], nan=-torch.inf).argmax(-1)
        assert (best == model.place(step)).all()
        other_scores = torch.nan_to_num(scores[:, step].clone())
        other_scores[:, model.place(step)] = 0
        assert other_scores.abs().max() == 0  # nothing else has any say
