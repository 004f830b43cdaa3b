"""Training that cannot end well raises, and a checkpoint is refused with the reason."""

import os
import pickle

import numpy as np
import pytest
import torch

from proxies.base import Vocabulary
from proxies.data import batch_decisions, pack
from proxies.fn import FN
from proxies.lessons import Lessons, ProxyTrainingOptions
from proxies.training import ProxyTraining
from support.dispatched import count
from xnmt_bench.errors import XnmtError, refusal
from xnmt_bench.fitting import MONITOR, adam, fit
from xnmt_bench.trainer import TrainerOptions


def build_fn(rate: float = 1e-3, kind=ProxyTraining):
    rng = np.random.default_rng(0)
    words_NK, label_N = rng.integers(4, 20, (800, 2)), rng.integers(4, 20, 800)
    decisions = pack(label_N, words_NK, np.zeros_like(words_NK))
    options = ProxyTrainingOptions(batch_size=16, learning_rate=rate, max_epochs=4)
    lessons = Lessons(
        lambda epoch: batch_decisions(decisions[:700], 16, 0, epoch),
        lambda: batch_decisions(decisions[700:], 16),
    )
    return kind(FN(Vocabulary(20, 20, 1), dimension=8, hidden=8), lessons, options, 20)


class Killed(Exception):
    """As if the process ended."""


class Worsening(ProxyTraining):
    """Each epoch is worse than the one before it; one of them is killed."""

    killed_in, trained = None, ()

    def training_step(self, batch, batch_idx):
        if self.current_epoch == self.killed_in:
            raise Killed
        type(self).trained += (self.current_epoch,)
        return super().training_step(batch, batch_idx)

    def validation_step(self, batch, batch_idx):
        self.log(MONITOR, float(self.current_epoch), batch_size=1)


def test_a_killed_training_goes_on_behind_its_last_validation(tmp_path, monkeypatch):
    """Not behind its best one, which was the first."""
    quiet = TrainerOptions(progress_bar=False)
    monkeypatch.setattr(Worsening, "killed_in", 3)
    monkeypatch.setattr(Worsening, "trained", ())
    arguments = lambda: build_fn(kind=Worsening), tmp_path, 0, 5, 9, quiet, "fn on words"
    with pytest.raises(Killed):
        fit(*arguments)
    assert {*Worsening.trained} == {0, 1, 2}
    monkeypatch.setattr(Worsening, "killed_in", None)
    monkeypatch.setattr(Worsening, "trained", ())
    fit(*arguments)
    assert {*Worsening.trained} == {3, 4}


@pytest.mark.parametrize(("rate", "reason"), [(1e30, "nan|inf"), (30.0, r"the loss is \d")])
def test_training_that_diverges_says_so(tmp_path, rate, reason):
    quiet = TrainerOptions(progress_bar=False)
    with pytest.raises(XnmtError, match=rf"fn on words: training diverges: .*({reason})") as caught:
        fit(lambda: build_fn(rate), tmp_path, 0, 4, 2, quiet, "fn on words")
    assert "learning_rate" in str(caught.value) and "\n" not in str(caught.value)


def test_adam_takes_the_steps_of_torchs_in_one_operation():
    def train(make_optimizer):
        torch.manual_seed(0)
        layer = torch.nn.Linear(5, 3)
        optimizer = make_optimizer(layer.parameters())
        for _ in range(4):
            optimizer.zero_grad()
            layer(torch.ones(2, 5)).square().sum().backward()
            counted = count(optimizer.step)
        return counted.operations, layer.weight.detach()

    betas = (0.9, 0.98)
    operations, weight = train(lambda weights: adam(weights, 0.1, betas=betas))
    _, expected = train(lambda weights: torch.optim.Adam(weights, 0.1, betas=betas))
    torch.testing.assert_close(weight, expected, rtol=1e-5, atol=1e-6)
    assert operations["_fused_adam_"] == 1 and operations["_local_scalar_dense"] == 0


def test_gradients_are_clipped_under_mixed_precision_too(tmp_path, monkeypatch):
    norms = []
    step = torch.optim.Adam.step

    def watch(optimizer, closure=None):
        def compute():
            loss = closure()
            weights = [w for group in optimizer.param_groups for w in group["params"]]
            norms.append(torch.nn.utils.get_total_norm([w.grad for w in weights]).item())
            return loss

        return step(optimizer, compute)

    monkeypatch.setattr(torch.optim.Adam, "step", watch)
    whole = FN.loss
    monkeypatch.setattr(FN, "loss", lambda *arguments: 1000 * whole(*arguments))
    mixed = TrainerOptions(progress_bar=False, precision="bf16-mixed")
    with pytest.raises(XnmtError, match="diverges"):  # a loss that is a thousand times too great
        fit(build_fn, tmp_path, 0, 1, 2, mixed, "fn on words")
    assert len(norms) > 10 and max(norms) == pytest.approx(1.0, abs=0.01)


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
