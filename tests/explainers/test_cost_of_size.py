"""The formulas of `benchmarks/cost_of_size.py` against counted positions and operations."""

import numpy as np
import pytest
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import cost_of_size
from support.language_models import EXAMPLES, TEMPLATE, build
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.explainers.base import decide
from xnmt_bench.judges.masked import PARTS, masked_states
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.causal_lm import open_causal_lm
from xnmt_bench.registry import load_explainer

SENTENCES, SOURCE, TARGET = 16, 9, 20


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    pairs = [(s.source, s.target) for s in ToyCorpus(train=500).sentences("train")]
    texts = ([source for source, _ in pairs], [target for _, target in pairs])
    folder = tmp_path_factory.mktemp("costs") / "llama"
    # Of several layers, since nothing walks back through most of the last one.
    build("llama", folder, texts, num_hidden_layers=8)
    return open_causal_lm(str(folder), TEMPLATE, EXAMPLES)


@pytest.fixture(scope="module")
def split():
    """Sentences of equal lengths, of words drawn at random."""
    rng = np.random.default_rng(0)
    sides = [
        EncodedSide.of([[*rng.integers(20, 200, words - 1), EOS] for _ in range(SENTENCES)])
        for words in (SOURCE + 1, TARGET)
    ]
    return EncodedSplit(*sides, np.arange(SENTENCES))


@pytest.fixture(scope="module")
def labelled(model, split):
    pairs = [(split.source[i], split.target[i]) for i in range(SENTENCES)]
    return decide(model, Batch.collate(pairs))[0]


@pytest.fixture(scope="module")
def text(model):
    return cost_of_size.Text(len(model.before), SOURCE, len(model.between), TARGET)


def count_positions(model, work):
    """Returns how many positions the stack reads, without the prompt's beginning in its one row."""
    read = []

    def note(_, __, options):
        rows, steps = options["inputs_embeds"].shape[:2]
        beginning = (rows, steps) == (1, len(model.before))
        read.append(0 if beginning else rows * steps)

    hook = model.model.model.register_forward_pre_hook(note, with_kwargs=True)
    work()
    hook.remove()
    return sum(read)


def test_gradients_read_as_many_positions_as_calculated(model, labelled, text):
    explainer = load_explainer("gradient_norm")
    read = count_positions(model, lambda: explainer.relevance(model, labelled))
    assert read == SENTENCES * cost_of_size.count_gradients(text).read


def test_prediction_difference_reads_as_many_positions_as_calculated(model, labelled, text):
    """Few sentences have their last words removed in larger blocks, which waste a little more."""
    explainer = load_explainer("prediction_difference")
    read = count_positions(model, lambda: explainer.relevance(model, labelled))
    expected = SENTENCES * cost_of_size.count_prediction_difference(text).read
    assert expected <= read < 1.02 * expected


def test_base_reads_as_many_positions_as_calculated(model, split, text):
    """One decision at each step, whose rules all name another pair of words."""
    sentence, steps = (x.ravel() for x in np.mgrid[:SENTENCES, :TARGET])
    source = (steps % SOURCE)[:, None]
    prefix = np.maximum(steps - 1, -1)[:, None]
    read = count_positions(
        model, lambda: masked_states(model, split, sentence, steps, source, prefix)
    )
    assert read == SENTENCES * cost_of_size.count_base(text, PARTS).read
    # The word before the previous one: another place than the one that predicts.
    prefix = np.where(steps > 1, steps - 2, steps - 1)[:, None]
    read = count_positions(
        model, lambda: masked_states(model, split, sentence, steps, source, prefix, "attention")
    )
    assert read == SENTENCES * cost_of_size.count_base_masked(text).read


def test_gradients_take_as_many_operations_as_calculated(model, labelled, text):
    """One sentence and one step at a time, since steps that walk together are not counted."""
    config = model.model.config
    sizes = cost_of_size.Sizes(
        config.num_hidden_layers, config.hidden_size, config.intermediate_size,
        config.num_attention_heads, config.num_key_value_heads, config.head_dim,
        len(model.their_ids), tied=False,
    )  # fmt: skip
    batch, explainer = labelled.take([0]), load_explainer("gradient_norm", positions=1)
    with FlopCounterMode(display=False) as counter:
        explainer.relevance(model, batch)
    work = cost_of_size.count_gradients(text)
    expected = cost_of_size.count_operations(sizes, text, work, prompts=1)
    assert 0.85 * expected < counter.get_total_flops() <= expected
