"""How far an explanation may be off: the explainers' own estimates, and the lines of the table."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from support.forked_commands import must_run
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.registry import load_explainer


@pytest.mark.parametrize("points", [2, pytest.param(120, marks=pytest.mark.long)])
def test_the_gap_is_what_the_sum_misses(transformer_and_batch, points):
    model, batch = transformer_and_batch
    relevance = load_explainer("integrated_gradients", points=points).relevance(model, batch)
    words = [model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)]
    # BOS stays.
    zeros = [torch.zeros_like(words[0]), torch.zeros_like(words[1])]
    zeros[1][:, 0] = words[1][:, 0]
    numbers = []
    for source, inputs in (words, zeros):
        states = model.decode(model.encode(source, batch.layout), inputs)
        numbers.append(model.log_probability(states, batch.labels_BT).exp())
    summed = relevance.source_BTS.nansum(-1) + relevance.prefix_BTT.nansum(-1)
    gap = ((numbers[0] - numbers[1]) - summed).abs() * batch.target_mask_BT
    torch.testing.assert_close(relevance.error_BT, gap, rtol=0, atol=1e-9)
    assert (relevance.error_BT.max() < 0.05) == (points == 120)


@pytest.mark.parametrize("foil", [None, "second"])
def test_what_is_not_on_words_is_the_logit_less_their_sum(transformer_and_batch, foil):
    model, batch = transformer_and_batch
    relevance = load_explainer("cp_lrp", foil=foil).relevance(model, batch)
    for row, length in enumerate(batch.target_mask_BT.sum(1).tolist()):
        words = batch.source_BS[row] > EOS
        for step in range(length):
            logits = model(batch)[row, step]
            label = int(batch.labels_BT[row, step])
            number = logits[label]
            if foil:
                logits = logits.clone()
                logits[label] = -torch.inf
                number = number - logits.max()
            on_words = relevance.source_BTS[row, step][words].sum()
            on_words = on_words + relevance.prefix_BTT[row, step, :step].sum()
            expected = float((number - on_words).abs())
            assert float(relevance.error_BT[row, step]) == pytest.approx(expected, abs=1e-9)
        assert (relevance.error_BT[row, length:] == 0).all()


def test_the_standard_error_is_that_of_the_orders():
    """Of two source words and two earlier target words, some of which work together."""
    shares = torch.tensor([0.5, 0.2, -0.1, 0.3], dtype=torch.float64)

    def value(keep_X):
        return float(shares @ keep_X.double()) + 0.4 * bool(keep_X[0] and keep_X[3])

    def values(keep_1RX):
        values_R = [value(keep_X) for keep_X in torch.as_tensor(keep_1RX[0])]
        return torch.tensor([[[v, 2 * v] for v in values_R]], dtype=torch.float64)

    sentence = SimpleNamespace(
        source=2, prefix=2, words_X=[np.arange(4)], device="cpu", values=values
    )
    generator = torch.Generator().manual_seed(3)
    drawn = torch.Generator().manual_seed(3)
    [mean_TX], [error_T] = load_explainer("shapley", permutations=5).scores(sentence, [generator])
    added = torch.zeros(5, 4, dtype=torch.float64)
    for n in range(5):
        keep_X = torch.zeros(4, dtype=torch.bool)
        for word in torch.randperm(4, generator=drawn).tolist():
            before = value(keep_X)
            keep_X[word] = True
            added[n, word] = value(keep_X) - before
    torch.testing.assert_close(mean_TX[0], added.mean(0))
    expected = (added.std(0) / 5**0.5).max()
    torch.testing.assert_close(error_T, torch.stack([expected, 2 * expected]))
    assert expected > 0.05
    assert len(load_explainer("shapley", permutations=1).scores(sentence, [generator])) == 1


@pytest.mark.long
def test_the_table_says_how_far_rows_may_be_off(tmp_path):
    shared = ["corpus.train=300", "corpus.valid=20", "corpus.test=4", "threads=1",
              f"store={tmp_path}/store", f"results={tmp_path}/results"]  # fmt: skip
    must_run(
        "train.py", "-m", *shared, "corpus.subwords.source_size=300",
        "corpus.subwords.target_size=300", "nmt.sizes.dimension=16", "nmt.sizes.feed_forward=16",
        "nmt.training.max_epochs=1", "metric=[fidelity]", "judge=[base]",
        "explainer=integrated_gradients,shapley,gradient_norm,cp_lrp", "trainer.progress_bar=false",
        cwd=tmp_path,
    )  # fmt: skip
    shown = must_run("evaluate.py", *shared, "metric=[fidelity]", cwd=tmp_path)
    text = " ".join(shown.stdout.split())
    assert "integrated_gradients on transformer: completeness gap" in text
    assert "shapley on transformer: standard error over orders" in text
    assert "cp_lrp on transformer: part of the logit that is not on words" in text
    assert text.count(" in the median, ") == 3  # gradients know no error
