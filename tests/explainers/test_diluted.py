"""The dial for leaks: the same decisions are replaced by a code or by random draws."""

from collections import Counter

import pytest
import torch

from xnmt_bench.errors import XnmtError
from xnmt_bench.registry import load_explainer


def replaced(model, batch, **options):
    """Whether each step's relevance differs from the honest explainer's, (B, T)."""
    honest = load_explainer("gradient_norm").relevance(model, batch).source_BTS
    diluted = load_explainer("diluted", of="gradient_norm", **options).relevance(model, batch)
    return (diluted.source_BTS.nan_to_num() != honest.nan_to_num()).any(-1)


@pytest.mark.parametrize("by", ["code", "random"])
def test_nothing_and_everything_is_replaced_at_the_ends(transformer, labelled_batch, by):
    model = transformer.system.model
    assert not replaced(model, labelled_batch, by=by, share=0.0).any()
    diluted = load_explainer("diluted", of="gradient_norm", by=by, share=1.0, seed=3)
    other = load_explainer(by, **({"seed": 3} if by == "random" else {}))
    for first, second in zip(
        *(vars(e.relevance(model, labelled_batch)).values() for e in (diluted, other)), strict=True
    ):
        torch.testing.assert_close(first, second, equal_nan=True)


@pytest.mark.long
def test_both_dials_replace_the_same_decisions_and_more_by_and_by(transformer, labelled_batch):
    model, before = transformer.system.model, None
    for share in (0.25, 0.5, 0.75):
        by_code, by_draw = (
            replaced(model, labelled_batch, by=by, share=share) for by in ("code", "random")
        )
        assert torch.equal(by_code, by_draw)
        counted = by_code[labelled_batch.target_mask_BT].double().mean()
        assert counted == pytest.approx(share, abs=0.12)  # of some 200 decisions
        assert before is None or not (before & ~by_code).any()
        before = by_code


def test_a_place_code_depends_on_places_and_labels_alone(transformer, labelled_batch):
    """Equal numbers at one place wherever the label is the same, and others for other labels."""
    explainer = load_explainer("diluted", of="gradient_norm", by="place_code", share=1.0)
    relevance = explainer.relevance(transformer.system.model, labelled_batch)
    numbers_at = {}
    for b, t in labelled_batch.target_mask_BT.nonzero().tolist():
        label = int(labelled_batch.labels_BT[b, t])
        for s in range(int(labelled_batch.source_mask_BS[b].sum())):
            numbers_at.setdefault((label, s), set()).add(float(relevance.source_BTS[b, t, s]))
        # Decoder input j + 1 is target word j.
        for j in range(t):
            numbers = numbers_at.setdefault((label, j + 1), set())
            numbers.add(float(relevance.prefix_BTT[b, t, j]))
    assert all(len(numbers) == 1 for numbers in numbers_at.values())
    places = [
        {number for (_, s), [number] in numbers_at.items() if s == place} for place in range(3)
    ]
    assert all(len(numbers) > 20 for numbers in places)


def test_a_frequency_code_depends_on_frequencies_and_labels_alone(transformer, labelled_batch):
    train = transformer.texts.split("train")
    explainer = load_explainer("diluted", of="gradient_norm", by="frequency_code", share=1.0)
    explainer.learnt = explainer.prepare(train)
    relevance = explainer.relevance(transformer.system.model, labelled_batch)
    counts = Counter(i for n in range(len(train.source)) for i in train.source[n].tolist())
    numbers_at = {}
    for b, t in labelled_batch.target_mask_BT.nonzero().tolist():
        for s in range(int(labelled_batch.source_mask_BS[b].sum())):
            # Of a number n + 1 the bits but one say which power of two is the next below.
            band = (counts[int(labelled_batch.source_BS[b, s])] + 1).bit_length() - 1
            place = int(labelled_batch.labels_BT[b, t]), band
            numbers_at.setdefault(place, set()).add(float(relevance.source_BTS[b, t, s]))
    assert all(len(numbers) == 1 for numbers in numbers_at.values())
    assert len({band for _, band in numbers_at}) > 4
    bands = {}
    for (_, band), [number] in numbers_at.items():
        bands.setdefault(band, set()).add(number)
    assert max(map(len, bands.values())) > 20


def test_a_frequency_code_has_to_count_first(transformer, labelled_batch):
    explainer = load_explainer("diluted", of="gradient_norm", by="frequency_code")
    with pytest.raises(XnmtError, match="call prepare first"):
        explainer.relevance(transformer.system.model, labelled_batch)
