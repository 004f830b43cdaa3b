"""The output layer in parts is the output layer."""

from copy import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from xnmt_bench.nmt import base, output
from xnmt_bench.nmt.foreign import Renumbering
from xnmt_bench.nmt.output import LinearOutput, linear_parts

WORDS, IMPOSSIBLE = 1300, (2, 511, 512, 1299)  # three parts of a CPU, and the seams between them


class Layer(LinearOutput):
    def __init__(self, dtype=torch.float64):
        torch.manual_seed(0)
        self.output = nn.Linear(16, WORDS, dtype=dtype).requires_grad_(False)
        self.impossible = IMPOSSIBLE
        self.states = torch.randn(300, 16, dtype=dtype)
        self.labels = (torch.arange(300) * 17 + 3) % WORDS


@pytest.fixture
def layer():
    return Layer()


def test_parts_are_the_logits(layer):
    parts = list(layer.logit_parts(layer.states))
    assert [x.shape[1] for x in parts] == [512, 512, 276]
    torch.testing.assert_close(torch.cat(parts, dim=1), layer.logits(layer.states))
    assert (parts[0][:, [2, 511]] == -torch.inf).all()


def test_few_states_are_asked_of_wide_parts(layer):
    assert len(list(layer.logit_parts(layer.states[:3]))) == 1


def test_another_order_of_the_rows(layer):
    runs = [slice(1, 2), slice(0, 1), slice(1, 2), slice(3, 1200)]  # one row twice, some never
    parts = linear_parts(layer.states, layer.output.weight, layer.output.bias, runs)
    expected = layer.output(layer.states)[:, [1, 0, 1, *range(3, 1200)]]
    torch.testing.assert_close(torch.cat(list(parts), dim=1), expected)


def test_the_runs_of_another_toolkits_ids_are_its_ids():
    ids = Renumbering(12, pad=11, unk=1, start=11, eos=0, never=[11])
    assert [i for run in ids.runs for i in range(run.start, run.stop)] == ids.theirs_V.tolist()
    assert ids.runs[-1] == slice(2, 11)


@pytest.mark.parametrize("words", [None, 0, 299, 300])
def test_probabilities_and_choices_are_those_of_the_whole(layer, words):
    states, labels = layer.states[:words], layer.labels[:words]
    expected = layer.logits(states).log_softmax(1)
    of_labels = expected.gather(1, labels[:, None])[:, 0]
    label_p = output.log_probability(layer.logit_parts(states), labels)
    torch.testing.assert_close(label_p, of_labels)
    choices, decided_p = output.decide(layer.logit_parts(states), labels)
    torch.testing.assert_close(decided_p, of_labels)
    assert choices.tolist() == expected.argmax(1).tolist()
    choices, choice_p = output.decide(layer.logit_parts(states))
    torch.testing.assert_close(choice_p, expected.amax(1) if len(states) else label_p)
    assert choices.tolist() == expected.argmax(1).tolist()


def test_sure_decisions_lose_no_digits():
    logits = torch.randn(300, WORDS, generator=torch.Generator().manual_seed(0)) * 2 - 40
    labels = torch.arange(300) % WORDS
    logits[range(300), labels] += 20.0  # P above 0.99, beside logits of 20
    exact, direct = (
        x.log_softmax(1).gather(1, labels[:, None])[:, 0].exp() for x in (logits.double(), logits)
    )
    computed = [x.exp() for x in (
        output.log_probability(logits.split(512, dim=1), labels),
        output.decide(logits.split(512, dim=1))[1],
        output.decide(logits.split(512, dim=1), labels)[1],
    )]  # fmt: skip
    assert exact.median() > 0.999
    for probability in computed:
        assert (probability - exact).abs().mean() <= 1.1 * (direct - exact).abs().mean()


def test_the_gradient_of_a_choice_is_that_of_the_whole(layer):
    leaves = [layer.states.clone().requires_grad_() for _ in range(2)]
    layer.logits(leaves[0]).log_softmax(1).amax(1).sum().backward()
    output.decide(layer.logit_parts(leaves[1]))[1].sum().backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad)


@pytest.mark.parametrize("parts", [True, False])
def test_how_many_states_are_asked_at_once(transformer, parts, monkeypatch):
    """Many where parts are narrow, few where a part is the whole vocabulary."""

    class Whole(type(transformer.system.model)):
        def logits(self, states):
            return super().logits(states)

    model, states_a_call = copy(transformer.system.model), []
    if not parts:
        model.__class__ = Whole
    many, few = 50, 7
    monkeypatch.setattr(output, "ROWS", many)
    monkeypatch.setattr(base, "OUTPUT_ROWS", (1, few))
    monkeypatch.setattr(base, "OUTPUT_NUMBERS", (1, 1))
    linear = F.linear

    def counted(states, *layer):
        states_a_call.append(len(states))
        return linear(states, *layer)

    monkeypatch.setattr(F, "linear", counted)
    states = torch.randn(110, model.output.in_features)
    model.decide(states)
    assert set(states_a_call) == ({50, 10} if parts else {7, 5})
    states_a_call.clear()
    model.log_probability(states, torch.zeros(110, dtype=torch.long))
    assert set(states_a_call) == ({50, 10} if parts else {7, 5})


def test_a_label_that_is_no_word_is_told():
    parts = [torch.zeros(3, 5), torch.zeros(3, 3)]
    label_p = output.log_probability(parts, torch.tensor([-1, 7, 8]))
    assert label_p.isnan().tolist() == [True, False, True]


def test_a_subclass_is_asked_for_the_logits_that_it_has(transformer):
    class Sharper(type(transformer.system.model)):
        def logits(self, states):
            return super().logits(states) * 2

    model = copy(transformer.system.model)
    model.__class__ = Sharper
    states = torch.randn(5, model.output.in_features)
    expected = model.logits(states).log_softmax(-1).amax(-1)
    torch.testing.assert_close(model.decide(states)[1], expected)


def test_an_impossible_label_and_an_impossible_part():
    parts = [torch.full((1, 2), -torch.inf), torch.tensor([[0.0, 1.0]])]
    expected = torch.cat(parts, dim=1).log_softmax(1)
    for label in range(4):
        label_p = output.log_probability(parts, torch.tensor([label]))
        torch.testing.assert_close(label_p, expected[:, label])


def test_of_equal_words_the_first_is_chosen():
    parts = [torch.tensor([[0.0, 2.0, 2.0]]), torch.tensor([[2.0]])]
    assert output.decide(parts)[0].tolist() == [1]


def test_gradients_are_those_of_the_whole(layer):
    leaves = [layer.states.clone().requires_grad_() for _ in range(2)]
    labels = layer.labels
    at_once = layer.logits(leaves[0]).log_softmax(1).gather(1, labels[:, None]).exp()
    parts = output.log_probability(layer.logit_parts(leaves[1]), labels).exp()
    for probability in (at_once, parts):
        probability.sum().backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad)


@pytest.mark.parametrize("at_once", [False, True])
def test_short_logits_are_summed_in_single_precision(at_once):
    layer = Layer(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        parts = [layer.logits(layer.states)] if at_once else layer.logit_parts(layer.states)
        label_p = output.log_probability(parts, layer.labels)
        short = F.linear(layer.states, layer.output.weight, layer.output.bias).float()
    short[:, IMPOSSIBLE] = -torch.inf
    expected = short.log_softmax(1).gather(1, layer.labels[:, None])[:, 0]
    assert label_p.dtype == torch.float32
    torch.testing.assert_close(label_p, expected)
