"""A Transformer whose weights are written by hand: one head copies a cue, and nothing else acts.

It is the class that users train, so that code which reads its inside can be tested too. Words are
pairs of numbers +a and -a in places of their own, which layer norms map to one length. In the
attention that is compiled, keys tell cues from other words, all queries look for cues, and the
values carry the cue into the label's places. All other blocks add nothing.
"""

import torch

from xnmt_bench.corpora.vocabulary.subwords import Tied
from xnmt_bench.nmt.transformer import Transformer

SPECIAL, WORDS, CUES = 4, 8, 4  # ids 0 to 3; 4 to 7 are cues, 8 to 11 other words
DIMENSION = 2 * (SPECIAL + WORDS + CUES)
LABELS = 2 * WORDS  # the first place of labels; special ids stand behind them
LARGE = 200.0  # beside which positions are nothing


class Vocabulary:
    """Words `4` to `11`, one piece each."""

    def __len__(self):
        return SPECIAL + WORDS

    def encode(self, text):
        return [int(word) for word in text.split()]

    def decode(self, ids):
        return " ".join(map(str, ids))

    def words(self, ids):
        return [n if i >= SPECIAL else -1 for n, i in enumerate(ids)]

    def tie(self, text):
        return Tied(self.encode(text), list(range(len(text.split()))))


def build_copying_transformer(side="source", pre_norm=False):
    """A Transformer in float64 that copies the only cue of a side.

    Args:
        side: where the cue stands, `source` or `prefix`.
        pre_norm: normalise before each block.
    """
    model = Transformer(Vocabulary(), Vocabulary(), 1, 1, DIMENSION, 4, 0.0, pre_norm, tied=False)
    model = model.double().eval().requires_grad_(False)
    identity = torch.eye(DIMENSION, dtype=torch.float64)
    pairs = identity[0::2] - identity[1::2]  # a row for each pair of places
    of_words = torch.cat([pairs[WORDS + CUES :], pairs[:WORDS]])
    model.source_embedding.weight.copy_(LARGE * of_words)
    model.target_embedding.weight.copy_(LARGE * of_words)
    for layer in (*model.encoder, *model.decoder):
        layer.feed_forward[-1].weight.zero_()
        layer.feed_forward[-1].bias.zero_()
        for attention in (layer.self_attention, *layer.attentions):
            attention.out.weight.zero_()
            attention.query.weight.zero_()  # weights that carry nothing are equal
    layer = model.decoder[0]
    attention = layer.cross_attention if side == "source" else layer.self_attention
    # A normed word has +4 and -4 in its places: keys of cues are 8, and energies 40 above others.
    attention.query.bias[0] = 5 * DIMENSION**0.5
    key, value = attention.key_value.weight.zero_().chunk(2)
    key[0] = pairs[:CUES].sum(0)
    # Where states are normed behind each block they are as long as values; else as embeddings.
    length = 3 * (LARGE * DIMENSION**0.5 / 4 if pre_norm else 1)
    value[LABELS : LABELS + 2 * CUES] = length * identity[: 2 * CUES]
    attention.out.weight.copy_(identity)
    model.output.weight.zero_()
    model.output.weight[SPECIAL : SPECIAL + CUES] = 0.7 * pairs[WORDS : WORDS + CUES]
    return model
