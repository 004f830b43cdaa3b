"""Sentences of concatenations as rows of their own, and back."""

import torch

from xnmt_bench.corpora.vocabulary.subwords import EOS, PAD, SEPARATOR
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.context.sentences import Sentences, source_numbers

SOURCE = torch.tensor(
    [
        [7, 8, SEPARATOR, 9, SEPARATOR, 10, EOS],
        [11, EOS, PAD, PAD, PAD, PAD, PAD],
        [SEPARATOR, 12, SEPARATOR, 13, 14, EOS, PAD],  # an empty sentence stands first
    ]
)


def test_a_separator_closes_its_sentence():
    numbers = source_numbers(Batch(SOURCE, SOURCE).layout).tolist()
    assert numbers == [[1, 1, 1, 2, 2, 3, 3], [1, 1, 0, 0, 0, 0, 0], [1, 2, 2, 3, 3, 3, 0]]


def test_an_input_opens_its_sentence():
    target = torch.tensor([[7, SEPARATOR, 9, EOS], [SEPARATOR, 8, EOS, PAD]])
    inputs = Batch(SOURCE[:2], target).layout.input_BT.tolist()
    assert inputs == [[1, 1, 2, 2], [1, 2, 2, 0]]


def test_sentences_are_rows_and_go_back():
    numbers = source_numbers(Batch(SOURCE, SOURCE).layout)
    sentences = Sentences(numbers)
    assert sentences.split(SOURCE).tolist() == [
        [7, 8, SEPARATOR], [9, SEPARATOR, PAD], [10, EOS, PAD], [11, EOS, PAD],
        [SEPARATOR, PAD, PAD], [12, SEPARATOR, PAD], [13, 14, EOS],
    ]  # fmt: skip
    assert sentences.row_N.tolist() == [0, 0, 0, 1, 2, 2, 2]
    assert sentences.number_N.tolist() == [1, 2, 3, 1, 1, 2, 3]
    assert torch.equal(sentences.join(sentences.split(SOURCE)), SOURCE)
    deep = torch.randn(3, 7, 2, 5) * (SOURCE != PAD)[..., None, None]
    assert torch.equal(sentences.join(sentences.split(deep)), deep)
    spans = [(row, SOURCE[row, span].tolist()) for row, span in sentences.spans()]
    assert spans[2] == (0, [10, EOS])
    assert spans[-1] == (2, [13, 14, EOS])


def test_some_sentences_are_found_among_all():
    numbers = source_numbers(Batch(SOURCE, SOURCE).layout)
    before = Sentences(torch.where(numbers < numbers.amax(1)[:, None], numbers, 0))
    assert Sentences(numbers).find(before).tolist() == [0, 1, 4, 5]
    nothing = Sentences(torch.zeros_like(numbers))
    assert nothing.row_N.tolist() == []
    assert nothing.split(SOURCE).shape == (0, 0)
    assert torch.equal(nothing.join(torch.zeros(0, 0)), torch.zeros(3, 7))


def test_weights_inside_sentences_as_one_square():
    sentences = Sentences(source_numbers(Batch(SOURCE, SOURCE).layout))
    weights = torch.rand(7, 2, 3, 3, 3)
    square = sentences.square(weights)
    assert square.shape == (3, 2, 3, 7, 7)
    for n, (row, span) in enumerate(sentences.spans()):
        size = span.stop - span.start
        assert torch.equal(square[row, ..., span, span], weights[n, ..., :size, :size])
    assert torch.isclose(square.sum(), sum(
        weights[n, ..., :size, :size].sum()
        for n, size in enumerate(sentences.length_N.tolist())
    ))  # fmt: skip
