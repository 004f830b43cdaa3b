"""Explainers that switch many words off at once, and those that walk there: identities."""

from itertools import permutations
from math import factorial

import pytest
import torch
from captum._utils.models.model import Model
from captum.attr import IntegratedGradients as CaptumIntegrated
from captum.attr._core.lime import LimeBase, get_exp_kernel_similarity_function

from support.relevance_checks import visible
from support.systems import double, double_and_batch, trained
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.explainers import shapley
from xnmt_bench.explainers.base import decide
from xnmt_bench.explainers.random import seeded
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.registry import load_explainer


@pytest.fixture(scope="module")
def system_and_pair(system):
    """A model in float64 and two labelled sentences of unlike lengths."""
    return double_and_batch(system, range(2))


def few_words(job):
    """A model in float64 and a labelled sentence of few words."""
    model, split = double(job.system.model), job.texts.split("test")
    pair = ([*split.source[0][:2].tolist(), EOS], [*split.target[0][:2].tolist(), EOS])
    batch, _ = decide(model, Batch.collate([pair]))
    return model, batch


@pytest.fixture(scope="module")
def short(transformer):
    """The Transformer on few words."""
    return few_words(transformer)


def numbers(model, batch, on_source, on_prefix):
    """P(label) of each step with some words on, of a single sentence."""
    source = model.embed_source(batch.source_BS) * torch.tensor(on_source).double()[None, :, None]
    keep = torch.tensor([True, *on_prefix]).double()[None, :, None]
    inputs = model.embed_target(batch.input_BT) * keep
    with torch.no_grad():
        states = model.decode(model.encode(source, batch.layout), inputs)
        p_TV = model.logits(states[0]).softmax(-1)
    return p_TV.gather(-1, batch.labels_BT[0, :, None])[:, 0]


def test_integrated_gradients_equal_captums(transformer):
    model, batch = double_and_batch(transformer, range(2))
    source_BSD, input_BTD = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    from_source, from_input = torch.zeros_like(source_BSD), torch.zeros_like(input_BTD)
    from_input[:, 0] = input_BTD[:, 0]  # BOS stays
    (b, s), t = batch.source_BS.shape, batch.target_BT.shape[1]
    source, prefix = torch.zeros(b, t, s).double(), torch.zeros(b, t, t).double()
    for step in range(t):

        def forward(x, y, step=step):
            points = len(x) // b
            layout = batch.layout.map(lambda z: z.repeat(points, 1))
            states = model.decode(model.encode(x, layout), y)
            p = model.logits(states[:, step]).softmax(-1)
            return p.gather(-1, batch.labels_BT[:, step, None].repeat(points, 1))[:, 0]

        x, y = CaptumIntegrated(forward).attribute(
            (source_BSD, input_BTD), (from_source, from_input), n_steps=3
        )
        source[:, step] = x.sum(-1).detach()
        prefix[:, step, : t - 1] = y.sum(-1)[:, 1:].detach()
    source, prefix = visible(batch, source, prefix)
    relevance = load_explainer("integrated_gradients", points=3).relevance(model, batch)
    for actual, expected in ((relevance.source_BTS, source), (relevance.prefix_BTT, prefix)):
        # Captum rounds the weights of points to float32.
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-7, equal_nan=True)


def test_more_points_bring_integrated_gradients_to_completeness(workplace):
    """Gauss and Legendre's points do so at the rate of a power, where nothing is normed.

    RNNSearch is smooth along the way for all weights. A Transformer's norms forget lengths,
    so that its way has a bend near zero.
    """
    model, batch = few_words(trained("rnn_search", workplace))
    s, t = batch.source_BS.shape[1], batch.target_BT.shape[1]
    gap_T = numbers(model, batch, [True] * s, [True] * (t - 1)) - numbers(
        model, batch, [False] * s, [False] * (t - 1)
    )
    errors = []
    for points in (2, 60):
        r = load_explainer("integrated_gradients", points=points).relevance(model, batch)
        total_T = r.source_BTS[0].nansum(-1) + r.prefix_BTT[0].nansum(-1)
        errors.append((total_T - gap_T).abs().max())
    assert errors[1] < 1e-9 < errors[0]


@pytest.mark.parametrize("name", ["integrated_gradients", "shapley", "lime"])
def test_neither_batch_nor_padding_nor_chunks_play_a_part(system_and_pair, name):
    model, batch = system_and_pair
    few = {"integrated_gradients": {"points": 5}, "shapley": {"permutations": 3},
           "lime": {"samples": 20}}[name]  # fmt: skip
    together = load_explainer(name, **few).relevance(model, batch)
    for row in range(len(batch.source_BS)):
        alone = batch.take([row])
        relevance = load_explainer(name, **few, positions=50).relevance(model, alone)
        for padded, part in zip(vars(together).values(), vars(relevance).values(), strict=True):
            if part is None:  # the error of a step, where it is not known
                assert padded is None
                continue
            here = padded[(row, *map(slice, part.shape[1:]))]
            torch.testing.assert_close(here, part[0], rtol=1e-8, atol=1e-10, equal_nan=True)


