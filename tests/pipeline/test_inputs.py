"""What others made: their files, and the error for a file that is wrong."""

import gzip

import numpy as np
import pytest

from support.configurations import configure
from support.forked_commands import command
from xnmt_bench.errors import DataError, StoreError, XnmtError
from xnmt_bench.pipeline.inputs import InputFile
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.table import shard_path, write_shard
from xnmt_bench.store import Store

FORMATS = {"outputs": "text", "scores": "text", "relevance": "rules"}


def job(tmp_path, kind, path, **options):
    changes = [f"{kind}.{key}={value}" for key, value in ({"path": path} | options).items()]
    return Job(configure("corpus.test=3", f"store={tmp_path}/store", *changes))


def input_file(kind, path):
    return InputFile(kind, path, FORMATS[kind], "theirs")


def test_a_job_without_files_has_no_input_file(tmp_path):
    plain_job = Job(configure(f"store={tmp_path}/store"))
    assert [plain_job.input_file(kind) for kind in FORMATS] == [None] * 3
    assert not plain_job.from_files


@pytest.mark.parametrize(
    ("kind", "metrics", "refused"),
    [
        ("outputs", "fidelity,quality,aer", ["fidelity", "aer"]),
        ("scores", "contrastive,quality", ["quality"]),
        ("relevance", "fidelity", ["fidelity"]),
    ],
)
def test_a_file_is_refused_by_metrics_that_do_not_read_it(tmp_path, kind, metrics, refused):
    """Else its name would stand on rows of the configured system."""
    for script in ("train.py", "evaluate.py"):
        done = command(
            script,
            f"metric=[{metrics}]",
            f"{kind}.path={tmp_path}/theirs.txt",
            f"{kind}.name=theirs",
            f"store={tmp_path}/store",
            f"results={tmp_path}/results",
            cwd=tmp_path,
        )
        assert done.returncode == 2
        lines = done.stderr.splitlines()
        start = f"error: {kind}.path: the metric {{}} does not read a file of {kind}.format="
        assert len(lines) == len(refused)
        for line, metric in zip(lines, refused, strict=True):
            assert line.startswith(start.format(metric))
    assert not (tmp_path / "results" / "measurements").exists()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_is_configured(tmp_path, kind):
    file_job = job(tmp_path, kind, tmp_path / "theirs.txt.gz")
    opened = file_job.input_file(kind)
    assert opened.path == tmp_path / "theirs.txt.gz"
    assert (opened.kind, opened.format, opened.name) == (kind, FORMATS[kind], "theirs.txt")
    assert file_job.from_files
    named = job(tmp_path, kind, tmp_path / "theirs.txt", name="another")
    assert named.input_file(kind).name == "another"


@pytest.mark.parametrize("kind", FORMATS)
def test_an_unknown_format_is_answered_with_those_there_are(tmp_path, kind):
    near = FORMATS[kind][:-1]
    with pytest.raises(XnmtError, match=rf"{kind}\.format: .*{near}.*did you mean {near}"):
        job(tmp_path, kind, tmp_path / "x", format=near).input_file(kind)
    with pytest.raises(
        XnmtError, match=rf"{kind}\.format: .*'html'; there are .*\b{FORMATS[kind]}\b"
    ):
        job(tmp_path, kind, tmp_path / "x", format="html").input_file(kind)


@pytest.mark.parametrize("kind", ["outputs", "scores"])
@pytest.mark.parametrize("ending", ["txt", "txt.gz"])
def test_one_a_line(tmp_path, kind, ending):
    path = tmp_path / f"theirs.{ending}"
    texts = {"outputs": "der größte Hund\r\n\nx\n", "scores": "-1.5\r\n -2e-1\n0\n"}
    content = texts[kind].encode()
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    values = input_file(kind, path).read()
    if kind == "outputs":
        assert values == ["der größte Hund", "", "x"]  # an empty translation is one too
    else:
        assert values.tolist() == [-1.5, -0.2, 0]
        assert values.dtype == np.float64


@pytest.mark.parametrize("use", [InputFile.read, lambda d: d.fingerprint])
@pytest.mark.parametrize("kind", ["outputs", "scores"])
def test_a_missing_file_is_named(tmp_path, kind, use):
    with pytest.raises(DataError, match="no such file") as error:
        use(input_file(kind, tmp_path / "gone.txt"))
    assert str(error.value).startswith(f"{tmp_path / 'gone.txt'}: ")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"one", "'one' is not a number"),
        (b"", "'' is not a number"),
        (b"1 2", "'1 2' is not a number"),
        (b"0,5", "'0,5' is not a number"),
        (b"nan", "nan is not a finite number"),
        (b"-inf", "-inf is not a finite number"),
        (b"1\xff", "not UTF-8"),
    ],
)
def test_what_is_no_number_is_named_by_file_and_line(tmp_path, line, problem):
    path = tmp_path / "scores.txt"
    path.write_bytes(b"-1.0\n-2.0\n" + line + b"\n-3.0\n")
    with pytest.raises(DataError, match=problem) as error:
        input_file("scores", path).read()
    assert str(error.value).startswith(f"{path}:3: ")


