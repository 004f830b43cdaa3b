"""AER from the command line: of explainers, of other tools' files, beside fidelity."""

import csv
import shutil

import pytest

from support.configurations import configure, overrides
from support.forked_commands import command, must_run
from support.paths import DATA
from support.systems import small_job
from xnmt_bench.corpora.formats.alignment import AlignmentFile
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.aer import AER
from xnmt_bench.metrics.aer.alignments import Alignments
from xnmt_bench.metrics.aer.counts import alignment_scores
from xnmt_bench.pipeline.job import Job
from xnmt_bench.report.report import collect

RWTH = DATA / "alignments" / "rwth_deen"


def job_for(workplace, explainer, *changes):
    return small_job(workplace, "transformer", "metric=[aer]", f"explainer={explainer}", *changes)


def counts(artefact, method="forward"):
    return Units.load(artefact.path / f"{method}.parquet")


def aer(artefact, method="forward"):
    units = counts(artefact, method)
    sums = {name: column.sum(keepdims=True) for name, column in units.columns.items()}
    [value] = alignment_scores(sums)["aer"]
    return value


def target_lengths(job):
    return [len(s.target.split()) for s in job.corpus.sentences("test")]


def test_explainers_find_the_gold_alignment_better_than_chance(transformer, workplace):
    aer_of = {
        name: aer(Alignments(job_for(workplace, name)).explained)
        for name in ("attention", "prediction_difference", "random", "gold_alignment")
    }
    assert aer_of["prediction_difference"] < 0.5 < aer_of["random"]
    assert aer_of["attention"] < aer_of["random"] - 0.2
    # One link a target word cannot hold every many-to-one sure link, so some error stays.
    assert aer_of["gold_alignment"] < 0.1


def test_the_stored_links_are_those_that_were_counted(transformer, workplace):
    job = job_for(workplace, "attention")
    alignments = Alignments(job)
    links = [
        links.sure for links in AlignmentFile(alignments.explained.path / "forward.links").read()
    ]
    units = counts(alignments.explained)
    assert [len(x) for x in links] == units["links"].tolist()
    assert links == list(alignments.links())
    # Each target word has one source word.
    assert units["links"].tolist() == target_lengths(job)


def test_every_system_is_aligned_also_without_relevance_of_its_prefix(system, workplace):
    """Attention of RNNSearch is n/a for fidelity, and a row like any other for AER."""
    name = system.settings.nmt.name
    changes = [*overrides(name), "metric=[aer]", f"store={workplace}/store", "corpus.seed=0"]
    job = Job(configure(*changes, "explainer=attention"))
    artefact = Alignments(job).explained
    assert counts(artefact)["links"].sum() == sum(target_lengths(job))
    assert 0 < aer(artefact) < 1


def test_gold_of_a_corpus_that_has_none_is_not_applicable(tmp_path):
    for split in ("train", "valid", "test"):
        for side in ("en", "de"):
            (tmp_path / f"{split}.{side}").write_text("a b c\n" * 30)
    job = Job(
        configure("corpus=text", f"corpus.root={tmp_path}", "corpus.source_language=en",
                  "corpus.target_language=de", f"store={tmp_path}/store", "nmt=transformer",
                  "nmt.training.max_epochs=1", "corpus.subwords.source_size=20", "metric=[aer]",
                  "corpus.subwords.target_size=20", "explainer=gold_alignment",
                  "trainer.progress_bar=false")
    )  # fmt: skip
    with pytest.raises(NotApplicable, match="no gold"):
        _ = Alignments(job).explained.artefact
    with pytest.raises(NotApplicable, match="the test sentences have no gold alignment"):
        _ = job.explained.rules("golden", "test").artefact


def test_the_diagonal_needs_no_model_and_is_no_good(transformer, workplace):
    alignments = Alignments(job_for(workplace, "prediction_difference"))
    assert aer(alignments.explained) < aer(alignments.diagonal)


def test_eflomal_aligns_the_same_sentences(transformer, workplace):
    pytest.importorskip("eflomal", reason="the extra `align` is not installed")
    alignments = Alignments(job_for(workplace, "attention"))
    forward, backward, both = (
        [links.sure for links in AlignmentFile(alignments.eflomal.path / f"{method}.links").read()]
        for method in ("forward", "backward", "intersection")
    )
    assert len(forward) == len(alignments.sentences)
    assert both == [f & b for f, b in zip(forward, backward, strict=True)]
    assert not list(alignments.eflomal.path.glob("*.txt"))


