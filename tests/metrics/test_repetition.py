"""Repetition of content words in documents."""

import csv

import numpy as np
import pytest

from support.configurations import DISCOURSE, configure
from support.forked_commands import must_run
from xnmt_bench.corpora.function_words import function_words
from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.repetition import Repetition, repeated
from xnmt_bench.pipeline.job import Job


def test_a_word_counts_from_its_second_time_on():
    functional = frozenset({"the"})
    assert repeated(["The dog sees the dog .", "A Dog , the cat"], functional) == (2, 6)
    assert repeated(["the , ."], functional) == (0, 0)
    # Punctuation hangs on words where text is not tokenised.
    assert repeated(["The dog sees the dog.", '"A Dog, the cat"'], functional) == (2, 6)
    # A clitic is listed with its apostrophe.
    english = function_words("en")
    assert repeated(["the dog 's bone , it 's a dog 's ."], english) == (1, 3)


def test_words_of_chinese_are_its_characters():
    """猫 three times, 雨 twice and 看 once; punctuation and function words apart."""
    chinese = function_words("zho_Hans")
    assert repeated(["猫在看雨。", "猫，这只猫！雨"], chinese, "zho_Hans") == (3, 6)
    assert function_words("zh-CN") == chinese


def test_vowel_signs_are_part_of_a_word():
    """Hindi `की` and `का` differ in the sign on their one letter alone."""
    assert repeated(["की, का।"], frozenset(), "hi") == (0, 2)


def test_a_file_beside_its_references(tmp_path):
    """Documents are apart: words of another one do not count as repeated."""
    common = [*DISCOURSE, f"store={tmp_path}/store", f"results={tmp_path}/results"]
    sentences = list(Job(configure(*common)).corpus.sentences("test"))
    (tmp_path / "out.txt").write_text("".join(f"{s.target} tisch\n" for s in sentences))
    must_run("evaluate.py", *common, "metric=[repetition]", f"outputs.path={tmp_path}/out.txt")
    [row] = csv.DictReader((tmp_path / "results" / "repetition.csv").open())
    functional, of = function_words("de"), {}
    for s in sentences:
        of.setdefault(s.document, []).append(s.target)
    counts = np.array([repeated(texts, functional) for texts in of.values()]).sum(0)
    assert float(row["reference"]) == counts[0] / counts[1]
    with_table = [repeated([f"{t} tisch" for t in texts], functional) for texts in of.values()]
    counts = np.array(with_table).sum(0)
    assert float(row["repeated"]) == counts[0] / counts[1]
    assert float(row["repeated"]) > float(row["reference"])
    assert int(float(row["words"])) == counts[1]


def test_a_test_set_of_one_document_repeats_nothing_that_counts(tmp_path):
    """A text without documents is read as one."""
    for split in ("train", "valid", "test"):
        for language in ("de", "en"):
            (tmp_path / f"{split}.{language}").write_text("a b .\nb c .\n")
    job = Job(configure(
        "corpus=text", f"corpus.root={tmp_path}", "corpus.source_language=de",
        "corpus.target_language=en", f"outputs.path={tmp_path}/test.en",
    ), may_make=False)  # fmt: skip
    [planned] = Repetition().measure(job)
    with pytest.raises(NotApplicable, match="the test set has a single document"):
        planned.make()


def test_a_test_set_whose_sentences_stand_alone_has_no_documents(tmp_path):
    lines = [f"{p}\t-\t{n}\tein Hund\ta dog\n" for p in ("a", "b", "c") for n in range(3)]
    (tmp_path / "x.tsv").write_text("".join(lines))
    (tmp_path / "out").write_text("a dog a dog\n" * 3)
    job = Job(configure(
        "corpus=tsv", f"corpus.path={tmp_path}/x.tsv", "corpus.columns=[de,en]",
        "corpus.source_language=de", "corpus.target_language=en", "corpus.valid=b",
        "corpus.test=c", f"outputs.path={tmp_path}/out",
    ), may_make=False)  # fmt: skip
    [planned] = Repetition().measure(job)
    with pytest.raises(NotApplicable, match="or its documents are unknown"):
        planned.make()