def test_shapley_sums_to_what_all_words_add(system_and_pair):
    model, batch = system_and_pair
    relevance = load_explainer("shapley", permutations=2).relevance(model, batch)
    for row in range(len(batch.source_BS)):
        alone = batch.take([row])
        s, t = alone.source_BS.shape[1], alone.target_BT.shape[1]
        on, off = ([state] * s for state in (True, False))
        gap_T = numbers(model, alone, on, [True] * (t - 1)) - numbers(
            model, alone, off, [False] * (t - 1)
        )
        total_T = relevance.source_BTS[row].nansum(-1) + relevance.prefix_BTT[row].nansum(-1)
        assert (total_T[:t] - gap_T).abs().max() < 1e-12


def test_over_all_orders_shapley_equals_enumeration(short, monkeypatch):
    """The definition: over subsets of the other words, weighted by their sizes."""
    model, batch = short
    s, u = batch.source_BS.shape[1], batch.target_BT.shape[1] - 1
    words = s + u
    subsets = {}
    for code in range(2**words):
        on = [bool(code >> x & 1) for x in range(words)]
        subsets[code] = numbers(model, batch, on[:s], on[s:])
    expected_XT = torch.zeros(words, u + 1).double()
    for x in range(words):
        for code, value_T in subsets.items():
            if not code >> x & 1:
                size = bin(code).count("1")
                weight = factorial(size) * factorial(words - size - 1) / factorial(words)
                expected_XT[x] += weight * (subsets[code | 1 << x] - value_T)
    orders = map(torch.tensor, permutations(range(words)))
    monkeypatch.setattr(shapley.torch, "randperm", lambda *_, **__: next(orders))
    explainer = load_explainer("shapley", permutations=factorial(words))
    relevance = explainer.relevance(model, batch)
    source_TS, prefix_TU = relevance.source_BTS[0], relevance.prefix_BTT[0, :, :u]
    torch.testing.assert_close(source_TS, expected_XT[:s].T, rtol=0, atol=1e-12)
    visible_TU = ~prefix_TU.isnan()
    torch.testing.assert_close(
        prefix_TU[visible_TU], expected_XT[s:].T[visible_TU], rtol=0, atol=1e-12
    )
    # What a step does not see adds nothing there, in the definition too.
    assert expected_XT[s:].T[~visible_TU].abs().max() < 1e-12


class Ridge(Model):
    """Captum's interpretable model: a weighted ridge regression by augmented least squares."""

    def fit(self, train_data, **_):
        x, y, w = next(iter(train_data))
        x, y, w = x.double(), y.double().flatten(), w.double()
        ones = torch.ones(len(x), 1).double()
        rows = torch.cat([torch.cat([x, ones], 1) * w.sqrt()[:, None],
                          torch.eye(x.shape[1] + 1).double()[:-1]])  # fmt: skip
        values = torch.cat([y * w.sqrt(), torch.zeros(x.shape[1]).double()])
        self.weights = torch.linalg.lstsq(rows, values[:, None]).solution[:-1, 0]

    def representation(self):
        return self.weights[None]

    def __call__(self, x):
        raise NotImplementedError


def test_lime_equals_captums_on_the_same_draws(transformer):
    model, batch = double_and_batch(transformer, [1])
    s, t, samples = batch.source_BS.shape[1], batch.target_BT.shape[1], 30
    relevance = load_explainer("lime", samples=samples, seed=4).relevance(model, batch)
    generator = seeded(4, batch.source_BS[0], batch.target_BT[0])
    drawn = torch.rand(samples, s + t - 1, generator=generator) < 0.5
    for step in (0, 2, t - 1):
        words, rows = s + step, iter(drawn)

        def forward(on, step=step, words=words):
            full = torch.cat([on[0].bool(), torch.ones(s + t - 1 - words, dtype=torch.bool)])
            return numbers(model, batch, full[:s].tolist(), full[s:].tolist())[step][None]

        captums = LimeBase(
            forward,
            Ridge(),
            get_exp_kernel_similarity_function("cosine", 1.0),
            lambda original, **_: next(rows)[None, :words].double(),  # noqa: B023
            False,
            None,
            lambda on, original, **_: on,
        )
        expected = captums.attribute(
            torch.ones(1, words).double(), n_samples=samples, perturbations_per_eval=1
        )[0].double()
        actual = torch.cat([relevance.source_BTS[0, step], relevance.prefix_BTT[0, step, :step]])
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-7)