def test_a_translation_that_is_no_text_is_named_by_file_and_line(tmp_path):
    path = tmp_path / "theirs.txt"
    path.write_bytes(b"ein Hund\n\xc3\n")
    with pytest.raises(DataError, match="not UTF-8") as error:
        input_file("outputs", path).read()
    assert str(error.value).startswith(f"{path}:2: ")


@pytest.mark.parametrize("kind", ["outputs", "scores"])
@pytest.mark.parametrize("damage", ["no gzip", "truncated"])
def test_a_damaged_gzip_is_named(tmp_path, kind, damage):
    path, compressed = tmp_path / "theirs.gz", gzip.compress(b"-1.0\n" * 500)
    path.write_bytes(b"-1.0\n" if damage == "no gzip" else compressed[: len(compressed) // 2])
    with pytest.raises(DataError, match=rf"{path}.*damaged gzip"):
        input_file(kind, path).read()


@pytest.mark.parametrize("count", [2, 4])
def test_translations_are_counted(tmp_path, count):
    path = tmp_path / "theirs.txt"
    path.write_text("ein Hund\n" * count)
    with pytest.raises(DataError, match=f"{count} lines, but there are 3 test sentences in toy"):
        job(tmp_path, "outputs", path).outputs()
    path.write_text("ein Hund\n" * 3)
    outputs = job(tmp_path, "outputs", path).outputs()
    assert outputs.texts == ["ein Hund"] * 3
    assert outputs.number_N.tolist() == [0, 1, 2]
    assert not (tmp_path / "store").exists()  # without a model


@pytest.mark.parametrize("count", [2, 4])
def test_scores_are_counted(tmp_path, count):
    path = tmp_path / "scores.txt"
    path.write_text("-1.0\n" * count)
    with pytest.raises(DataError, match=f"{count} lines, but there are 3 pairs to be scored") as e:
        job(tmp_path, "scores", path).log_probability([("a", "b")] * 3)
    assert str(path) in str(e.value)


def test_a_byte_changes_the_fingerprint_and_the_place_does_not(tmp_path):
    first, two = tmp_path / "one.txt", tmp_path / "other" / "two.txt"
    two.parent.mkdir()
    for path in (first, two):
        path.write_text("-1.0\n-2.0\n")
    before = input_file("scores", first).fingerprint
    assert input_file("scores", two).fingerprint == before
    two.write_text("-1.0\n-2.1\n")
    assert input_file("scores", two).fingerprint != before


def relevance(folder):
    """A test set's relevance as this project has it: a sentence of two steps, one of one."""
    for number, (sentence, steps) in enumerate(((0, 2), (2, 1))):
        rows = [np.array([0.5, step], dtype=np.float32) for step in range(steps)]
        columns = {
            "sentence": np.full(steps, sentence),
            "step": np.arange(steps),
            "source_relevance": rows,
            "prefix_relevance": [-row for row in rows],
        }
        write_shard(columns, shard_path(folder, "test", number))


def test_relevance_comes_in(tmp_path):
    relevance(tmp_path / "theirs")
    reader = job(tmp_path, "relevance", tmp_path / "theirs")
    relevance_read = reader.relevance()
    sentences = list(relevance_read)
    assert [s.number for s in sentences] == [0, 2]
    assert sentences[0].source_TS.tolist() == [[0.5, 0], [0.5, 1]]
    assert relevance_read.fingerprint == reader.input_file("relevance").fingerprint
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated"])
def test_relevance_that_is_not_there_or_damaged_is_named(tmp_path, damage):
    folder = named = tmp_path / "theirs"
    if damage == "empty":
        (folder / "test").mkdir(parents=True)
    elif damage == "truncated":
        relevance(folder)
        named = shard_path(folder, "test", 1)
        named.write_bytes(named.read_bytes()[:-20])
    with pytest.raises((DataError, StoreError)) as error:
        list(job(tmp_path, "relevance", folder).relevance())
    assert str(error.value).startswith(f"{named}: ")


def test_relevance_of_a_store_is_verified(tmp_path):
    artefact = Store(tmp_path / "theirs").stage("rules", relevance, version=1).artefact
    relevance_read = job(tmp_path, "relevance", artefact.path).relevance()
    assert relevance_read.fingerprint == artefact.fingerprint
    assert len(list(relevance_read)) == 2
    shard, other = (shard_path(artefact.path, "test", number) for number in (0, 1))
    shard.write_bytes(other.read_bytes())  # readable, but another one
    with pytest.raises(StoreError, match="truncated or altered") as error:
        list(relevance_read)
    assert str(shard) in str(error.value)
