"""Small models of Hugging Face's families, and the texts that they learn their words from."""

import pytest

from xnmt_bench.corpora.toy import ToyCorpus


@pytest.fixture(scope="session")
def texts():
    """Sources and targets of 2,000 sentences."""
    pairs = [(s.source, s.target) for s in ToyCorpus(train=2000).sentences("train")]
    return [source for source, _ in pairs], [target for _, target in pairs]


@pytest.fixture(scope="session", params=("m2m100", "marian", "mbart", "nllb", "t5"))
def family(request, tmp_path_factory, texts):
    """A family's name and the folder of a small model of it."""
    from support.huggingface_models import build

    folder = tmp_path_factory.mktemp(request.param)
    build(request.param, folder, texts)
    return request.param, folder
