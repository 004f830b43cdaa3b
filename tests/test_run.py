"""What one job of several metrics makes, opens and reads in one process."""

from collections import Counter

import pytest

import xnmt_bench.nmt.loading
import xnmt_bench.store
from support.configurations import configure, overrides
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.measurement import OK, read
from xnmt_bench.metrics.consistency import Consistency
from xnmt_bench.metrics.quality import Quality
from xnmt_bench.pipeline.job import Job
from xnmt_bench.plan import plan_job
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.run import configured_metrics, measure, measure_all

FEW = ["explainer=gradient_norm", "proxy=fn", "rules.train_sentences=50", "rules.test_sentences=30",
       "rules.shard_sentences=20", "proxy.training.max_epochs=1", "nmt.beam=1",
       "bootstrap.samples=50"]  # fmt: skip


@pytest.fixture
def counted(monkeypatch):
    """How often a system was opened, and each file hashed."""
    opened, hashed = [], Counter()
    load_model, file_hash = xnmt_bench.nmt.loading.load_model, xnmt_bench.store.file_hash

    def counting_load(path):
        opened.append(path)
        return load_model(path)

    def counting_hash(path):
        hashed[path.resolve()] += 1
        return file_hash(path)

    monkeypatch.setattr("xnmt_bench.nmt.loading.load_model", counting_load)
    monkeypatch.setattr("xnmt_bench.store.file_hash", counting_hash)
    monkeypatch.setattr("xnmt_bench.store._verified", {})  # as in a new process
    return opened, hashed


def test_the_metrics_of_a_job_share_one_model_and_read_nothing_twice(
    transformer, workplace, tmp_path, counted
):
    opened, hashed = counted
    config = configure(*overrides("transformer"), *FEW, f"store={workplace}/store",
                       "corpus.seed=0", f"results={tmp_path}/results",
                       "metric=[fidelity,aer]")  # fmt: skip
    for _ in range(2):  # what is made, then what is there
        opened.clear(), hashed.clear(), xnmt_bench.store._verified.clear()
        job, metrics = Job(config), configured_metrics(config)
        assert list(metrics) == ["fidelity", "aer"]
        for metric in metrics.values():
            assert measure(metric, job, Tracker()) == []
            rows = read(metric.name, tmp_path / "results", metric.identity)
            assert {row.status for row in rows} == {OK}
        assert len(opened) == 1
        assert {path.parts[-3] for path in hashed} >= {"nmt", "encoded", "alignment"}
        assert not {path: times for path, times in hashed.items() if times > 1}


def test_a_metric_that_does_not_apply_to_the_job_ends_no_other(transformer, tmp_path, caplog):
    """The toy corpus brings no pronouns; its translations are still scored."""
    settings = transformer.settings.changed({"results": str(tmp_path)})
    job = Job(settings, store=transformer.store)
    plan = plan_job(job, [Consistency(suite="corpus"), Quality()])
    assert plan.error is None
    assert measure_all([Consistency(suite="corpus"), Quality()], job, Tracker()) == []
    assert "consistency: n/a: corpus toy has no suite of pronouns" in caplog.text
    assert [row.status for row in read("quality", tmp_path, Quality().identity)] == [OK]
    # Alone it is an error, since nothing was measured.
    with pytest.raises(NotApplicable, match="has no suite of pronouns"):
        measure_all([Consistency(suite="corpus")], job, Tracker())
