"""A plan names what a job will make before anything is made, and how long it may take."""

import logging
import time
from types import SimpleNamespace

import pytest

from support.configurations import configure
from support.forked_commands import command, must_run
from xnmt_bench import progress
from xnmt_bench.pipeline.job import Job
from xnmt_bench.plan import Plan, Step, plan_job
from xnmt_bench.progress import Stage, inside, track
from xnmt_bench.run import configured_metrics
from xnmt_bench.store import Store, Work

TINY = [
    *("corpus.train=60", "corpus.valid=8", "corpus.test=8", "nmt=transformer_128", "nmt.beam=1"),
    *("corpus.subwords.source_size=120", "corpus.subwords.target_size=120"),
    *("nmt.sizes.dimension=16", "nmt.sizes.feed_forward=16", "nmt.training.max_epochs=1"),
    *("rules.train_sentences=20", "proxy.training.max_epochs=1", "device=cpu", "threads=1"),
    "trainer.progress_bar=false",
]


def planned(store, *changes):
    job = Job(configure(*TINY, f"store={store}", *changes))
    return plan_job(job, configured_metrics(job.settings).values())


def missing(plan):
    return [step.stage for step in plan.missing]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A store and results that one job has filled."""
    folder = tmp_path_factory.mktemp("planned")
    must_run(
        "train.py", *TINY, f"store={folder / 'store'}", f"results={folder / 'results'}",
        "explainer=gradient_norm", cwd=folder,
    )  # fmt: skip
    return folder


def test_an_empty_store_lacks_the_system_and_all_rows(tmp_path):
    plan = planned(tmp_path / "store")
    assert missing(plan) == ["subwords", "subwords", "encoded", "nmt"]  # of splits without a recipe
    assert plan.later == 6  # base, own, evalx, two references and quality
    assert "then 6 rows of results" in plan.headline
    assert "time unknown" in plan.headline
    assert not (tmp_path / "store").exists()


def test_a_finished_job_has_nothing_to_make(filled):
    plan = planned(filled / "store", "explainer=gradient_norm")
    assert not plan.missing and plan.later == 0
    assert plan.headline == f"{len(plan.steps)} stages from the store, 0 to make"


def test_another_explainer_makes_its_rules_proxy_and_judges(filled):
    before = sorted(path.name for path in (filled / "store").rglob("*"))
    plan = planned(filled / "store", "explainer=weighted_gradient")
    assert missing(plan) == ["rules", "judged", "rules", "proxy", "judged", "judged"]
    assert sorted(path.name for path in (filled / "store").rglob("*")) == before
    # Base and the proxy ran before on this system, so their time is known; these rules are new.
    timed = [step.stage for step in plan.missing if step.seconds is not None]
    assert timed == ["judged", "proxy", "judged", "judged"]
    assert "more than" in plan.headline


def test_labels_that_are_compared_with_the_reference_are_planned(filled):
    """A row says how often the system says the reference's word; AER itself needs no labels."""
    plan = planned(filled / "store", "metric=[aer]", "explainer=random", "rules.test_sentences=5")
    assert "labels" in missing(plan)


def test_what_blind_explainers_learn_is_planned_with_what_follows(filled):
    plan = planned(filled / "store", "explainer=lexicon")
    assert missing(plan) == ["prepared", "rules", "judged", "rules", "proxy", "judged", "judged"]


def test_a_dry_run_prints_the_plan_and_makes_nothing(filled):
    before = sorted(filled.joinpath("store").rglob("*"))
    done = must_run(
        "train.py", *TINY, f"store={filled / 'store'}", f"results={filled / 'none'}",
        "explainer=weighted_gradient", "dry_run=true", cwd=filled,
    )  # fmt: skip
    assert "6 to make" in done.stdout
    assert done.stdout.count("to make: rules: weighted_gradient on transformer_128, 20") == 1
    assert "to make: rules: weighted_gradient on transformer_128, 8 sentences" in done.stdout
    assert sorted(filled.joinpath("store").rglob("*")) == before
    assert not (filled / "none").exists()


