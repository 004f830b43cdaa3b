"""AER from the command line: of explainers, of other tools' files, beside fidelity."""

import csv

import pytest
from conftest import DATA, command, configure, overrides

from xnmt_bench.corpora.alignment import AlignmentFile
from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.aer import LinkCounts
from xnmt_bench.stages.alignment import WordAlignment

RWTH = DATA / "alignments" / "rwth_deen"


def stages(workplace, explainer, *more):
    changes = [*overrides("transformer"), "metric=[aer]", f"store={workplace}/store"]
    return WordAlignment(configure(*changes, "corpus.seed=0", f"explainer={explainer}", *more))


def aer(artefact, method="forward"):
    return LinkCounts.load(artefact.path / f"{method}.parquet").aer


def test_explainers_find_the_gold_alignment_better_than_chance(transformer, workplace):
    found = {
        name: aer(stages(workplace, name).alignment)
        for name in ("attention", "prediction_difference", "random", "gold_alignment")
    }
    assert found["prediction_difference"] < 0.5 < found["random"]
    assert found["attention"] < found["random"] - 0.2
    # One link a target word cannot hold every many-to-one sure link, so some error stays.
    assert found["gold_alignment"] < 0.1


def test_the_stored_links_are_those_that_were_counted(transformer, workplace):
    made = stages(workplace, "attention")
    artefact = made.alignment
    links = [links.sure for links in AlignmentFile(artefact.path / "forward.links").read()]
    counts = LinkCounts.load(artefact.path / "forward.parquet")
    assert [len(x) for x in links] == counts.links_N.tolist()
    assert links == list(made.links())
    # Each target word has one source word.
    lengths = [len(s.target.split()) for s in made.corpus.sentences("test")]
    assert counts.links_N.tolist() == lengths


def test_every_system_is_aligned_also_without_relevance_of_its_prefix(system, workplace):
    """Attention of RNNSearch is n/a for fidelity, and a row like any other for AER."""
    name = system.config.nmt.name
    changes = [*overrides(name), "metric=[aer]", f"store={workplace}/store", "corpus.seed=0"]
    made = WordAlignment(configure(*changes, "explainer=attention"))
    counts = LinkCounts.load(made.alignment.path / "forward.parquet")
    assert counts.links == sum(len(s.target.split()) for s in made.corpus.sentences("test"))
    assert 0 < counts.aer < 1


def test_gold_of_a_corpus_that_has_none_is_not_applicable(tmp_path):
    for split in ("train", "valid", "test"):
        for side in ("en", "de"):
            (tmp_path / f"{split}.{side}").write_text("a b c\n" * 30)
    made = WordAlignment(
        configure("corpus=text", f"corpus.root={tmp_path}", "corpus.source_language=en",
                  "corpus.target_language=de", f"store={tmp_path}/store", "nmt=transformer",
                  "nmt.training.max_epochs=1", "corpus.subwords.source_size=20", "metric=[aer]",
                  "corpus.subwords.target_size=20", "explainer=gold_alignment",
                  "trainer.progress_bar=false")
    )  # fmt: skip
    with pytest.raises(NotApplicable, match="no gold"):
        _ = made.alignment
    with pytest.raises(NotApplicable, match="the test sentences have no gold alignment"):
        made.explained("golden", ("test",))


def test_the_diagonal_needs_no_model_and_is_no_good(transformer, workplace):
    made = stages(workplace, "attention")
    assert aer(made.alignment) < aer(made.diagonal)


def test_eflomal_aligns_the_same_sentences(transformer, workplace):
    pytest.importorskip("eflomal", reason="the extra `align` is not installed")
    made = stages(workplace, "attention")
    assert aer(made.eflomal) < 0.3
    assert aer(made.eflomal, "intersection") < 0.3
    assert not list(made.eflomal.path.glob("*.txt"))


