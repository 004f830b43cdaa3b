"""The context-aware systems through the pipeline: training, contexts, contrastive sets."""

import copy
import json
import shutil
from contextlib import nullcontext
from dataclasses import astuple, replace
from itertools import islice

import numpy as np
import pytest
import torch

from support.configurations import CONTEXT_AWARE, DISCOURSE, DISCOURSE_SIZES, GENERATED, configure
from support.paths import DATA
from support.systems import context_aware, double
from xnmt_bench.corpora.passage import Context
from xnmt_bench.corpora.sentence import SIDES, Corpus
from xnmt_bench.corpora.suites.contrastive.reading import as_read, find_sets
from xnmt_bench.corpora.vocabulary.subwords import PAD, current_start
from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.batch import pad
from xnmt_bench.nmt.comparing import compare
from xnmt_bench.nmt.loading import start_from
from xnmt_bench.nmt.scoring import log_probability
from xnmt_bench.nmt.training import NMTTraining
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.opening import unlike
from xnmt_bench.run import configured_metrics


@pytest.fixture(scope="module", params=CONTEXT_AWARE)
def context_aware_job(request, workplace):
    return context_aware(request.param, workplace)


def test_contexts_of_every_depth_meet_in_one_batch(context_aware_job):
    """What the laws are tested on."""
    split = context_aware_job.texts.split("test")
    order = np.argsort(split.target.lengths())
    depths = {
        context_aware_job.texts.depth("test", int(i))
        for i in order[:: max(1, len(order) // 12)][:12]
    }
    assert depths == set(range(1 + context_aware_job.system.context.sentences))


class Stopped(Exception):
    pass


@pytest.mark.parametrize(
    ("name", "epoch"),
    [
        pytest.param(name, epoch, marks=[pytest.mark.long] if epoch or number else [])
        for number, name in enumerate(CONTEXT_AWARE)
        for epoch in (0, 1)
    ],
)
def test_a_training_that_is_stopped_ends_with_the_same_weights(
    workplace, tmp_path, monkeypatch, name, epoch
):
    two = "nmt.training.max_epochs=2"
    uninterrupted = context_aware(name, workplace, two)
    expected = uninterrupted.system.model.state_dict()
    store = tmp_path / "store"
    for stage in ("subwords", "encoded"):
        shutil.copytree(workplace / "store" / stage, store / stage)
    settings = uninterrupted.settings.changed({"store": str(store)})
    real = NMTTraining.training_step

    def stops(self, *arguments):
        if (self.trainer.current_epoch, arguments[1]) == (epoch, 2):
            raise Stopped
        return real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(NMTTraining, "training_step", stops)
        with pytest.raises(Stopped):
            _ = Job(settings).system.trained.artefact
    again = Job(settings).system.model.state_dict()
    for key, weight in expected.items():
        assert torch.equal(weight, again[key]), key


def accuracy(job, name, part=lambda group: True):
    """Right groups and all groups of one of the corpus's sets."""
    [contrastive_set] = [
        s for s in find_sets(["corpus"], job.corpus, "test", None) if s.name.endswith(name)
    ]
    log_p = job.log_probability([p for group in contrastive_set.groups for p in group.passages()])
    comparison = compare(contrastive_set)
    kept = [part(contrastive_set.groups[g]) for g in comparison.groups_G]
    return float(comparison.right_G(log_p, "wrong")[kept].sum()), sum(kept)


def test_beyond_what_is_read_nothing_is_decided(workplace):
    """Exactly one of n, independent of training."""
    multi_encoder, cadec, s_hier = (context_aware(name, workplace) for name in CONTEXT_AWARE)
    for name, n in (("address", 2), ("names", 2)):
        right, groups = accuracy(multi_encoder, name)
        assert right == groups / n  # it reads no translation of the context
    for name, n in (("address", 2), ("names", 2), ("pronouns", 3), ("ellipsis", 4)):
        right, groups = accuracy(s_hier, name, lambda group: group.distance > 1)
        assert right == groups / n
    nearer = Job(configure_like(cadec, "nmt.context.read=1"))
    for name, n in (("address", 2), ("names", 2), ("pronouns", 3), ("ellipsis", 4)):
        right, groups = accuracy(nearer, name, lambda group: group.distance > 1)
        assert right == groups / n


def configure_like(job, *changes):
    initial = f"nmt.initial={job.settings.nmt.initial}"
    sizes = DISCOURSE_SIZES[job.system.name]
    store_option = f"store={job.settings.store}"
    return configure(f"nmt={job.system.name}", *GENERATED, *sizes, initial, store_option, *changes)


def test_no_other_document_has_any_influence(context_aware_job):
    """Another text before a document's first sentence changes no translation and no score."""

    class Preceded(Corpus):
        name, source_language, target_language = "preceded", "en", "de"

        def __init__(self, corpus, before):
            self._corpus, self._before = corpus, before

        def sentences(self, split):
            yield from self._before
            yield from islice(self._corpus.sentences(split), 8)

        def recipe(self, split=None):
            return {"texts": [astuple(s)[:3] for s in self.sentences("test")]}

    sentences = list(context_aware_job.corpus.sentences("test"))
    assert len({s.document for s in sentences[:8]}) > 1
    before = [replace(s, document="another", gold=None) for s in sentences[-3:]]
    alone, preceded = (
        context_aware_job.outputs(Preceded(context_aware_job.corpus, b)).texts for b in ([], before)
    )
    assert preceded[3:] == alone
    model, texts = (
        context_aware_job.system.model,
        [Preceded(context_aware_job.corpus, b) for b in ([], before)],
    )
    scores = []
    for corpus in texts:
        split = context_aware_job.system.read(corpus, ("test",)).split("test")
        pairs = [(split.source[i], split.target[i]) for i in range(len(split))]
        scores.append(log_probability(model, pairs, 2000)[0])
    np.testing.assert_allclose(scores[1][3:], scores[0], rtol=1e-5)


@torch.no_grad()
def test_a_reader_reads_what_is_decoded(context_aware_job):
    """The context and the beginning first, then word by word, rows in another order."""
    model, split = double(context_aware_job.system.model), context_aware_job.texts.split("test")
    pairs = [(split.source[i], split.target[i]) for i in range(0, 30, 4)]
    batch = model.collate(pairs)
    states, inputs = model.states(batch), batch.input_BT
    encoding = model.encode(model.embed_source(batch.source_BS), batch.layout)
    reader = model.reader(encoding)
    first = [current_start(y) for _, y in pairs]
    states_read = reader.read(pad([row[: n + 1] for row, n in zip(inputs, first, strict=True)]))
    rows = list(range(len(pairs)))
    for step in range(6):
        for place, row in enumerate(rows):
            if first[row] + step < len(pairs[row][1]):
                torch.testing.assert_close(states_read[place], states[row, first[row] + step])
        rows = [*rows[1:], rows[0]]
        reader.select(torch.tensor([*range(1, len(rows)), 0]))
        ids = [first[row] + step + 1 for row in rows]
        going_on = [
            int(inputs[row, n]) if n < len(pairs[row][1]) else PAD
            for row, n in zip(rows, ids, strict=True)
        ]
        states_read = reader.read(torch.tensor(going_on)[:, None])


def test_the_whole_chain(context_aware_job, workplace, tmp_path):
    """Fidelity with its judges, and alignment; and the system opened from its folder alone."""
    name, initial = context_aware_job.system.name, context_aware_job.settings.nmt.initial
    start = [f"nmt.initial={initial}"] if initial else []
    changes = [
        f"nmt={name}", *GENERATED, *DISCOURSE_SIZES[name], *start, f"store={workplace}/store",
        "metric=[fidelity,aer]", "judge=[base,own,base_tuned]",
        "rules.train_sentences=20", "rules.test_sentences=6",
        "proxy=fn", "proxy.training.max_epochs=1",
        "explainer=gradient_norm", f"results={tmp_path}/results",
    ]  # fmt: skip
    config = configure(*changes)
    measured = [
        planned.make()
        for metric in configured_metrics(config).values()
        for planned in metric.measure(Job(config))
    ]
    assert len(measured) > 5
    assert all(len(evidence.units) for evidence in measured)
    opened = Job(configure(f"nmt={name}", *GENERATED, f"nmt.path={context_aware_job.system.path}"))
    assert opened.system.fingerprint == context_aware_job.system.fingerprint


@pytest.mark.parametrize(
    ("name", "changes", "problem"),
    [
        ("cadec", [], "cadec starts from a trained system: give its folder as nmt.initial"),
        ("multi_encoder", [], "starts from a trained system"),
        ("cadec", ["nmt.context.sentences=4"], "cadec reads at most 3 sentences of context"),
        ("cadec", ["nmt.context.following=1"], "reads no following sentence"),
        ("cadec", ["nmt.context.target=false"], "needs the context on both sides"),
        ("multi_encoder", ["nmt.context.target=true"], "no context on the target side"),
        ("s_hier_to_2", ["nmt.context.sentences=2"], "reads exactly one sentence of context"),
    ],
)
def test_what_cannot_be_read_is_said_before_training(tmp_path, workplace, name, changes, problem):
    sizes = DISCOURSE_SIZES[name]
    config = configure(f"nmt={name}", *GENERATED, *sizes, f"store={tmp_path}", *changes)
    with pytest.raises(XnmtError, match=problem):
        _ = Job(config).system.trained.artefact


def test_where_training_cannot_start(tmp_path, workplace):
    transformer = Job(configure("nmt=transformer", *DISCOURSE, f"store={workplace}/store"))
    recurrent = context_aware("s_hier_to_2", workplace)
    for initial, changes, problem in (
        (recurrent, [], "is a SHierTo2, expected a CADec"),
        (transformer, ["nmt.sizes.heads=2"], "size heads is 4, expected 2"),
        (transformer, ["nmt.sizes.tied=false"], "size tied is True, expected False"),
        (transformer, ["nmt.sizes.feed_forward=48"], "weight .*feed_forward.* has shape"),
    ):
        options = [f"nmt.initial={initial.system.path}", f"store={tmp_path}", *changes]
        config = configure("nmt=cadec", *GENERATED, *DISCOURSE_SIZES["cadec"], *options)
        with pytest.raises(XnmtError, match=problem):
            _ = Job(config).system.trained.artefact


def test_a_base_that_shifts_no_positions_is_a_plain_one(transformer, tmp_path, monkeypatch):
    """A concatenation of no context has the size, and it is 0; CADec lacks it."""
    path = shutil.copytree(transformer.system.path, tmp_path / "base")
    (path / "meta.json").unlink()
    described = json.loads((path / "model.json").read_text())
    for shift, refused in ((0, False), (8, True)):
        described["sizes"]["position_shift"] = shift
        (path / "model.json").write_text(json.dumps(described))
        model = copy.deepcopy(transformer.system.model)
        monkeypatch.setattr(type(model), "starts_trained", True)
        sizes = {k: v for k, v in described["sizes"].items() if k != "position_shift"}
        with pytest.raises(XnmtError, match="position_shift is 8") if refused else nullcontext():
            start_from(model, sizes, path)


def test_another_vocabulary_than_the_first_steps(workplace):
    first = Job(configure("nmt=transformer", *DISCOURSE, store(workplace))).system.path
    other = f"corpus.subwords.source_model={first}/target.model"
    changes = [f"nmt.initial={first}", *DISCOURSE_SIZES["cadec"], store(workplace)]
    with pytest.raises(XnmtError, match="its source vocabulary differs from"):
        _ = Job(configure("nmt=cadec", *GENERATED, *changes, other)).system.trained.artefact
    first_vocabulary = f"corpus.subwords.source_model={first}/source.model"
    assert Job(configure("nmt=cadec", *GENERATED, *changes, first_vocabulary)).system.subwords


def test_more_context_than_was_trained(workplace):
    system = context_aware("s_hier_to_2", workplace)
    path = f"nmt.path={Job(configure('nmt=transformer', *DISCOURSE, store(workplace))).system.path}"
    config = configure("nmt=concat", *DISCOURSE, path, store(workplace))
    with pytest.raises(
        XnmtError, match=r"trained with nmt.context.sentences=0, so it cannot read 3"
    ):
        _ = Job(config).system.model
    assert unlike(system.system.context, system.system.model.trained_context) is None


@pytest.mark.parametrize(
    ("configured", "trained", "problem"),
    [
        (Context(2), Context(2, target=False), "was trained without a context on the target side"),
        (Context(2, target=False), Context(2), "was trained with a context on the target side"),
        (Context(1), Context(3), "sentences=3: give that, and nmt.context.read=1 to read fewer"),
        (Context(1), Context(1, following=1), "was trained with nmt.context.following=1: give"),
        (Context(0), Context(0, target=False), None),
        (Context(3), None, None),
    ],
)
def test_another_context_than_in_training_is_refused(configured, trained, problem):
    """Such a row would have the name, the weights and the test set of the system as trained."""
    message = unlike(configured, trained)
    assert message is None if problem is None else problem in message


def store(workplace):
    return f"store={workplace}/store"


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
    unchanged = {name for name in before if torch.equal(before[name], after[name])}
    assert {name for name in before if name.startswith("base.")} <= unchanged
    assert any(name.startswith("context.") for name in before.keys() - unchanged)
    # Documents are split for training batches alone; the corpus itself keeps its lengths.
    for side in SIDES:
        lengths = [getattr(job.texts.split("train"), side).lengths() for job in (third, fourth)]
        assert np.array_equal(*lengths)


@pytest.mark.slow
@pytest.mark.shared("contrastive", "enru")
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
    for voita_set in find_sets(["voita"], job.corpus, "test", str(DATA / "contrastive"))[:2]:
        voita_set = as_read(voita_set, job.corpus)
        log_p = job.log_probability([p for group in voita_set.groups for p in group.passages()])
        right[voita_set.name] = int(compare(voita_set).right_G(log_p, "wrong").sum())
    assert right == {"deixis_test": 1250, "lex_cohesion_test": 688}