def test_a_dry_run_says_that_the_text_is_missing(tmp_path):
    done = command(
        "train.py", "corpus=multi30k", f"corpus.root={tmp_path}", f"store={tmp_path / 'store'}",
        "dry_run=true", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert "train.de: no such file" in done.stderr
    assert "from the store" not in done.stdout


@pytest.mark.parametrize("dry", ["true", "false"])
def test_a_job_that_cannot_begin_counts_no_stages(tmp_path, dry):
    done = command(
        "train.py", "nmt=marian", f"nmt.path={tmp_path / 'nowhere'}", f"store={tmp_path / 'store'}",
        f"dry_run={dry}", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"error: {tmp_path / 'nowhere'}: no such folder or file" in done.stderr
    assert "from the store" not in done.stdout


def test_lines_of_a_sweep_name_their_job_and_rows_are_printed_once(filled):
    done = must_run(
        "train.py", "-m", *TINY, f"store={filled / 'store'}", f"results={filled / 'results'}",
        "explainer=gradient_norm", "k=1,2", "metric=[fidelity]", "judge=[base]", cwd=filled,
    )  # fmt: skip
    assert "job 1 of 2: " in done.stdout and "job 2 of 2: " in done.stdout
    assert done.stdout.count("transformer_128, nmt: PPL") == 1


def test_a_sweep_says_once_what_is_the_same_in_its_jobs(filled):
    done = must_run(
        "train.py", "-m", *TINY, "experiment=quick", f"store={filled / 'store'}",
        f"results={filled / 'quick'}", "explainer=attention,random,lexicon", "metric=[fidelity]",
        "judge=[base]", cwd=filled,
    )  # fmt: skip
    assert "job 3 of 3: " in done.stdout
    lines = [line.partition("of 3: ")[2] for line in done.stdout.splitlines()]
    assert lines.count("left out to be quick: judge own, evalx (judge=[base,own,evalx])") == 1
    for opening in ("left out to be quick: ", "transformer_128 reads en"):
        texts = [line for line in lines if line.startswith(opening)]
        assert texts and len(texts) == len(set(texts))
    # Columns in which a row has no number are not read out.
    assert "no number" not in done.stdout


def test_time_is_that_of_such_work_by_its_steps(tmp_path):
    store = Store(tmp_path)
    work = Work("attention on small", 4, "sentences")
    _ = store.stage("rules", lambda folder: None, version=1, amount=work).artefact
    assert store.seconds_a_step("rules", "attention on large") is None
    rate = store.seconds_a_step("rules", "attention on small")
    assert rate is not None and 0 <= rate < 1
    step = Step("rules", False, Work("attention on small", 300, "sentences"), 300 * 2.0)
    assert str(step) == "rules: attention on small, 300 sentences, at most 10 min"
    assert Plan((step,), 0).headline == "0 stages from the store, 1 to make, about 10 min left"


def test_time_leaves_out_stages_that_are_made_within_one(tmp_path, monkeypatch):
    """A judge is trained where its first row is judged."""
    store, clock = Store(tmp_path), [0.0]
    now = SimpleNamespace(monotonic=lambda: clock[0], time=time.time)
    monkeypatch.setattr("xnmt_bench.store.time", now)

    def train(folder):
        clock[0] += 100

    def judge(folder):
        clock[0] += 1
        _ = store.stage("trained", train, version=1, amount=Work("t", 1, "epochs")).artefact
        clock[0] += 2

    judged = store.stage("judged", judge, version=1, amount=Work("j", 1, "decisions")).artefact
    assert judged.seconds == 3 and store.seconds_a_step("trained", "t") == 100


def test_a_resumed_artefact_keeps_no_time(tmp_path):
    store, work = Store(tmp_path), Work("w", 4, "sentences")

    def killed(folder):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _ = store.stage("rules", killed, version=1, amount=work).artefact
    _ = store.stage("rules", lambda folder: None, version=1, amount=work).artefact
    assert store.seconds_a_step("rules", "w") is None


@pytest.fixture
def log(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "xnmt_bench.progress")
    monkeypatch.setattr(progress, "shared_terminal", True)
    monkeypatch.setattr(progress, "EVERY", 0.0)
    return caplog


def test_parts_of_a_shard_are_told(log):
    with Stage("rules", 2, "shards") as stage:
        list(inside([[1, 2], [3, 4]], len, 4, 0))
        stage.step(1)
        list(inside([[5], [6, 7, 8]], len, 4, 1))
    counted = [line.split(" of ")[0] for line in log.messages[:-1]]  # the last says: done
    assert counted == ["rules: 0.5", "rules: 1.0", "rules: 1.0", "rules: 1.2", "rules: 2.0"]


def test_shards_of_an_earlier_run_say_nothing_of_the_pace(log, monkeypatch):
    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    for _ in track(range(2), "rules", 4, "shards", done=2):
        clock.now += 100.0
    last = [line for line in log.messages if line.startswith("rules: 3 of 4")]
    assert len(last) == 1 and "100.0 s each" in last[0]
