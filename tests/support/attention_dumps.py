"""The dumps of `shared/data/attention_dumps`: where each is and what reads it; and an excerpt."""

import gzip
import json

import numpy as np

from support.paths import DATA, ROOT
from xnmt_bench.registry import load
from xnmt_bench.words import Tokens, Weighed

DUMPS = DATA / "attention_dumps"
FORMATS = {
    "nematus/alignments.txt": ("nematus",),
    "nematus/newstest2017_1-15.txt": ("nematus",),
    "opennmt_lua/attention_1-5.txt": ("opennmt_lua",),
    "sockeye1/alignment_matrix.txt": ("sockeye",),
    "marian/amun.out.lv": ("marian", "marian/amun.src.en"),
    "marian/rnn.soft.de": ("marian", "marian/rnn.src.en"),
    "marian/one_blocks.txt": ("nematus",),
    "fairseq/generate.txt": ("fairseq",),
    "opennmt_py/attn_debug.log": ("opennmt_py", "opennmt_py/src.de", "opennmt_py/hyp.en"),
    "neural_monkey/alignments.npy": (
        "neural_monkey", "neural_monkey/src.en.bpe", "neural_monkey/out.lv.bpe"
    ),
    "pair/monkey.npy": ("neural_monkey", "pair/monkey.en", "pair/monkey.lv"),
    "pair/nematus.txt": ("nematus",),
}  # fmt: skip


def read_dump(name):
    """Every sentence of a dump, in order."""
    kind, *texts = FORMATS[name]
    sides = dict(zip(("source", "target"), (DUMPS / text for text in texts), strict=False))
    return sorted(load("dumps", kind)(DUMPS / name, **sides), key=lambda sentence: sentence.number)


def read_published(name):
    """An excerpt of published figures, which is in the project: see the README beside it."""
    path = ROOT / "tests" / "fixtures" / "published" / f"{name}.json.gz"
    return json.loads(gzip.decompress(path.read_bytes()))


def published_sentences():
    """Yield (what is published, the sentence with made-up words) of 32 translations."""
    for row in read_published("attention"):
        weights = np.array(row["weights"])
        sizes = zip(weights.shape[::-1], row["eos"], strict=True)
        source, target = (Tokens.of([f"w{n}" for n in range(n - eos)], eos) for n, eos in sizes)
        log_p = row["log_probabilities"]
        log_p = None if log_p is None else np.array(log_p)
        yield row, Weighed(row["sentence"] - 1, source, target, weights, None, log_p)
