"""Guided attention against slow loops, and students against the Transformer that they are."""

import numpy as np
import pytest
import torch

from support.systems import batch_of, double
from xnmt_bench.corpora.vocabulary.subwords import BOS
from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.student.guided import GuidedBatch, GuidedTransformer, guide
from xnmt_bench.metrics.student.maps import GuidedBatches, map_of, pad_maps
from xnmt_bench.metrics.student.stages import translate_and_score
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.decoding import length_limit, translate, translate_encoded
from xnmt_bench.nmt.transformer import Transformer

SIZES = {"layers": 2, "heads": 2, "dimension": 16, "feed_forward": 32, "dropout": 0.1}
OPERATORS = ("add", "multiply", "average", "replace")


class DrawnMaps:
    """A random map of each sentence of a split."""

    def __init__(self, split):
        self._split = split

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        shape = len(self._split.target[index]), len(self._split.source[index])
        return map_of(rng.random(shape))


@pytest.fixture(scope="module")
def transformer_split(transformer):
    return transformer.texts.split("test")


def student_of(job, operator, seed=0):
    torch.manual_seed(seed)
    return double(GuidedTransformer(*job.texts.subwords, operator, **SIZES))


def guided_batch(split, indices):
    batch = GuidedBatches(split, DrawnMaps(split), np.arange(len(split)), 100, None)
    collated = batch.collate(np.array(indices))
    return GuidedBatch(**{**vars(collated), "map_BUS": collated.map_BUS.double()})


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_equal_a_slow_loop(operator):
    rng = np.random.default_rng(0)
    energy = rng.normal(size=(2, 3, 4, 5))
    energy[1, ..., 4] = -np.inf  # padding
    maps = rng.random((2, 4, 5)) + 0.1
    maps[1, :, 4] = 0
    maps /= maps.sum(-1, keepdims=True)
    guided = guide(operator, torch.tensor(energy), torch.tensor(maps)).numpy()
    for b, h, t in np.ndindex(2, 3, 4):
        own_share = np.exp(energy[b, h, t]) / np.exp(energy[b, h, t]).sum()
        row = maps[b, t]
        expected = {
            "add": own_share + row,
            "multiply": own_share * row / (own_share * row).sum(),
            "average": (own_share + row) / 2,
            "replace": row,
        }[operator]
        np.testing.assert_allclose(guided[b, h, t], expected, atol=1e-12)
        assert guided[b, h, t].sum() == pytest.approx(2 if operator == "add" else 1)


def test_a_product_that_underflows_is_still_divided():
    """The map looks where attention does not look at all."""
    energy = torch.tensor([[[[500.0, 0.0, -500.0]]]])
    maps = torch.tensor([[[0.0, 0.25, 0.75]]])
    np.testing.assert_allclose(guide("multiply", energy, maps)[0, 0, 0], [0, 1, 0], atol=1e-30)


def test_multiplying_with_equal_shares_changes_nothing(transformer, transformer_split):
    student, plain = student_of(transformer, "multiply"), student_of(transformer, None)
    batch = guided_batch(transformer_split, [0, 3, 5])
    even_BUS = (batch.map_BUS > -1) * batch.source_mask_BS[:, None].double()
    even_BUS = even_BUS / even_BUS.sum(-1, keepdim=True)
    even = GuidedBatch(**{**vars(batch), "map_BUS": even_BUS})
    mask_BT = batch.target_mask_BT
    np.testing.assert_allclose(
        student.states(even)[mask_BT].numpy(), plain.states(batch)[mask_BT].numpy(), atol=1e-10
    )
    # The other maps do change something.
    assert (student.states(batch)[mask_BT] - plain.states(batch)[mask_BT]).abs().max() > 0.01


def test_a_student_without_maps_is_the_transformer(transformer, transformer_split):
    student, batch = student_of(transformer, None), batch_of(transformer_split, [0, 4])
    torch.manual_seed(0)
    transformer_alone = double(Transformer(*transformer.texts.subwords, **SIZES))
    np.testing.assert_array_equal(student(batch).numpy(), transformer_alone(batch).numpy())
    sources = [transformer_split.source[0], transformer_split.source[4]]
    assert translate(student, sources, 2) == translate(transformer_alone, sources, 2)


