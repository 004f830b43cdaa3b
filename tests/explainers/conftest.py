"""The Transformer with labelled sentences of several lengths."""

import pytest

from support.systems import batch_of, double_and_batch
from xnmt_bench.explainers.base import decide


@pytest.fixture(scope="module")
def transformer_and_batch(transformer):
    """The model in float64, and three sentences."""
    return double_and_batch(transformer, range(3))


@pytest.fixture(scope="module")
def labelled_batch(transformer):
    """Sixteen sentences, labelled by the model in float32."""
    return decide(transformer.system.model, batch_of(transformer.texts.split("test"), range(16)))[0]
