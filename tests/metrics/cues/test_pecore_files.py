"""PECoRe's own files, with no model: their figures, their sides, and what is refused."""

import gzip

import numpy as np
import pytest

from support.configurations import configure
from support.paths import DATA
from xnmt_bench.corpora.formats.pecore import read_cues, read_sensitivity
from xnmt_bench.errors import DataError, NotApplicable
from xnmt_bench.measuring.bootstrap import Draws, score
from xnmt_bench.measuring.measurement import read, write
from xnmt_bench.metrics.cues import Cues
from xnmt_bench.pipeline.job import Job

SCORES = DATA / "context/pecore/scores/disc_eval_mt/anaphora"
SENSITIVITY = "example_idx\ttoken_idx\ttoken\tpcxmi\tkl_divergence\tis_context_sensitive\n"
TOKENS = "0\t0\t▁Il\t-2\t0.5\t1\n0\t1\t▁dort\t0.1\t0.1\t0\n1\t0\t▁Oui\t0\t0\t0\n"
CONTEXTS = (
    "example_idx\ttoken_idx\tside\tcti_idx\ttoken\tsaliency\tattention_0l_0h\tis_supporting_context"
    "\tpos\n"
    "0\t0\tS\t1\t▁The\t0.2\t0.9\t0\tDET\n0\t1\tS\t1\t▁cat\t0.6\t0.1\t1\tNOUN\n"
    "0\t0\tT\t1\t▁Le\t0.5\t0.9\t1\tDET\n0\t1\tT\t1\t▁chat\t0.3\t0.1\t0\tNOUN\n"
    "0\t0\tS\t2\t▁The\t0.4\t0.9\t0\tDET\n0\t1\tS\t2\t▁cat\t0.1\t0.1\t1\tNOUN\n"
)


def measure(path, kind, folder, **options):
    """Each row of a file by step, side and what found the words."""
    changes = [f"{kind}.path={path}", f"{kind}.format=pecore", f"{kind}.name=theirs"]
    metric, rows = Cues(**options), {}
    for planned in metric.measure(Job(configure(*changes, f"store={folder}/store"))):
        measurement = write(metric.name, planned.identify(), planned.make(), folder)
        where = tuple(measurement.identity[name] for name in ("step", "side", "explainer"))
        rows[where] = score(metric, measurement, Draws(20, 0)).values
    return rows


@pytest.mark.shared("context/pecore")
@pytest.mark.parametrize(
    ("system", "tokens", "base", "kl", "p_cxmi"),
    [("", 2121, 0.108, 0.530, 0.472), ("-target", 2120, 0.107, 0.603, 0.521)],
)
def test_average_precision_of_the_published_scores(system, tokens, base, kl, p_cxmi, tmp_path):
    """The figures that scikit-learn gives for the same columns."""
    path = SCORES / f"disc_eval_mt-anaphora-marian-small-scat{system}-cti.tsv.gz"
    rows = measure(path, "scores", tmp_path)
    found = {name: row["average_precision"] for (_, _, name), row in rows.items()}
    assert found["KL"] == pytest.approx(kl, abs=5e-4)
    assert found["abs(P-CXMI)"] == pytest.approx(p_cxmi, abs=5e-4)
    assert {row["ranked"] for row in rows.values()} == {tokens}
    assert {row["units"] for row in rows.values()} == {200}
    for row in rows.values():
        assert row["chance"] == pytest.approx(base, abs=5e-4)


def test_a_column_without_a_name_is_no_score(tmp_path):
    """Such as the index that pandas writes."""
    path = tmp_path / "index.tsv"
    lines = (SENSITIVITY + TOKENS).splitlines()
    path.write_text("".join(f"{n or ''}\t{line}\n" for n, line in enumerate(lines)))
    assert {name for _, _, name in measure(path, "scores", tmp_path)} >= {"KL"}
    assert "" not in {name for _, _, name in measure(path, "scores", tmp_path)}


