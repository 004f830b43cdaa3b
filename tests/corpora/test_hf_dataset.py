"""Corpora of Hugging Face `datasets`, from folders, without the hub."""

import csv
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.configurations import configure
from xnmt_bench.corpora.formats.hf_dataset import HFDataset
from xnmt_bench.corpora.sentence import Sentence, lang_pair
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.registry import instantiate

datasets = pytest.importorskip("datasets")
SPLITS = {"train": "train", "valid": "validation", "test": "test"}
PAIRS = [("eins", "one"), ("zwei\n drei", "two three"), ("größer", "greater")]
COLUMNS = ["translation.de", "translation.en"]


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch):
    """No network, and a cache of its own."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))


def nested(pairs=PAIRS):
    return [{"translation": {"de": de, "en": en}} for de, en in pairs]


@pytest.fixture
def dataset_folder(tmp_path):
    """Three splits as JSON lines, as the hub's translation sets are."""
    root = tmp_path / "data"
    root.mkdir()
    for split in SPLITS.values():
        lines = [json.dumps(row, ensure_ascii=False) for row in nested()]
        (root / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def corpus_of(path, columns=COLUMNS, splits=SPLITS, **options):
    return HFDataset(path, columns, splits, **options)


def test_a_folder_is_read_in_order(dataset_folder):
    corpus = corpus_of(dataset_folder)
    assert list(corpus.sentences("valid")) == [
        Sentence("eins", "one", "validation", 0),
        Sentence("zwei drei", "two three", "validation", 1),
        Sentence("größer", "greater", "validation", 2),
    ]
    assert lang_pair(corpus) == "de-en"
    assert lang_pair(corpus_of(dataset_folder, source_language="deu")) == "deu-en"


@pytest.mark.parametrize("form", ["parquet", "csv", "saved"])
def test_other_forms_of_a_folder(form, tmp_path):
    root = tmp_path / "data"
    root.mkdir()
    columns = {"de": [de for de, _ in PAIRS], "en": [en for _, en in PAIRS]}
    if form == "saved":
        part = datasets.Dataset.from_dict(columns)
        datasets.DatasetDict({split: part for split in SPLITS.values()}).save_to_disk(root)
    else:
        for split in SPLITS.values():
            if form == "parquet":
                pq.write_table(pa.table(columns), root / f"{split}.parquet")
            else:
                datasets.Dataset.from_dict(columns).to_csv(root / f"{split}.csv", index=False)
    texts = [(s.source, s.target) for s in corpus_of(root, ["de", "en"]).sentences("test")]
    assert texts == [("eins", "one"), ("zwei drei", "two three"), ("größer", "greater")]


GUESSED = [
    "null", "NA", "None", "nan", "007", "1e3", "1,000", "2020-01-01", "true", "'x'", "1_000", "N/A",
    'Er sagte "Ja".', "-", "0x1F",
]  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "json", "parquet", "csv.gz"])
@pytest.mark.parametrize("texts", [GUESSED, GUESSED[4:6], ["2020-01-01"]])
def test_a_text_stays_as_the_file_has_it(form, texts, tmp_path):
    """Written by Python's own csv and json, and by pyarrow."""
    root = tmp_path / "data"
    root.mkdir()
    path = root / f"train.{form}"
    if form == "parquet":
        pq.write_table(pa.table({"de": texts, "en": texts}), path)
    elif form.startswith("json"):
        rows = [{"de": text, "en": text} for text in texts]
        lines = "\n".join(map(json.dumps, rows))
        path.write_text(lines if form == "jsonl" else json.dumps(rows, indent=1))
    else:
        with (gzip.open if form == "csv.gz" else open)(path, "wt", newline="") as file:
            writer = csv.writer(file, "excel-tab" if form == "tsv" else "excel")
            writer.writerows([("de", "en"), *zip(texts, texts, strict=True)])
    sentences = corpus_of(root, ["de", "en"]).sentences("train")
    assert [(s.source, s.target) for s in sentences] == [(text, text) for text in texts]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        (
            "train.tsv",
            'de\ten\n"Ja", sagte er.\tYes.\n',
            r"train.tsv:2: not CSV: .* has to end with one",
        ),
        ("train.csv", 'de,en\na,""\n', "train:1: no text in column 'en'"),
        ("train.csv", "de,en\na,b,c\n", "train.csv:2: 3 fields, but the header has 2"),
        ("train.jsonl", '{"de": "a", "en": 7}\n', "train:1: no text in column 'en'"),
        ("train.json", '[{"de": "a"},\n 7]', "train.json:1: expected one JSON object a line"),
        ("train.json", '[\n{"de": "a",\n]', "train.json:3: not JSON"),
    ],
)
def test_a_line_of_text_that_is_damaged(name, text, problem, tmp_path):
    root = tmp_path / "data"
    root.mkdir()
    (root / name).write_text(text)
    with pytest.raises(DataError, match=problem):
        list(corpus_of(root, ["de", "en"]).sentences("train"))


