"""Training that cannot end well raises, and a checkpoint is refused with the reason."""

import os
import pickle

import numpy as np
import pytest
import torch

from proxies.base import Vocabulary
from proxies.data import loader, pack
from proxies.fn import FN
from proxies.lessons import Lessons, ProxyTrainingOptions
from proxies.training import ProxyTraining
from xnmt_bench.errors import XnmtError, refusal
from xnmt_bench.fitting import fit
from xnmt_bench.trainer import TrainerOptions


@pytest.mark.parametrize(("rate", "reason"), [(1e30, "nan|inf"), (30.0, r"the loss is \d")])
def test_training_that_diverges_says_so(tmp_path, rate, reason):
    rng = np.random.default_rng(0)
    words_NK, label_N = rng.integers(4, 20, (800, 2)), rng.integers(4, 20, 800)
    decisions = pack(label_N, words_NK, np.zeros_like(words_NK))
    options = ProxyTrainingOptions(batch_size=16, learning_rate=rate, max_epochs=4)

    def build():
        proxy = FN(Vocabulary(20, 20, 1), dimension=8, hidden=8)
        lessons = Lessons(
            lambda epoch: loader(decisions[:700], 16, 0, epoch), lambda: loader(decisions[700:], 16)
        )
        return ProxyTraining(proxy, lessons, options, 20)

    quiet = TrainerOptions(progress_bar=False)
    with pytest.raises(XnmtError, match=rf"fn on words: training diverges: .*({reason})") as caught:
        fit(build, tmp_path, 0, 4, 2, quiet, "fn on words")
    assert "learning_rate" in str(caught.value) and "\n" not in str(caught.value)


class Hostile:
    def __reduce__(self):
        return os.system, ("exit 3",)


@pytest.mark.parametrize(
    ("content", "beginning"),
    [
        ({"model": Hostile()}, "it holds posix.system"),
        ({"model": torch.nn.Linear(2, 2)}, "it holds torch.nn.modules.linear.Linear"),
    ],
)
def test_a_refusal_says_why_and_nothing_of_unsafe_loading(tmp_path, content, beginning):
    torch.save(content, tmp_path / "x.pt")
    with pytest.raises(pickle.UnpicklingError) as caught:
        torch.load(tmp_path / "x.pt", weights_only=True)
    assert refusal(caught.value).startswith(beginning)
    (tmp_path / "raw.pt").write_bytes(pickle.dumps(content))
    with pytest.raises(pickle.UnpicklingError) as caught:
        torch.load(tmp_path / "raw.pt", weights_only=True)
    for text in (refusal(caught.value), refusal(ValueError("set `weights_only` to False\nfoo"))):
        assert text and not {"weights_only", "trust", "\n"} & set(text.split())