def test_a_system_of_the_other_direction_adds_symmetrisations(workplace, tmp_path):
    small = ["corpus.train=300", "corpus.valid=30", "corpus.test=30", "nmt.training.max_epochs=1"]
    there = WordAlignment(
        configure(*overrides("transformer"), *small, f"store={tmp_path}", "metric=[aer]",
                  "explainer=attention", "corpus.reversed=true")
    )  # fmt: skip
    here = WordAlignment(
        configure(*overrides("transformer"), *small, f"store={tmp_path}", "metric=[aer]",
                  "explainer=attention", f"metric.aer.reverse={there.nmt_path}")
    )  # fmt: skip
    methods = here.alignment.facts["methods"]
    assert methods == ["forward", "backward", "intersection", "union",
                       "grow-diagonal", "grow-diagonal-final"]  # fmt: skip

    def links(method):
        return [x.sure for x in AlignmentFile(here.alignment.path / f"{method}.links").read()]

    flipped = [{(j, i) for i, j in found} for found in there.links()]
    assert links("backward") == flipped
    both = zip(links("forward"), flipped, links("intersection"), strict=True)
    assert all(f & b == i for f, b, i in both)


def test_both_metrics_side_by_side_from_the_command_line(transformer, workplace, tmp_path):
    shared = [*overrides("transformer"), f"store={workplace}/store", "corpus.seed=0",
              f"results={tmp_path}/results", f"hydra.sweep.dir={tmp_path}/sweep",
              f"hydra.run.dir={tmp_path}/run", "metric=[fidelity,aer]"]  # fmt: skip
    made = command(
        "train.py",
        "-m",
        *shared,
        "explainer=attention,gradient_norm,random,gold_alignment",
        "proxy=sa",
    )
    assert made.returncode == 0, made.stderr
    read = command("evaluate.py", *shared)
    assert read.returncode == 0, read.stderr
    assert "Alignment error rate" in read.stdout
    assert "Kendall's tau" in " ".join(read.stdout.split())
    with (tmp_path / "results" / "aer.csv").open() as file:
        rows = {row["explainer"]: row for row in csv.DictReader(file)}
    assert {"attention", "random", "gold_alignment", "diagonal"} <= set(rows)
    assert float(rows["attention"]["aer"]) < float(rows["random"]["aer"])
    with (tmp_path / "results" / "fidelity.csv").open() as file:
        ppl = {
            r["explainer"]: float(r["ppl"])
            for r in csv.DictReader(file)
            if r["instantiation"] == "sa"
        }
    # What humans annotate tells much of the model's choices, far more than random words do.
    assert ppl["gold_alignment"] < ppl["random"] / 3


@pytest.mark.skipif(not RWTH.is_dir(), reason="no shared/data/alignments here")
def test_a_file_of_any_tool_is_scored_alone(tmp_path):
    gold = [f"gold={RWTH}/alignment.talp", "gold_base=1"]
    giza = RWTH / "baselines"
    line = "AER 20.6% (91.3%/70.2%/7541)"
    run = f"hydra.run.dir={tmp_path}"
    done = command("evaluate.py", "metric=[aer]", run,
                   *(f"metric.aer.{c}" for c in (*gold, "hypothesis_base=0",
                     f"hypothesis={giza}/giza.grow-diagonal-final.talp")))  # fmt: skip
    assert done.stdout.strip().splitlines()[-1] == line, done.stderr
    done = command("evaluate.py", "metric=[aer]", run,
                   *(f"metric.aer.{c}" for c in (*gold, f"hypothesis={giza}/giza.forward.talp",
                     f"backward={giza}/giza.reverse.talp",
                     f"text=[{RWTH}/test.de,{RWTH}/test.en]")))  # fmt: skip
    assert done.stdout.strip().splitlines()[-1] == line, done.stderr


@pytest.mark.parametrize(
    ("hypothesis", "more", "problem"),
    [
        ("0-0\n", [], r"h.txt:1: the file ends here but there are 2 pairs"),
        ("0-0\nx\n", [], r"h.txt:2: 'x' is no link"),
        ("0-0\n0-0\n", ["symmetrisation=grow", "backward=h.txt"], "no symmetrisation 'grow'"),
        ("0-0\n0-0\n", ["gold_base=3"], "words are counted from 0 or 1"),
        (None, [], "go together"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, hypothesis, more, problem):
    (tmp_path / "gold.txt").write_text("0-0\n0-0 1p1\n")
    given = [f"gold={tmp_path}/gold.txt", *more]
    if hypothesis:
        (tmp_path / "h.txt").write_text(hypothesis)
        given.append(f"hypothesis={tmp_path}/h.txt")
    settings = [f"metric.aer.{c}" for c in given]
    done = command("evaluate.py", "metric=[aer]", f"hydra.run.dir={tmp_path}", *settings,
                   cwd=tmp_path)  # fmt: skip
    assert done.returncode == 1
    assert problem in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr
