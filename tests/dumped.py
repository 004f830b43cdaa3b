"""The dumps of `shared/data/attention_dumps`: where each is and what reads it."""

from conftest import DATA

from xnmt_bench.registry import load

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


def read(name):
    """Every sentence of a dump, in order."""
    kind, *texts = FORMATS[name]
    sides = dict(zip(("source", "target"), (DUMPS / text for text in texts), strict=False))
    return sorted(load("dumps", kind)(DUMPS / name, **sides), key=lambda one: one.number)
