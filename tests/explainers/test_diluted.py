"""The dial for leaks: the same decisions are replaced by a code or by random draws."""

import pytest
import torch
from conftest import batch_of

from xnmt_bench.explainers.base import decide
from xnmt_bench.registry import load_explainer


@pytest.fixture(scope="module")
def batch(transformer):
    split = transformer.texts.split("test")
    labelled, _ = decide(transformer.system.model, batch_of(split, range(16)))
    return labelled


def replaced(model, batch, **options):
    """Whether each step's relevance differs from the honest explainer's, (B, T)."""
    honest = load_explainer("gradient_norm").relevance(model, batch).source_BTS
    diluted = load_explainer("diluted", of="gradient_norm", **options).relevance(model, batch)
    return (diluted.source_BTS.nan_to_num() != honest.nan_to_num()).any(-1)


@pytest.mark.parametrize("by", ["code", "random"])
def test_nothing_and_everything_is_replaced_at_the_ends(transformer, batch, by):
    model = transformer.system.model
    assert not replaced(model, batch, by=by, share=0.0).any()
    whole = load_explainer("diluted", of="gradient_norm", by=by, share=1.0, seed=3)
    other = load_explainer(by, **({"seed": 3} if by == "random" else {}))
    for first, second in zip(
        *(vars(e.relevance(model, batch)).values() for e in (whole, other)), strict=True
    ):
        torch.testing.assert_close(first, second, equal_nan=True)


def test_both_dials_replace_the_same_decisions_and_more_by_and_by(transformer, batch):
    model, before = transformer.system.model, None
    for share in (0.25, 0.5, 0.75):
        by_code, by_draw = (replaced(model, batch, by=by, share=share) for by in ("code", "random"))
        assert torch.equal(by_code, by_draw)
        counted = by_code[batch.target_mask_BT].double().mean()
        assert counted == pytest.approx(share, abs=0.12)  # of some 200 decisions
        assert before is None or not (before & ~by_code).any()
        before = by_code
