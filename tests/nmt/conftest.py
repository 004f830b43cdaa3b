"""Texts that small models of Hugging Face's families learn their words from."""

import pytest

from xnmt_bench.corpora.toy import ToyCorpus


@pytest.fixture(scope="session")
def texts():
    """Sources and targets of 2,000 sentences."""
    pairs = [(s.source, s.target) for s in ToyCorpus(train=2000).sentences("train")]
    return [source for source, _ in pairs], [target for _, target in pairs]
