"""Labels are decided once for all explainers of the same decisions."""

import numpy as np
import pytest

from support.configurations import configure, overrides
from support.systems import context_aware
from xnmt_bench.corpora.vocabulary.subwords import SEPARATOR
from xnmt_bench.pipeline.job import Job
from xnmt_bench.registry import load_explainer
from xnmt_bench.rules import extract
from xnmt_bench.rules.extract import GOLDEN, TEACHER_FORCING, ExtractionOptions
from xnmt_bench.rules.table import read_columns, shards

FEW = ["rules.train_sentences=30", "rules.test_sentences=37", "rules.shard_sentences=10"]


@pytest.fixture
def passes(monkeypatch):
    """Of each batch that a model labels, whether the pass keeps attention."""
    weights_of_passes = []

    def counted(decide):
        def counting(model, batch, weights=False):
            weights_of_passes.append(weights)
            return decide(model, batch, weights)

        return counting

    for scenario, decide in extract.LABELLING.items():
        monkeypatch.setitem(extract.LABELLING, scenario, counted(decide))
    return weights_of_passes


def test_explainers_share_labels_and_attention_has_those_of_its_own_pass(transformer, passes):
    def rules(explainer):
        store = f"store={transformer.settings.store}"
        changes = [*overrides("transformer"), "corpus.seed=0", store, *FEW]
        job = Job(configure(*changes, f"explainer={explainer}"))
        passes.clear()
        return job.explained.rules(TEACHER_FORCING, "test").artefact, list(passes)

    first, labelled = rules("random")
    assert labelled and not any(labelled)
    again, labelled = rules("gradient_norm")
    assert not labelled
    own_pass, labelled = rules("attention")
    assert labelled and all(labelled)
    tables = [
        [read_columns(path, ["label", "probability"]) for path in shards(artefact.path, "test")]
        for artefact in (first, again, own_pass)
    ]
    for first_columns, again_columns, alike in zip(*tables, strict=True):
        assert all((first_columns[name] == again_columns[name]).all() for name in first_columns)
        assert (first_columns["label"] == alike["label"]).all()
        np.testing.assert_allclose(first_columns["probability"], alike["probability"], rtol=1e-4)


def rules_of(model, split, scenario, folder, labels=None):
    """The rules of a gradient, whose labels are given or the model's as it goes."""
    options, explainer = ExtractionOptions(shard_sentences=7), load_explainer("gradient_norm")
    for _ in extract.extract(
        model, split, len(split), explainer, options, folder, "test", True, scenario, labels=labels
    ):
        pass
    return [read_columns(path) for path in shards(folder, "test")]


@pytest.mark.parametrize(
    "scenario", [TEACHER_FORCING, pytest.param(GOLDEN, marks=pytest.mark.long)]
)
def test_kept_labels_give_the_rules_of_labels_that_are_decided_on_the_way(
    scenario, workplace, tmp_path
):
    """Behind a context, too, whose steps have no labels."""
    job = context_aware("cadec", workplace)
    model, split = job.system.model, job.texts.split("test")
    assert any(SEPARATOR in split.target[i] for i in range(len(split)))
    options, folder = ExtractionOptions(shard_sentences=7), tmp_path / "labels"
    for _ in extract.label(model, split, len(split), options, folder / "test", scenario):
        pass
    kept = rules_of(model, split, scenario, tmp_path / "kept", folder)
    decided_now = rules_of(model, split, scenario, tmp_path / "asked")
    for kept_columns, other in zip(kept, decided_now, strict=True):
        assert kept_columns.keys() == other.keys()
        for name in kept_columns:
            if name.endswith("_relevance"):
                pairs = zip(kept_columns[name], other[name], strict=True)
                assert all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)
            else:
                np.testing.assert_array_equal(kept_columns[name], other[name])