def test_a_system_of_the_other_direction_adds_symmetrisations(workplace, tmp_path):
    small = ["corpus.train=300", "corpus.valid=30", "corpus.test=30", "nmt.training.max_epochs=1"]
    changes = [*overrides("transformer"), *small, f"store={tmp_path}", "metric=[aer]",
               "explainer=attention"]  # fmt: skip
    there_job = Job(configure(*changes, "corpus.reversed=true"))
    there = Alignments(there_job)
    here_job = Job(configure(*changes))
    here = Alignments(here_job, str(there_job.system.path))
    artefact = here.explained
    methods = ["forward", "backward", "intersection", "union",
               "grow-diagonal", "grow-diagonal-final"]  # fmt: skip
    for ending in ("links", "parquet"):
        assert {path.stem for path in artefact.path.glob(f"*.{ending}")} == set(methods)

    def links(method):
        return [x.sure for x in AlignmentFile(artefact.path / f"{method}.links").read()]

    flipped = [{(j, i) for i, j in links} for links in there.links()]
    assert links("backward") == flipped
    both = zip(links("forward"), flipped, links("intersection"), strict=True)
    assert all(f & b == i for f, b, i in both)
    # Another system of the other direction gives other rows.
    rows = {
        p.keys["alignment"]: p for p in AER(reverse=str(there_job.system.path)).measure(here_job)
    }
    settings = rows["backward"].make().settings
    assert settings["reverse system"] == there_job.system.lineage["family"][:6]
    assert "reverse system" not in rows["forward"].make().settings
    # In its own direction the other system is judged by the same words.
    straight, turned = counts(there.explained), counts(artefact, "backward")
    assert counts(artefact)["unaligned_links"].sum() > 0 == turned["unaligned_links"].sum()
    for column in ("links", "unaligned_links", "sure", "sure_links", "possible_links"):
        assert straight[column].tolist() == turned[column].tolist()


@pytest.fixture(scope="module")
def swept(transformer, workplace, tmp_path_factory):
    """Both metrics of five explainers: the command line that reports them, and its folder."""
    folder = tmp_path_factory.mktemp("both")
    shared = [*overrides("transformer", workplace), f"results={folder}/results",
              f"hydra.sweep.dir={folder}/sweep", f"hydra.run.dir={folder}/run"]  # fmt: skip
    must_run(
        "train.py",
        "-m",
        *shared,
        "metric=[fidelity,aer]",
        "explainer=attention,gradient_norm,prediction_difference,random,gold_alignment",
        "judge=[base]",
    )
    return shared, folder


def rows_of(folder, metric):
    with (folder / "results" / f"{metric}.csv").open() as file:
        return list(csv.DictReader(file))


def test_both_metrics_side_by_side_from_the_command_line(swept):
    shared, folder = swept
    read = must_run("evaluate.py", *shared, "metric=[fidelity,aer]", "analysis=[agreement]",
                    "analysis.agreement.fixed.instantiation=base")  # fmt: skip
    assert "Alignment error rate" in read.stdout
    assert "Kendall's tau" in " ".join(read.stdout.split())
    [agreement] = rows_of(folder, "fidelity_aer_agreement")
    assert agreement["ranked"] == "3"  # random's place and the gold's are known before
    rows = {row["explainer"]: row for row in rows_of(folder, "aer")}
    assert {"attention", "random", "gold_alignment", "diagonal"} <= set(rows)
    assert float(rows["attention"]["aer"]) < float(rows["random"]["aer"])
    ppl = {
        r["explainer"]: float(r["ppl"])
        for r in rows_of(folder, "fidelity")
        if r["instantiation"] == "base"
    }
    # What humans annotate tells more of the model's choices than random words do.
    assert ppl["gold_alignment"] < ppl["random"]


def test_stored_relevance_of_other_words_or_sentences_is_refused(transformer, workplace):
    changes = {"relevance": {"name": "mine"}}
    job = job_for(workplace, "attention")
    for scenario, message in (
        ("teacher_forcing", "has relevance of scenario=teacher_forcing, but align"),
        ("golden", "covers the first 20 of 100 test sentences; give rules"),
    ):
        few = job.changed({"rules": {"test_sentences": 20}})
        changes["relevance"]["path"] = str(few.relevance(scenario).source.path)
        changes["rules"] = {"test_sentences": None}
        with pytest.raises(XnmtError, match=message):
            list(Alignments(job.changed(changes)).links())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_stored_relevance_is_scored_alike_and_opens_no_model(swept, workplace, tmp_path, elsewhere):
    """As another program would bring it: no explainer, no system."""
    shared, folder = swept
    relevance = job_for(workplace, "attention").relevance("golden", source_alone=True)
    rules = workplace / "store" / "rules" / relevance.fingerprint
    if elsewhere:
        rules = shutil.copytree(rules, tmp_path / "theirs")
    options = [f"relevance.path={rules}", "relevance.name=mine", "metric=[aer]",
             f"results={tmp_path}/results"]  # fmt: skip
    # The system stays closed: its reader would end the command.
    done = must_run("evaluate.py", *shared, *options, "nmt.reader._target_=sys.exit")
    draws = Draws(1000, 0)
    swept_rows, file_rows = (
        {scored.row["explainer"]: scored for scored in collect(AER(), results, draws)}
        for results in (folder / "results", tmp_path / "results")
    )
    # Of a file it is unknown whether its numbers sum to 1.
    of_attention = dict(swept_rows["attention"].values)
    assert 0 < of_attention.pop("off_words") < 1
    assert file_rows["mine"].values == of_attention
    assert file_rows["mine"].row["nmt"] == file_rows["mine"].row["model"] == ""
    assert "mine" in done.stdout
    assert rows_of(tmp_path, "aer")


