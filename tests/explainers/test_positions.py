"""How many positions a language model reads to explain its decisions, counted."""

import numpy as np
import pytest

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


def test_gradients_read_each_sentence_once(model, labelled):
    explainer = load_explainer("gradient_norm")
    read = count_positions(model, lambda: explainer.relevance(model, labelled))
    assert read == SENTENCES * (SOURCE + len(model.between) + TARGET)


def test_prediction_difference_reads_the_source_for_each_word_and_what_follows_a_prefix_word(
    model, labelled
):
    """Prefix words are removed in blocks that begin at one step, so a little more is read."""
    explainer = load_explainer("prediction_difference")
    read = count_positions(model, lambda: explainer.relevance(model, labelled))
    # The whole row, and the row without the EOS, beside those without a source word.
    rows = (SOURCE + 2) * (SOURCE + len(model.between) + TARGET)
    least = SENTENCES * (rows + TARGET * (TARGET - 1) / 2)
    assert least <= read < 1.1 * least


def test_base_reads_a_source_for_each_source_word_and_a_row_for_each_decision(model, split):
    """One decision at each step, whose rules all name another pair of words."""
    sentence, steps = (x.ravel() for x in np.mgrid[:SENTENCES, :TARGET])
    source = (steps % SOURCE)[:, None]
    prefix = np.maximum(steps - 1, -1)[:, None]
    read = count_positions(
        model, lambda: masked_states(model, split, sentence, steps, source, prefix)
    )
    # A row is read to the longest of its part.
    rows = TARGET**2 * (PARTS + 1) / (2 * PARTS)
    assert read == SENTENCES * (SOURCE * (SOURCE + len(model.between)) + rows)
    # The word before the previous one: another place than the one that predicts.
    prefix = np.where(steps > 1, steps - 2, steps - 1)[:, None]
    read = count_positions(
        model, lambda: masked_states(model, split, sentence, steps, source, prefix, "attention")
    )
    # Of the source the rule's word and what stands behind; of the target BOS, the rule's word, and
    # the place that predicts. A word that no state attends to is not read.
    assert read == SENTENCES * (SOURCE * (1 + len(model.between)) + 3 * TARGET)
