"""Training by steps instead of epochs, and the mean of its last weights."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from support.configurations import configure
from xnmt_bench import fitting
from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.batching import PairBatches, loader, steps_of
from xnmt_bench.nmt.training import NMTTraining
from xnmt_bench.nmt.training_options import NMTTrainingOptions
from xnmt_bench.pipeline.job import Job
from xnmt_bench.store import seal

TINY = [
    "corpus.train=300", "corpus.valid=40", "corpus.test=40", "corpus.subwords.source_size=300",
    "corpus.subwords.target_size=300", "nmt.sizes.dimension=32", "nmt.sizes.feed_forward=32",
    "nmt.sizes.layers=1", "nmt.training.max_epochs=2", "nmt.training.batch_tokens=400",
    "trainer.progress_bar=false", "threads=1",
]  # fmt: skip
BY_STEPS = ["trainer.validate_every=7", "nmt.training.average=3"]


@pytest.fixture(scope="module")
def random_split():
    rng = np.random.default_rng(0)
    sides = [EncodedSide.of([[5] * n for n in rng.integers(2, 30, 200)]) for _ in range(2)]
    return EncodedSplit(*sides, np.arange(200))


def test_parts_of_some_steps_are_the_epochs_one_after_the_other(random_split):
    epochs = [i for epoch in range(4) for i in PairBatches(random_split, 200, 3, epoch).indices]
    for steps in (1, 5, len(epochs) // 2):
        counts: dict[int, int] = {}
        parts = [steps_of(random_split, 200, 3, part, steps, counts).indices for part in range(4)]
        again = steps_of(random_split, 200, 3, 3, steps, {}).indices
        assert all(np.array_equal(a, b) for a, b in zip(parts[3], again, strict=True))
        assert [len(part) for part in parts] == [steps] * 4
        of_parts = [i for part in parts for i in part]
        assert all(np.array_equal(a, b) for a, b in zip(of_parts, epochs, strict=False))


def batches_of(training, epoch):
    """The batches that Lightning takes from a training in an epoch."""
    training.trainer = SimpleNamespace(current_epoch=epoch)
    return training.train_dataloader()


@pytest.mark.parametrize("every", [None, 3])
def test_a_step_of_more_batches_than_a_pass_has_is_refused(random_split, every):
    options = NMTTrainingOptions(max_epochs=2, batch_tokens=200, batches=500)
    training = NMTTraining(
        SimpleNamespace(target_subwords="a"), random_split, random_split, options, {}, every
    )
    with pytest.raises(XnmtError, match=r"nmt\.training\.batches=500: more than the"):
        batches_of(training, 0)


@pytest.mark.parametrize("every", [3, 7, 1000, 10**30])
def test_training_by_steps_ends_with_whole_passes(random_split, every):
    """However seldom it validates, `max_epochs` passes are made, and no more."""
    options = NMTTrainingOptions(max_epochs=2, batch_tokens=200)
    training = NMTTraining(
        SimpleNamespace(target_subwords="a"), random_split, random_split, options, {}, every
    )
    batches = len(PairBatches(random_split, 200, 0))
    parts = NMTTraining.max_epochs_of(random_split, options, 0, every)
    lengths = [len(batches_of(training, part)) for part in range(parts)]
    assert sum(lengths) == 2 * batches
    assert lengths[:-1] == [every] * (parts - 1)


@pytest.mark.filterwarnings("ignore:'pin_memory'")  # there may be no GPU here
def test_batches_made_ahead_come_in_their_order(random_split):
    alone = list(loader(PairBatches(random_split, 200, 3), torch.device("cpu")))
    ahead = list(loader(PairBatches(random_split, 200, 3), torch.device("cuda")))
    assert len(alone) == len(ahead) > 10
    for first, other in zip(alone, ahead, strict=True):
        assert torch.equal(first.source_BS, other.source_BS)
        assert torch.equal(first.target_BT, other.target_BT)


class Killed(Exception):
    pass


def weights(job):
    return load_file(job.system.path / "model.safetensors")


def test_by_steps_killed_and_resumed_the_mean_is_the_same(tmp_path, monkeypatch):
    kept = {}
    mean = fitting.mean_weights

    def seen(folder, count):
        kept.update({path.name: load_file(path) for path in sorted(folder.glob("*.safetensors"))})
        return mean(folder, count)

    monkeypatch.setattr(fitting, "mean_weights", seen)
    unstopped = Job(configure(*TINY, *BY_STEPS, f"store={tmp_path}/whole"))
    expected = weights(unstopped)
    steps = [int(name.partition(".")[0]) for name in kept]
    assert len(steps) == 3
    assert np.diff(steps).tolist() == [7, 7]
    for name, weight in expected.items():
        kept_weights = [w[f"model.{name}"].double() for w in kept.values()]
        torch.testing.assert_close(weight, torch.stack(kept_weights).mean(0).float())
    assert unstopped.system.trained.facts["epochs"] == steps[-1] // 7
    step = NMTTraining.training_step

    def killed(self, batch, batch_idx):
        if self.global_step == 17:  # inside an epoch of the corpus, and between validations
            raise Killed
        return step(self, batch, batch_idx)

    stopped = Job(configure(*TINY, *BY_STEPS, f"store={tmp_path}/stopped"))
    monkeypatch.setattr(NMTTraining, "training_step", killed)
    with pytest.raises(Killed):
        _ = stopped.system.path
    monkeypatch.setattr(NMTTraining, "training_step", step)
    # Weights written after the step from which it goes on are left out of the mean.
    [*_, written] = sorted((tmp_path / "stopped").rglob("last/*.safetensors"))
    other = {name: 2 * weight for name, weight in load_file(written).items()}
    save_file(other, written.with_name("000000009999.safetensors"))
    resumed = weights(Job(stopped.settings))
    assert all(torch.equal(resumed[name], weight) for name, weight in expected.items())


def test_an_altered_file_of_the_mean_is_named(tmp_path):
    path = tmp_path / "checkpoints" / "last" / "000000000007.safetensors"
    path.parent.mkdir(parents=True)
    save_file({"weight": torch.ones(3)}, path)
    seal(path)
    assert torch.equal(fitting.mean_weights(path.parent, 1)["weight"], torch.ones(3))
    with pytest.raises(XnmtError, match="1 files of weights to average; expected 2"):
        fitting.mean_weights(path.parent, 2)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(XnmtError, match=f"^{path}: altered since it was written"):
        fitting.mean_weights(path.parent, 1)


def test_validations_by_steps_and_means_of_weights_are_in_the_recipe(tmp_path):
    recipes = [
        Job(configure(*TINY, *changes, f"store={tmp_path}")).system.trained.artefact.recipe
        for changes in ([], BY_STEPS)
    ]
    assert recipes[0]["validate_every"] is None
    assert recipes[0]["training"]["average"] is None
    assert recipes[1]["validate_every"] == 7
    assert recipes[1]["training"]["average"] == 3