def test_a_file_without_a_marked_token_has_no_order_to_be_judged(tmp_path):
    columns = ["example_idx", "token_idx", "is_context_sensitive", "kl_divergence", "pcxmi"]
    rows = [columns, ["0", "0", "0", "0.1", "0.2"], ["0", "1", "0", "0.3", "0.1"]]
    (tmp_path / "cti.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    with pytest.raises(NotApplicable, match="no word is marked as context-sensitive"):
        measure(tmp_path / "cti.tsv", "scores", tmp_path)


@pytest.mark.shared("context/pecore")
def test_scores_of_nothing_find_no_context_sensitive_words(tmp_path):
    """Constant ones are at the base rate, those of other words near it, negated ones below."""
    path = SCORES / "disc_eval_mt-anaphora-marian-small-scat-cti.tsv.gz"
    head, *lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    column, cells = head.split("\t").index("kl_divergence"), [line.split("\t") for line in lines]
    score_N = np.array([row[column] for row in cells]).astype(float)
    order_N = np.random.default_rng(0).permutation(len(score_N))
    precision_of = {}
    for name, changed_N in (
        ("constant", np.ones(len(score_N))),
        ("negated", -score_N),
        ("of other words", score_N[order_N]),
    ):
        for row, changed in zip(cells, changed_N.tolist(), strict=True):
            row[column] = str(changed)
        (tmp_path / "cti.tsv").write_text("\n".join([head, *map("\t".join, cells)]) + "\n")
        rows = measure(tmp_path / "cti.tsv", "scores", tmp_path)
        precision_of[name] = rows["context-sensitive words", "", "KL"]["average_precision"]
    base = rows["context-sensitive words", "", "KL"]["chance"]
    assert precision_of["constant"] == pytest.approx(base)
    assert precision_of["negated"] < 0.7 * base
    assert precision_of["of other words"] == pytest.approx(base, abs=0.02)


def test_words_beyond_the_threshold_are_called(tmp_path):
    """In the first sentence the first word is beyond its mean, in the second no word is."""
    (tmp_path / "cti.tsv").write_text(SENSITIVITY + TOKENS)
    assert measure(tmp_path / "cti.tsv", "scores", tmp_path, threshold=0.5)[
        "context-sensitive words", "", "KL"
    ]["f1"] == pytest.approx(1)
    far = measure(tmp_path / "cti.tsv", "scores", tmp_path, threshold=1.5)
    assert far["context-sensitive words", "", "KL"]["f1"] == 0
    metric = Cues()
    assert len(read(metric.name, tmp_path, metric.identity)) == 8  # four scores, two thresholds


def test_contexts_are_ranked_by_side_for_each_word(tmp_path):
    (tmp_path / "cci.tsv").write_text(CONTEXTS)
    rows = measure(tmp_path / "cci.tsv", "relevance", tmp_path, k=1)
    names = {name for _, _, name in rows}
    assert names == {"saliency", "random", "position"}, "single heads are no explainer"
    source, target = (rows["cues", side, "saliency"] for side in ("source", "target"))
    # Of two words one is a cue: first in one list (1), last in the other (1/2).
    assert source["average_precision"] == pytest.approx(0.75)
    assert source["recall"] == pytest.approx(0.5)
    assert source["dot"] == pytest.approx((0.6 / 0.8 + 0.1 / 0.5) / 2)
    assert source["ranked"] == 2
    assert (source["base"], source["chance"]) == (0.5, 0.75)
    assert target["average_precision"] == 1
    assert rows["cues", "source", "position"]["average_precision"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("reader", "text", "old", "new", "problem"),
    [
        (read_sensitivity, SENSITIVITY + TOKENS, "0\t1\t▁dort", "0\t2\t▁dort", ":3: rows are out"),
        (read_sensitivity, SENSITIVITY + TOKENS, "1\t0\t▁Oui", "0\t0\t▁Oui", ":4: rows are out"),
        (read_sensitivity, SENSITIVITY + TOKENS, "kl_div", "kl", "no column 'kl_divergence'"),
        (read_sensitivity, SENSITIVITY + TOKENS, "0.5\t1", "nan\t1", ":2: kl_divergence: nan is"),
        (read_sensitivity, SENSITIVITY + TOKENS, "0.5\t1", "x\t1", ":2: kl_divergence: 'x' is not"),
        (read_sensitivity, SENSITIVITY + TOKENS, "0.5\t1", "0.5\t2", "'2'; expected 0 or 1"),
        (read_sensitivity, SENSITIVITY + TOKENS, TOKENS, "", "the file has no token"),
        (read_sensitivity, SENSITIVITY + TOKENS, "\t0.1\t0\n", "\t0.1\n", ":3: 5 fields, but"),
        (read_cues, CONTEXTS, "\tT\t", "\tX\t", "side 'X'; expected S or T"),
        (read_cues, CONTEXTS, "1\tS\t2", "1\tS\t1", ":7: rows are out of step"),
    ],
)
def test_a_bad_file_is_one_line_with_its_place(reader, text, old, new, problem, tmp_path):
    path = tmp_path / "file.tsv"
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(DataError, match=problem) as error:
        reader(path)
    assert "\n" not in str(error.value)


def test_other_metrics_do_not_take_scores_of_tokens(tmp_path):
    (tmp_path / "cti.tsv").write_text(SENSITIVITY + TOKENS)
    (tmp_path / "cci.tsv").write_text(CONTEXTS)
    job = Job(configure(f"scores.path={tmp_path}/cti.tsv", "scores.format=pecore"))
    with pytest.raises(NotApplicable, match="scores of tokens"):
        job.log_probability([("a", "b")])
    job = Job(configure(f"relevance.path={tmp_path}/cci.tsv", "relevance.format=pecore"))
    with pytest.raises(NotApplicable, match="scores of contexts"):
        job.relevance()


def test_random_scores_are_at_chance(tmp_path):
    """Over many lists, whatever the share of marked words in each."""
    dice = np.random.default_rng(0)
    lines = [CONTEXTS.partition("\n")[0]]
    for example in range(400):
        marked = {*dice.choice(9, 1 + example % 3, replace=False).tolist()}
        for word in range(9):
            cells = [example, word, "S", 0, "w", 0.0, 0.0, int(word in marked), "X"]
            lines.append("\t".join(map(str, cells)))
    (tmp_path / "cci.tsv").write_text("\n".join(lines) + "\n")
    row = measure(tmp_path / "cci.tsv", "relevance", tmp_path)["cues", "source", "random"]
    assert row["average_precision"] == pytest.approx(row["chance"], abs=0.04)
    assert row["dot"] == pytest.approx(row["base"], abs=0.02)
    assert row["recall"] == pytest.approx(1 / 3, abs=0.05)