@pytest.mark.parametrize("operator", OPERATORS)
def test_replaced_attention_is_the_map_in_every_layer_and_head(
    transformer, transformer_split, operator
):
    student, batch = student_of(transformer, operator), guided_batch(transformer_split, [2, 6])
    encoding = student.encode_batch(batch)
    weights = student.attention(encoding, student.embed_target(batch.input_BT)).cross_BLHTS
    steps = batch.target_BT.shape[1]
    expected = batch.map_BUS[:, None, None, :steps].expand_as(weights)
    assert torch.allclose(weights, expected, atol=1e-12) == (operator == "replace")


@pytest.mark.parametrize("operator", OPERATORS)
def test_reading_word_by_word_gives_the_states_of_teacher_forcing(
    transformer, transformer_split, operator
):
    student, batch = student_of(transformer, operator), guided_batch(transformer_split, [1, 7])
    states_BTD = student.states(batch)
    reader = student.reader(student.encode_batch(batch))
    for step in range(min(map(len, (transformer_split.target[1], transformer_split.target[7])))):
        state_BD = reader.read(batch.input_BT[:, step : step + 1])
        np.testing.assert_allclose(state_BD.numpy(), states_BTD[:, step].numpy(), atol=1e-10)
    # Rows that go on in another order take their maps with them.
    reader.select(torch.tensor([1, 0, 1]))
    turned = reader.read(batch.input_BT[[1, 0, 1], step + 1 : step + 2])
    expected = states_BTD[[1, 0, 1], step + 1]
    np.testing.assert_allclose(turned.numpy(), expected.numpy(), atol=1e-10)


def test_some_sentences_of_a_batch_take_their_maps_with_them(transformer, transformer_split):
    student, batch = student_of(transformer, "replace"), guided_batch(transformer_split, [0, 2, 5])
    mask_BT = batch.take([2]).target_mask_BT
    alone = student.states(batch.take([2]))[mask_BT]
    together = student.states(batch)[2, : mask_BT.shape[1]]
    np.testing.assert_allclose(alone.numpy(), together.numpy(), atol=1e-10)
    with pytest.raises(NotApplicable, match="not its own"):
        student.attention_blocks(batch)


def test_a_translation_beyond_its_map_looks_where_eos_does(transformer, transformer_split):
    """As if the last row of the map stood there again."""
    student = student_of(transformer, "replace")
    source, maps = transformer_split.source[3], DrawnMaps(transformer_split)[3]
    longer = np.concatenate([maps, np.repeat(maps[-1:], 60, axis=0)])
    translations = []
    for map_TS in (maps, longer):
        pair = Batch.collate([(source, transformer_split.target[3])])
        map_BUS = pad_maps([map_TS], len(source)).double()
        encoding = student.encode_batch(GuidedBatch(**vars(pair), map_BUS=map_BUS))
        first = torch.full((1, 1), BOS)
        translations.append(translate_encoded(student, encoding, first, [length_limit(source)], 2))
    assert translations[0] == translations[1]
    assert len(translations[0][0]) > len(maps)


@pytest.mark.parametrize("operator", [None, *OPERATORS])
def test_what_a_student_says_does_not_depend_on_the_batch(transformer, transformer_split, operator):
    student = student_of(transformer, operator).float()
    maps = DrawnMaps(transformer_split) if operator else None
    together = translate_and_score(student, transformer_split, maps, 12, beam=2, batch_tokens=100)
    for index in (0, 5, 11):
        member = np.array([index])

        class Moved:
            def __getitem__(self, _, index=index):
                return maps[index]

        moved = Moved() if maps else None
        alone = translate_and_score(
            student, transformer_split.taken(member), moved, 1, beam=2, batch_tokens=100
        )
        assert alone["text"][0] == together["text"][index]
        assert alone["log_likelihood"][0] == pytest.approx(
            together["log_likelihood"][index], rel=1e-5
        )
        assert alone["steps"][0] == together["steps"][index] == len(transformer_split.target[index])
