"""The context-aware systems through the pipeline: training, contexts, contrastive sets."""

import shutil

import numpy as np
import pytest
import torch
from conftest import (
    CONTEXT_AWARE,
    DATA,
    DISCOURSE,
    DISCOURSE_SIZES,
    GENERATED,
    configure,
    context_aware,
)

from xnmt_bench.corpora.contrastive import as_read, find_sets
from xnmt_bench.corpora.contrastive.comparing import compared
from xnmt_bench.corpora.sentence import SIDES
from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.training import NMTTraining
from xnmt_bench.pipeline.job import Job


@pytest.fixture(scope="module", params=CONTEXT_AWARE)
def job(request, workplace):
    return context_aware(request.param, workplace)


def test_contexts_of_every_depth_meet_in_one_batch(job):
    """What the laws are tested on."""
    split = job.texts.split("test")
    order = np.argsort(split.target.lengths())
    depths = {job.texts.depth("test", int(i)) for i in order[:: max(1, len(order) // 12)][:12]}
    assert depths == set(range(1 + job.system.context.sentences))


class Stopped(Exception):
    pass


@pytest.mark.parametrize("name", CONTEXT_AWARE)
@pytest.mark.parametrize("epoch", [0, 1])
def test_a_training_that_is_stopped_ends_with_the_same_weights(
    workplace, tmp_path, monkeypatch, name, epoch
):
    two = "nmt.training.max_epochs=2"
    whole = context_aware(name, workplace, two)
    expected = whole.system.model.state_dict()
    store = tmp_path / "store"
    for made in ("subwords", "encoded"):
        shutil.copytree(workplace / "store" / made, store / made)
    config = whole.config.copy()
    config.store = str(store)
    real = NMTTraining.training_step

    def stops(self, *arguments):
        if (self.trainer.current_epoch, arguments[1]) == (epoch, 2):
            raise Stopped
        return real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(NMTTraining, "training_step", stops)
        with pytest.raises(Stopped):
            _ = Job(config).system.trained
    again = Job(config).system.model.state_dict()
    for key, weight in expected.items():
        assert torch.equal(weight, again[key]), key


def accuracy(job, name, part=lambda group: True):
    """Right groups and all groups of one of the corpus's sets."""
    [one] = [s for s in find_sets(["corpus"], job.corpus, "test", None) if s.name.endswith(name)]
    log_p = job.log_probability([p for group in one.groups for p in group.passages()])
    what = compared(one)
    kept = [part(one.groups[g]) for g in what.groups_G]
    return float(what.right_G(log_p, "wrong")[kept].sum()), sum(kept)


def test_beyond_what_is_read_nothing_is_decided(workplace):
    """Exactly one of n, whatever was learnt."""
    multi_encoder, cadec, s_hier = (context_aware(name, workplace) for name in CONTEXT_AWARE)
    for name, n in (("address", 2), ("names", 2)):
        right, groups = accuracy(multi_encoder, name)
        assert right == groups / n  # it reads no translation of the context
    for name, n in (("address", 2), ("names", 2), ("pronouns", 3), ("ellipsis", 4)):
        right, groups = accuracy(s_hier, name, lambda group: group.distance > 1)
        assert right == groups / n
        right, groups = accuracy(cadec, name, lambda group: group.distance > 3)
        assert (right, groups) == (0, 0)
    nearer = Job(configure_like(cadec, "nmt.context.read=1"))
    for name, n in (("address", 2), ("names", 2), ("pronouns", 3), ("ellipsis", 4)):
        right, groups = accuracy(nearer, name, lambda group: group.distance > 1)
        assert right == groups / n


def configure_like(job, *changes):
    initial = f"nmt.initial={job.config.nmt.initial}"
    sizes = DISCOURSE_SIZES[job.system.name]
    given = f"store={job.config.store}"
    return configure(f"nmt={job.system.name}", *GENERATED, *sizes, initial, given, *changes)


def test_no_other_document_has_any_influence(job):
    """Each is scored and translated as it is by itself."""
    split, model = job.texts.split("test"), job.system.model
    from xnmt_bench.nmt.scoring import log_probability

    pairs = [(split.source[i], split.target[i]) for i in range(len(split))]
    together, _ = log_probability(model, pairs, 2000)
    alone = [log_probability(model, [pair], 2000)[0][0] for pair in pairs]
    np.testing.assert_allclose(together, alone, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "changes", "problem"),
    [
        ("cadec", [], "cadec starts from a trained system: name its folder as nmt.initial"),
        ("multi_encoder", [], "starts from a trained system"),
        ("cadec", ["nmt.context.sentences=4"], "cadec reads at most 3 sentences of context"),
        ("cadec", ["nmt.context.following=1"], "reads no following sentence"),
        ("cadec", ["nmt.context.target=false"], "reads its context on both sides"),
        ("multi_encoder", ["nmt.context.target=true"], "no context on the target side"),
        ("s_hier_to_2", ["nmt.context.sentences=2"], "reads one sentence of context"),
    ],
)
def test_what_cannot_be_read_is_said_before_training(tmp_path, workplace, name, changes, problem):
    sizes = DISCOURSE_SIZES[name]
    config = configure(f"nmt={name}", *GENERATED, *sizes, f"store={tmp_path}", *changes)
    with pytest.raises(XnmtError, match=problem):
        _ = Job(config).system.trained


def test_where_training_cannot_start(tmp_path, workplace):
    transformer = Job(configure("nmt=transformer", *DISCOURSE, f"store={workplace}/store"))
    recurrent = context_aware("s_hier_to_2", workplace)
    for initial, changes, problem in (
        (recurrent, [], "a SHierTo2, which CADec cannot take"),
        (transformer, ["nmt.sizes.feed_forward=48"], "of other sizes: .*feed_forward"),
    ):
        given = [f"nmt.initial={initial.system.path}", f"store={tmp_path}", *changes]
        config = configure("nmt=cadec", *GENERATED, *DISCOURSE_SIZES["cadec"], *given)
        with pytest.raises(XnmtError, match=problem):
            _ = Job(config).system.trained


def test_the_second_step_goes_on_from_its_own_kind(workplace):
    """As the last of the multi-encoder's steps does, on whole documents after split ones."""
    third = context_aware("multi_encoder", workplace, "nmt.divide_and_rule=middle")
    assert (
        third.system.trained.path != context_aware("multi_encoder", workplace).system.trained.path
    )
    sizes, store = DISCOURSE_SIZES["multi_encoder"], f"store={workplace}/store"
    initial = f"nmt.initial={third.system.path}"
    fourth = Job(configure("nmt=multi_encoder", *GENERATED, *sizes, initial, store))
    before, after = third.system.model.state_dict(), fourth.system.model.state_dict()
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert {name for name in before if name.startswith("base.")} <= same
    assert any(name.startswith("context.") for name in before.keys() - same)
    # What is explained and scored is the corpus as it is.
    for side in SIDES:
        own = [getattr(job.texts.split("train"), side).lengths() for job in (third, fourth)]
        assert np.array_equal(*own)


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "contrastive").exists(), reason="the contrastive sets are not here")
def test_a_multi_encoder_is_at_the_papers_baseline(tmp_path):
    """It reads no translation of the context (Voita et al. 2019, Table 7: 50.0 and 45.9)."""
    common = [
        "corpus=enru", "corpus.train=[flores.dev]", "corpus.valid=[flores.test]",
        f"corpus.path=[{DATA}/enru/docs.tsv.gz,{DATA}/enru/sentences.tsv.gz]",
        "corpus.subwords.source_size=1000", "corpus.subwords.target_size=1000",
        "nmt.sizes.dimension=16", "nmt.sizes.feed_forward=16", "nmt.sizes.layers=1",
        "nmt.training.max_epochs=1", f"store={tmp_path}", "trainer.progress_bar=false",
    ]  # fmt: skip
    first = Job(configure("nmt=transformer", *common))
    job = Job(configure("nmt=multi_encoder", *common, f"nmt.initial={first.system.path}"))
    right = {}
    for one in find_sets(["voita"], job.corpus, "test", str(DATA / "contrastive"))[:2]:
        one = as_read(one, job.corpus)
        log_p = job.log_probability([p for group in one.groups for p in group.passages()])
        right[one.name] = int(compared(one).right_G(log_p, "wrong").sum())
    assert right == {"deixis_test": 1250, "lex_cohesion_test": 688}
