"""The page of many bundles: who stands beside whom, what is always shown, how it looks."""

from __future__ import annotations

import re

import pytest

from support.browser import assert_readable, screen
from support.bundle_files import make_bundle, make_results, read_members, rewrite_bundle
from support.example_rows import SYSTEM, measured
from xnmt_bench.bundles.leaderboard import write_leaderboard
from xnmt_bench.errors import MissingError
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.report.report import collect

DRAWS = Draws(20, 0)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Two bundles of one system, one of another system of that name, one of another corpus."""
    place, folder = tmp_path_factory.mktemp("results"), tmp_path_factory.mktemp("bundles")
    results_of = {
        "a": make_results(place / "a"),
        "b": make_results(place / "b", ("gradient_norm",)),
        "c": make_results(place / "c", ("alti", "random"), model="m1"),
        "d": make_results(place / "d", ("rollout",), corpus="news<script>alert(1)</script>"),
    }
    for name, results in results_of.items():
        make_bundle(folder / f"{name}.zip", results, author=f"group {name}")
    (folder / "README.md").write_text("no bundle")
    return folder


@pytest.fixture(scope="module")
def leaderboard_path(bundles, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "deep" / "leaderboard.html"
    assert write_leaderboard(bundles, path, DRAWS) == {}
    return path


def sections(page):
    """The part of each system, by its heading."""
    text = page.read_text(encoding="utf-8")
    parts = re.findall(r"<section id=\"([^\"]+)\">(.*?)</section>", text, re.DOTALL)
    return {
        anchor: part for anchor, part in parts if "class=summary" in part and anchor != "bundles"
    }


def cells(part):
    """The table of a section: its headings, and its lines."""
    headings = re.findall(r"<th[^>]*>(.*?)</th>", part)
    lines = re.findall(r"<tr[^>]*>((?:<td.*?)+)</tr>", part)
    plain = [[re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", line)]
             for line in lines]  # fmt: skip
    return headings, plain


def test_rows_stand_only_beside_rows_of_the_same_system_and_corpus(leaderboard_path):
    explainers_of = {
        anchor: {line[0] for line in cells(part)[1]}
        for anchor, part in sections(leaderboard_path).items()
    }
    assert sorted(map(sorted, explainers_of.values())) == [
        ["alti", "random (blind)"],
        ["attention", "gradient_norm", "random (blind)"],
        ["rollout"],
    ]


def test_judges_and_blind_rows_are_always_shown(leaderboard_path):
    for part in sections(leaderboard_path).values():
        headings, lines = cells(part)
        assert [h for h in headings if h in ("Base", "own FN")] == ["Base", "own FN"]
        without_blind = "No blind row was measured here" in part
        assert without_blind == (not any("blind" in line[0] for line in lines))


def test_numbers_are_those_of_the_units(leaderboard_path, bundles, tmp_path):
    """A table in a bundle that says something else decides nothing."""
    contents = read_members(bundles / "a.zip")
    contents["tables/fidelity.csv"] = b"explainer,ppl\nattention,1.0\n"
    lying = tmp_path / "lying"
    lying.mkdir()
    rewrite_bundle(lying / "a.zip", contents)
    write_leaderboard(lying, tmp_path / "page.html", DRAWS)
    [part] = sections(tmp_path / "page.html").values()
    rows = collect(Fidelity(), make_results(tmp_path / "own"), DRAWS)
    shown = {line[0]: line[1:] for line in cells(part)[1]}
    for row in rows:
        m = row.measurement.identity
        number = Fidelity().headline.cell(*(row.values[n] for n in ("ppl", "ppl_low", "ppl_high")))
        name = m["explainer"] + (" (blind)" if m["explainer"] == "random" else "")
        assert any(cell.startswith(number) for cell in shown[name])


def test_what_strangers_wrote_is_text(leaderboard_path):
    text = leaderboard_path.read_text(encoding="utf-8")
    assert "alert(1)</script>" not in text and "news&lt;script&gt;" in text
    assert "default-src 'none'" in text and not re.search(r"https?://", text)


def test_every_bundle_is_named_with_its_digest(leaderboard_path, bundles):
    from xnmt_bench.store import file_hash

    text = leaderboard_path.read_text(encoding="utf-8")
    for name in "abcd":
        assert file_hash(bundles / f"{name}.zip") in text and f"group {name}" in text
    both = next(part for part in sections(leaderboard_path).values() if "gradient_norm" in part)
    assert "From a.zip, b.zip." in both


def test_a_bad_bundle_is_left_out_and_named(bundles, tmp_path):
    for path in bundles.glob("*.zip"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    contents = read_members(bundles / "b.zip")
    contents["card.md"] += b"x"
    rewrite_bundle(tmp_path / "b.zip", contents, manifest=False)
    refused = write_leaderboard(tmp_path, tmp_path / "page.html", DRAWS)
    assert list(refused) == [tmp_path / "b.zip"]
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "b.zip: the member card.md was altered" in text and "gradient_norm" not in text


def test_other_numbers_of_the_same_row_are_named(tmp_path):
    for name, shift in (("a", 0.0), ("b", 1.0)):
        make_bundle(tmp_path / f"{name}.zip", make_results(tmp_path / name, shift=shift))
    write_leaderboard(tmp_path, tmp_path / "page.html", DRAWS)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "b.zip: 4 rows stand in an earlier bundle with other numbers" in text


def test_a_row_without_a_number_stands_there(tmp_path):
    results = make_results(tmp_path / "results")
    identity = SYSTEM | {
        "explainer": "alti", "k": 1, "prefix": "chosen", "scenario": "teacher_forcing", "seed": 1,
        "learned_from": "teacher_forcing", "instantiation": "base", "train_sentences": 900,
    }  # fmt: skip
    measured(Fidelity(), results, identity, "n/a")
    make_bundle(tmp_path / "a.zip", results)
    write_leaderboard(tmp_path, tmp_path / "page.html", DRAWS)
    [part] = sections(tmp_path / "page.html").values()
    assert ["alti", "n/a", ""] in [line[:3] for line in cells(part)[1]]


def test_a_folder_without_bundles_is_one_line(tmp_path):
    with pytest.raises(MissingError, match="no bundle"):
        write_leaderboard(tmp_path, tmp_path / "page.html", DRAWS)
    (tmp_path / "a.zip").write_bytes(b"nothing")
    with pytest.raises(MissingError, match=r"no bundle could be read: .*no zip file"):
        write_leaderboard(tmp_path, tmp_path / "page.html", DRAWS)


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (390, "dark"), (390, "light")])
def test_a_browser_shows_it(leaderboard_path, browser, width, scheme):
    assert_readable(browser, leaderboard_path, width, scheme)
    with screen(browser, width, scheme):
        browser.get(leaderboard_path.as_uri())
        colour = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g)"
        assert (sum(map(int, browser.execute_script(colour)[:3])) > 600) == (scheme == "light")
        # Tables are sorted by a click, though nothing may be loaded from elsewhere.
        table = (
            "[...document.querySelectorAll('table')].find(t => /gradient_norm/.test(t.innerText))"
        )
        first = f"return {table}.querySelector('tbody td').textContent"
        names = [browser.execute_script(first)]
        for _ in range(2):
            browser.execute_script(f"{table}.querySelector('th button').click()")
            names.append(browser.execute_script(first))
        assert len(set(names)) > 1