def test_rows_stream(tmp_path):
    """The first sentence comes before a damaged row far behind it is reached."""
    root = tmp_path / "data"
    root.mkdir()
    filler = "x" * 500  # so that few rows fill what is read at once
    rows = ({"de": f"Satz {n}", "en": f"sentence {n}", "more": filler} for n in range(40_000))
    lines = map(json.dumps, rows)
    (root / "train.jsonl").write_text("\n".join([*lines, "{damaged"]), encoding="utf-8")
    rows = corpus_of(root, ["de", "en"]).sentences("train")
    assert next(rows) == Sentence("Satz 0", "sentence 0", "train", 0)
    with pytest.raises(DataError, match=r"train.jsonl:40001: not JSON") as error:
        list(rows)
    assert "\n" not in str(error.value)


def test_documents_are_counted_by_themselves(tmp_path):
    root = tmp_path / "data"
    root.mkdir()
    rows = [{"de": f"d{n}", "en": f"e{n}", "doc": name} for n, name in enumerate("aabbb")]
    (root / "train.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    corpus = corpus_of(root, ["de", "en"], document="doc")
    places = [(s.document, s.position) for s in corpus.sentences("train")]
    assert places == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)]


def test_a_row_without_a_document_is_no_context_of_the_next(tmp_path):
    root = tmp_path / "data"
    root.mkdir()
    names = [None, None, "-", "-", "0", "0"]
    rows = [{"de": f"d{n}", "en": f"e{n}", "doc": name} for n, name in enumerate(names)]
    (root / "train.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    sentences = list(corpus_of(root, ["de", "en"], document="doc").sentences("train"))
    assert len({s.document for s in sentences}) == 5
    assert [s.position for s in sentences] == [0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("options", "rows", "problem"),
    [
        (
            {"columns": ["translation.de", "translation.fr"]}, nested(),
            "no column 'translation.fr'; there are: de, en",
        ),
        ({"columns": ["de", "en"]}, nested(), "no column 'de'; there are: translation"),
        ({"splits": SPLITS | {"train": "dev"}}, nested(), "no split 'dev'; there are: "),
        ({}, nested([("eins", " ")]), r"train:1: no text in column 'translation.en'"),
        ({}, nested([("eins", "one"), (None, "two")]), r"train:2: no text in column"),
        ({"document": "doc"}, nested(), "no column 'doc'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(options, rows, problem, tmp_path):
    root = tmp_path / "data"
    root.mkdir()
    (root / "train.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(DataError, match=problem) as error:
        list(corpus_of(root, **options).sentences("train"))
    assert "\n" not in str(error.value)


def test_what_is_not_there_is_one_line(tmp_path, monkeypatch):
    for path in (tmp_path / "none", "no_such_owner/no_such_data"):
        with pytest.raises(DataError) as error:
            list(corpus_of(path).sentences("train"))
        assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(XnmtError, match=r"pip install 'xnmt_bench\[datasets\]'"):
        list(corpus_of(tmp_path).sentences("train"))


def test_the_recipe_follows_the_bytes_and_not_the_place(dataset_folder, tmp_path):
    before = corpus_of(dataset_folder).recipe()
    moved = dataset_folder.rename(tmp_path / "moved")
    assert corpus_of(moved).recipe() == before
    assert corpus_of(moved, name="other").recipe() == before
    assert corpus_of(moved, splits=SPLITS | {"valid": "test"}).recipe() != before
    with (moved / "train.jsonl").open("a") as file:
        file.write("\n")
    assert corpus_of(moved).recipe() != before


def test_it_is_a_choice_of_the_command_line(dataset_folder):
    config = configure(
        "corpus=hf_dataset", f"corpus.path={dataset_folder}", f"corpus.columns={COLUMNS}"
    )
    options = {k: v for k, v in config.corpus.items() if k not in ("subwords", "max_length")}
    options.pop("reversed")
    corpus = instantiate("corpus", options)
    assert next(corpus.sentences("test")).source == "eins"
