"""What explaining costs: counted floating-point operations of the matrix products."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.explainers import gradient
from xnmt_bench.explainers.base import decide
from xnmt_bench.explainers.prediction_difference import Ablation
from xnmt_bench.judges.masked import masked_states
from xnmt_bench.nmt.base import Prefix
from xnmt_bench.nmt.batch import Batch, Layout
from xnmt_bench.nmt.transformer import Transformer
from xnmt_bench.registry import load_explainer

LENGTHS = [(20, 24), (24, 20), (9, 12), (24, 24), (16, 17), (5, 6)]


@pytest.fixture(scope="module")
def random_transformer():
    """A Transformer with random weights, and a batch of sentences of several lengths."""
    torch.manual_seed(0)
    model = Transformer(range(300), range(200), dimension=64, feed_forward=256)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    sides = [
        EncodedSide.of([[*rng.integers(5, 200, n - 1), EOS] for n in side])
        for side in zip(*LENGTHS, strict=True)
    ]
    split = EncodedSplit(*sides, np.arange(len(LENGTHS)))
    pairs = [(split.source[i], split.target[i]) for i in range(len(LENGTHS))]
    return model.eval().requires_grad_(False), split, Batch.collate(pairs)


class Operations(TorchDispatchMode):
    """Counts the floating-point operations of matrix products while it is open."""

    total = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if count := flop_registry.get(function._overloadpacket):
            self.total += count(*args, **(kwargs or {}), out_val=result)
        return result


def operations(work):
    """Floating-point operations of its matrix products."""
    with Operations() as counter:
        work()
    return counter.total


def passes(model, pairs):
    """Of encoding sources and decoding targets of some lengths, one row each, without padding."""
    total = 0
    for s, t in pairs:
        source = torch.zeros(1, s, model.source_embedding.embedding_dim)
        inputs = torch.zeros(1, t, source.shape[2])
        mask = torch.ones(1, max(s, t), dtype=torch.long)
        layout = Layout(mask[:, :s], mask[:, :t])
        with torch.no_grad():
            total += operations(lambda: model.decode(model.encode(source, layout), inputs))  # noqa: B023
    return total


def test_labels_and_attention_are_one_pass(random_transformer):
    model, _, batch = random_transformer
    attention = load_explainer("attention")

    def explain():
        labelled, _ = decide(model, batch, weights=True)
        attention.relevance(model, labelled)

    once = operations(lambda: decide(model, batch))
    assert operations(explain) < 1.1 * once  # and not 2, less the output layer


def test_a_prefix_words_removal_changes_only_what_comes_after_it(random_transformer, monkeypatch):
    model, _, batch = random_transformer
    batch, _ = decide(model, batch)
    operations_needed = operations(
        lambda: load_explainer("prediction_difference").relevance(model, batch)
    )
    output = 2 * model.output.weight.numel()
    encoded = sum(passes(model, [(s, t)]) * s for s, t in LENGTHS)
    decoder = [passes(model, [(s, t)]) - passes(model, [(s, 1)]) for s, t in LENGTHS]
    # Half of the decoder for each of T words; the output layer where something may have changed.
    prefix = sum(t * d / 2 for d, (_, t) in zip(decoder, LENGTHS, strict=True))
    output_operations = output * sum(t * s + t * t / 2 for s, t in LENGTHS)
    assert operations_needed < 1.15 * (encoded + prefix + output_operations)
    monkeypatch.setattr(model, "prefix", lambda encoding: Prefix(model, encoding))
    anew = operations(lambda: load_explainer("prediction_difference").relevance(model, batch))
    assert operations_needed < 0.9 * anew


@pytest.mark.long
@pytest.mark.parametrize("name", ["gradient_norm", "weighted_gradient"])
def test_a_steps_backward_pass_ends_at_the_step(random_transformer, name, monkeypatch):
    model, _, batch = random_transformer
    batch, _ = decide(model, batch)
    # One sentence at a time, so that neither has padding.
    cut = operations(lambda: load_explainer(name, positions=1).relevance(model, batch))
    monkeypatch.setattr(gradient, "chunk_of", lambda steps, _: steps)
    unbounded = operations(lambda: load_explainer(name, positions=1).relevance(model, batch))
    assert cut < 0.9 * unbounded


def test_the_output_layer_is_asked_of_many_prefix_removals_at_once(random_transformer, monkeypatch):
    """Its weights are read for each time, however few the states."""
    model, _, batch = random_transformer
    batch, _ = decide(model, batch.take([3]))
    labels_a_call, log_probability = [], model.log_probability

    def counted(states, labels):
        labels_a_call.append(len(labels.flatten()))
        return log_probability(states, labels)

    monkeypatch.setattr(model, "log_probability", counted)
    load_explainer("prediction_difference").relevance(model, batch)
    steps, words = batch.target_BT.shape[1], batch.source_BS.shape[1]
    assert labels_a_call == [steps, words * steps, steps * (steps - 1) // 2]
    few, total = 100, sum(labels_a_call)
    labels_a_call.clear()
    load_explainer("prediction_difference", positions=few).relevance(model, batch)
    assert sum(labels_a_call) == total
    assert max(labels_a_call) < 2 * few  # a part that is nearly full, and one more


def test_states_of_prefix_removals_are_not_kept_until_all_are_there(
    random_transformer, monkeypatch
):
    model, _, batch = random_transformer
    batch, _ = decide(model, batch.take([3]))
    log_probability, changed = model.log_probability, Ablation._changed
    few, held, most = 40, 0, 0

    def watched(self, *rows):
        nonlocal held, most
        for part in changed(self, *rows):
            held += len(part[0])
            most = max(most, held)
            yield part

    def counted(states, labels):
        nonlocal held
        held = max(0, held - len(labels.flatten()))
        return log_probability(states, labels)

    monkeypatch.setattr(Ablation, "_changed", watched)
    monkeypatch.setattr(model, "log_probability", counted)
    load_explainer("prediction_difference", positions=few).relevance(model, batch)
    steps = batch.target_BT.shape[1]
    assert few <= most < 2 * few < steps * (steps - 1) // 2
    assert held == 0


def test_several_steps_walk_back_in_one_pass(random_transformer, monkeypatch):
    model, _, batch = random_transformer
    batch, _ = decide(model, batch)
    calls, walk = [], torch.autograd.grad

    def counted(*arguments, **options):
        calls.append(options.get("is_grads_batched", False))
        return walk(*arguments, **options)

    monkeypatch.setattr(torch.autograd, "grad", counted)
    runs = []
    for positions in (1, 10**9):
        calls.clear()
        explainer = load_explainer("weighted_gradient", positions=positions)
        runs.append((explainer.relevance(model, batch), calls.count(True), len(calls)))
    (single, batched, many), (other, all_batched, few) = runs
    assert batched == 0
    assert all_batched > 0
    assert few < many / 4
    torch.testing.assert_close(single.source_BTS, other.source_BTS, equal_nan=True)


def test_decisions_of_a_sentence_share_what_they_keep(random_transformer):
    """Base: one encoding for all that keep the same source word, one row for the same of both."""
    model, split, _ = random_transformer
    index = int(np.argmax(split.target.lengths()))
    steps = np.arange(len(split.target[index]))
    sentence, nothing = np.full(len(steps), index), np.full((len(steps), 1), -1)

    def states(source, prefix):
        return masked_states(model, split, sentence, steps, source, prefix)

    source_word = np.arange(len(steps))[:, None] % len(split.source[index])
    alike, unlike = (
        operations(lambda x=x: states(x, np.maximum(steps[:, None] - 1, -1)))
        for x in (nothing, source_word)
    )
    alike_operations = operations(lambda: states(nothing, nothing))
    assert alike_operations < 0.2 * alike < 0.2 * unlike
    # ... and equals what each gives alone.
    together = states(source_word, nothing)
    for step in steps[::5]:
        row = slice(step, step + 1)
        alone = masked_states(
            model, split, sentence[row], steps[row], source_word[row], nothing[row]
        )
        torch.testing.assert_close(together[row], alone, rtol=1e-4, atol=1e-5)
