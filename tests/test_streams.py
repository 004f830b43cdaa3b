"""Output that is closed, full, narrow or without a reader: one line or none, and a status."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.bundle_files import make_results
from support.paths import ROOT
from xnmt_bench import streams

LIST = f"{sys.executable} -m xnmt_bench list explainers"
NO_SPACE = "error: standard output: No space left on device\n"
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


def shell(line, **environment):
    return subprocess.run(
        ["bash", "-c", line], cwd=ROOT, capture_output=True, env={**os.environ, **environment}
    )


def python(code, redirections="", **environment):
    code = f"import logging, sys\nfrom xnmt_bench.streams import standard_streams\n{code}"
    return shell(f"{sys.executable} -c '{code}' {redirections}", **environment)


@pytest.mark.parametrize(
    ("redirections", "status", "message"),
    [
        ("", 0, ""),
        (">&-", 1, "error: standard output: Bad file descriptor\n"),
        ("2>&-", 0, ""),
        ("<&-", 0, ""),
        ("<&- >&- 2>&-", 1, ""),
        pytest.param(">/dev/full", 1, NO_SPACE, marks=FULL),
        pytest.param("2>/dev/full", 0, "", marks=FULL),
        ("| true; exit ${PIPESTATUS[0]}", 141, ""),  # it goes before a line is written
    ],
)  # fmt: skip
def test_a_list_is_written_or_its_status_says_that_it_is_not(redirections, status, message):
    done = shell(f"{LIST} {redirections}")
    assert (done.returncode, done.stderr.decode()) == (status, message)


@pytest.mark.parametrize("redirections", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_no_file_gets_the_number_of_a_closed_stream(redirections, tmp_path):
    """Or what is printed would end in it."""
    file = tmp_path / "result"
    code = f"""with standard_streams():
    result = open("{file}", "w")
    result.write("number")
    print("printed"); print("an error", file=sys.stderr)
    sys.exit(result.fileno() <= 2)"""
    assert python(code, redirections).returncode == 0
    assert file.read_text() == "number"


@pytest.mark.parametrize("redirections", [">&-", pytest.param(">/dev/full", marks=FULL)])
def test_work_goes_on_where_its_log_cannot_be_written(redirections):
    code = """with standard_streams():
    logging.basicConfig(stream=sys.stdout, level=logging.INFO)
    for number in range(10000): logging.info(number)
    print("done", file=sys.stderr)"""
    done = python(code, redirections)
    first, second = done.stderr.decode().splitlines()
    assert (done.returncode, first) == (1, "done") and second.startswith("error: standard output")


def test_a_failure_keeps_its_status():
    code = """with standard_streams():
    print("x"); sys.exit(2)"""
    assert python(code, ">&-").returncode == 2


def test_an_encoding_without_a_character_gets_a_form_as_wide():
    code = 'with standard_streams(): print("|░▒▓█·−†‡▁…|ä猫|")'
    ascii_text = python(code, PYTHONIOENCODING="ascii")
    assert ascii_text.stdout == b"|.:*#'-+*_~|\\xe4\\u732b|\n"
    latin = python(code, PYTHONIOENCODING="latin-1").stdout.decode("latin-1")
    assert latin == "|.:*#·-+*_~|ä\\u732b|\n"
    assert python(code, PYTHONIOENCODING="utf-8").stdout.decode() == "|░▒▓█·−†‡▁…|ä猫|\n"
    assert all(len(form) == 1 and form.isascii() for form in streams.PLAIN_FORMS.values())


def test_arguments_are_utf_8_in_any_locale():
    code = "with standard_streams(): print(ascii(sys.argv[1]))"
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert python(code, "schläft", **locale).stdout == b"'schl\\xe4ft'\n"
    done = python(code, r"$'schl\xe4ft'")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"error: b'schl\\xe4ft': not UTF-8\n"


@FULL
@pytest.mark.long
@pytest.mark.parametrize("sweep", ["", "-m"])
def test_a_report_is_written_where_its_tables_cannot_be_printed(sweep, tmp_path):
    make_results(tmp_path / "results")
    options = f"metric=[fidelity] bootstrap.samples=20 results={tmp_path}/results"
    places = f"hydra.run.dir={tmp_path}/run hydra.sweep.dir={tmp_path}/sweep"
    done = shell(f"{sys.executable} evaluate.py {sweep} {options} {places} >/dev/full")
    assert done.stderr == NO_SPACE.encode()
    assert done.returncode == 1
    assert {"fidelity.csv", "report.html"} <= {path.name for path in tmp_path.glob("results/*")}
