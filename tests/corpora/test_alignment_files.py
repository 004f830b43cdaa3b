"""Alignment files in every form, and the errors for bad ones."""

import gzip

import pytest

from xnmt_bench.corpora.formats.alignment import Alignment, AlignmentFile, to_pharaoh
from xnmt_bench.errors import DataError, XnmtError

LENGTHS = [(3, 4), (2, 2)]


def file(tmp_path, text, **how):
    path = tmp_path / "links.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return AlignmentFile(path, **how)


def alignment(sure, possible=()):
    return Alignment(frozenset(sure), frozenset({*sure, *possible}))


@pytest.mark.parametrize(
    ("text", "how", "first"),
    [
        ("0-1 2-3\n0-0\n", {}, alignment({(0, 1), (2, 3)})),
        ("1-2 3-4\n1-1\n", {"base": 1}, alignment({(0, 1), (2, 3)})),
        ("1-0 3-2\n0-0\n", {"reverse": True}, alignment({(0, 1), (2, 3)})),
        ("0-1 2p3\n0-0\n", {}, alignment({(0, 1)}, {(2, 3)})),
        ("0-1 2p3\n0-0\n", {"all_sure": True}, alignment({(0, 1), (2, 3)})),
        ("0-1 2p3\n0-0\n", {"ignore_possible": True}, alignment({(0, 1)})),
        ("\n0-0\n", {}, alignment(())),
        ("1 1 2 S\n1 3 4 P\n2 1 1\n", {"form": "naacl", "base": 1}, alignment({(0, 1)}, {(2, 3)})),
        ("0001 1 2 S 0.9\n0001 3 4 P 0.1\n", {"form": "naacl", "base": 1},
         alignment({(0, 1)}, {(2, 3)})),
        ("2 1 1\n1 1 2\n", {"form": "naacl", "base": 1}, alignment({(0, 1)})),
        ("1 1 2\n\n", {"form": "naacl", "base": 1}, alignment({(0, 1)})),
    ],
)  # fmt: skip
def test_a_form_is_read(tmp_path, text, how, first):
    read = file(tmp_path, text, **how).read(LENGTHS)
    assert len(read) == 2
    assert read[0] == first


def test_gzip_is_read(tmp_path):
    path = tmp_path / "links.gz"
    path.write_bytes(gzip.compress(b"0-0 1p1\n"))
    assert AlignmentFile(path).read() == [alignment({(0, 0)}, {(1, 1)})]


def test_lengths_need_not_be_known(tmp_path):
    assert len(file(tmp_path, "0-0\n90-90\n\n").read()) == 3
    assert len(file(tmp_path, "3 1 1\n", form="naacl").read()) == 3


@pytest.mark.parametrize(
    ("text", "how", "problem"),
    [
        ("0-1\n0-x\n", {}, r":2: '0-x' is not a link"),
        ("0-1 2\n0-0\n", {}, r":1: '2' is not a link"),
        ("0-1\n0q0\n", {}, r":2: '0q0' is not a link"),
        ("-1-1\n0-0\n", {}, r":1: '-1-1' is not a link"),
        (
            "0-1\n2-0\n",
            {},
            r":2: '2-0' is outside the sentence pair of 2 source and 2 target words",
        ),
        ("0-4\n0-0\n", {}, r":1: '0-4' is outside the sentence pair"),
        ("3-1\n0-0\n", {"reverse": True}, None),
        ("0-3\n0-0\n", {"reverse": True}, r":1: '0-3' is outside the sentence pair"),
        ("0-1\n1-1\n", {"base": 1}, r":1: '0-1': words should be counted from 1"),
        ("0-1\n", {}, r":1: the file ends here but there are 2 pairs"),
        ("0-1\n0-0\n0-0\n", {}, r":3: more lines than the 2 pairs"),
        (b"0-1\n\xff\n", {}, r":2: not UTF-8"),
        ("1 0\n", {"form": "naacl"}, r":1: '1 0' is not a link"),
        ("1 0 0 Q\n", {"form": "naacl"}, r":1: '1 0 0 Q' is not a link"),
        ("1 0 0\n3 0 0\n", {"form": "naacl"}, r":2: no sentence pair 3; the corpus has 2"),
        ("0 0 0\n", {"form": "naacl"}, r":1: no sentence pair 0"),
    ],
)
def test_bad_files_are_named_by_line(tmp_path, text, how, problem):
    bad = file(tmp_path, text, **how)
    if problem is None:
        bad.read(LENGTHS)
        return
    with pytest.raises(DataError, match=r"links\.txt" + problem):
        bad.read(LENGTHS)


def test_a_number_of_pairs_alone_is_held_to(tmp_path):
    with pytest.raises(DataError, match=r":1: the file ends here but there are 2 pairs"):
        file(tmp_path, "9-9\n").read(pairs=2)


@pytest.mark.parametrize(
    "how", [{"base": 2}, {"form": "giza"}, {"all_sure": True, "ignore_possible": True}]
)
def test_senseless_settings_are_refused(tmp_path, how):
    with pytest.raises(XnmtError):
        file(tmp_path, "", **how)


def test_what_is_written_is_read_back(tmp_path):
    links = frozenset({(10, 2), (2, 10), (0, 0)})
    assert to_pharaoh(links) == "0-0 2-10 10-2"
    assert file(tmp_path, to_pharaoh(links) + "\n").read()[0].sure == links