def test_words_without_a_gold_link_are_skipped_unless_they_are_to_count(swept, tmp_path):
    """Both stand in one folder, and the second takes no second extraction."""
    shared, folder = swept

    results = shutil.copytree(folder / "results", tmp_path / "results")
    places = [f"results={results}", f"hydra.run.dir={tmp_path}/run", "metric=[aer]"]
    count = ["explainer=attention", "metric.aer.unaligned=count"]
    done = must_run("train.py", *shared, *places, *count)
    assert "making" not in done.stdout + done.stderr
    read = must_run("evaluate.py", *shared, *places)
    text = " ".join(read.stdout.split())
    assert "are left out; unaligned=count takes their links for wrong" in text
    rows = {(row["explainer"], row["unaligned"]): row for row in rows_of(tmp_path, "aer")}
    assert ("gradient_norm", "count") not in rows
    for explainer in ("attention", "diagonal"):
        skip, count = (rows[explainer, how] for how in ("skip", "count"))
        no_link = float(count["no_link"])
        assert float(skip["links"]) == pytest.approx(float(count["links"]) * (1 - no_link))
        assert float(skip["aer"]) < float(count["aer"])
        assert skip["recall"] == count["recall"]
        assert "unaligned:skip" in skip["signature"]
    assert all(how == "" for name, how in rows if name == "eflomal")


@pytest.mark.shared("alignments/rwth_deen")
def test_a_file_of_any_tool_is_scored_alone(tmp_path):
    gold = [f"gold={RWTH}/alignment.talp", "gold_base=1"]
    giza = RWTH / "baselines"
    line = "AER 20.6% (91.3%/70.2%/7541)"
    places = [f"hydra.run.dir={tmp_path}/run", f"results={tmp_path}/results",
              f"store={tmp_path}/store"]  # fmt: skip
    for options in (
        [*gold, "hypothesis_base=0", f"hypothesis={giza}/giza.grow-diagonal-final.talp"],
        [*gold, f"hypothesis={giza}/giza.forward.talp", f"backward={giza}/giza.reverse.talp",
         f"text=[{RWTH}/test.de,{RWTH}/test.en]"],
    ):  # fmt: skip
        shutil.rmtree(tmp_path / "results", ignore_errors=True)
        done = must_run(
            "evaluate.py", "metric=[aer]", *places, *(f"metric.aer.{c}" for c in options)
        )
        assert "Alignment error rate" in done.stdout
        assert line in " ".join(done.stdout.split())
        [row] = rows_of(tmp_path, "aer")
        assert row["unaligned"] == ""
        assert float(row["aer_low"]) < float(row["aer"]) < float(row["aer_high"])
        assert f"{float(row['aer']):.3f}" == "0.206"
        assert line in (tmp_path / "results" / "report.html").read_text(encoding="utf-8")
        assert not (tmp_path / "store").exists()


@pytest.mark.shared("alignments/rwth_deen")
@pytest.mark.parametrize(
    ("hypothesis", "options", "doubts"),
    [
        ("giza.forward", ["gold_base=1"], []),
        ("giza.forward", [], ["AER is 62.7 %, but 21.0 %", "no gold link has word 0"]),
        ("giza.reverse", ["gold_base=1"], ["AER is 81.7 %, but 23.1 %"]),
        ("giza.reverse", ["gold_base=1", "hypothesis_reverse=true"], []),
    ],
)
def test_a_file_that_is_read_in_another_way_than_it_was_written(
    tmp_path, hypothesis, options, doubts
):
    files = [f"gold={RWTH}/alignment.talp", f"hypothesis={RWTH}/baselines/{hypothesis}.talp"]
    settings = [f"metric.aer.{option}" for option in (*files, *options)]
    done = must_run("evaluate.py", "metric=[aer]", *settings, cwd=tmp_path)
    printed = " ".join(done.stdout.split())
    assert ("Caution" in printed) == bool(doubts)
    assert all(doubt in printed for doubt in doubts)


@pytest.mark.parametrize(
    ("hypothesis", "options", "problem"),
    [
        ("0-0\n", [], r"h.txt:1: the file ends here but there are 2 pairs"),
        ("0-0\nx\n", [], r"h.txt:2: 'x' is not a link"),
        ("0-0\n0-0\n", ["symmetrisation=grow", "backward=h.txt"], "no symmetrisation 'grow'"),
        ("0-0\n0-0\n", ["gold_base=3"], "gold_base=3: should be 0 or 1"),
        (None, [], "give both, or neither"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, hypothesis, options, problem):
    (tmp_path / "gold.txt").write_text("0-0\n0-0 1p1\n")
    all_options = [f"gold={tmp_path}/gold.txt", *options]
    if hypothesis:
        (tmp_path / "h.txt").write_text(hypothesis)
        all_options.append(f"hypothesis={tmp_path}/h.txt")
    settings = [f"metric.aer.{c}" for c in all_options]
    done = command("evaluate.py", "metric=[aer]", f"hydra.run.dir={tmp_path}", *settings,
                   cwd=tmp_path)  # fmt: skip
    assert done.returncode == (2 if "should be" in problem else 1)
    assert problem in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr
