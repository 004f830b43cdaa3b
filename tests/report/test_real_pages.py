"""The pages of a real model: what they name, and that they can be read on a phone."""

import html
import re
import shutil

import pytest

from support.browser import assert_readable, screen
from support.debug_page_reader import read_listings
from support.forked_commands import must_run
from xnmt_bench.nmt.loading import SHIPPED
from xnmt_bench.report.overview import Overview
from xnmt_bench.report.page import write_page
from xnmt_bench.report.summary import Cell, Line, ShownTable, Summary

PAIRS = [
    ("Der Hund schläft.", "The dog is sleeping."),
    ("Ich habe kein Geld.", "I have no money."),
    ("Wo ist der Bahnhof?", "Where is the station?"),
    ("Sie liest ein Buch.", "She is reading a book."),
    ("Das Wetter ist schön.", "The weather is nice."),
]
BROWSED = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model, a text, and the results of two explainers under one judge."""
    folder = tmp_path_factory.mktemp("pages")
    shutil.copytree(SHIPPED / "tatoeba_de_en", folder / "models" / "my_model")
    (folder / "text").mkdir()
    for side, language in enumerate(("de", "en")):
        lines = "".join(f"{pair[side]}\n" for pair in PAIRS)
        for split in ("train", "valid", "test"):
            (folder / "text" / f"{split}.{language}").write_text(lines, encoding="utf-8")
    must_run(
        "train.py", "-m", "nmt=tatoeba_de_en", "nmt.name=mine",
        f"nmt.path={folder}/models/my_model", "corpus=text", "corpus.name=phrases",
        f"corpus.root={folder}/text", "corpus.source_language=de", "corpus.target_language=en",
        "explainer=attention,random", "metric=[fidelity,quality]", "judge=[base]",
        f"metric.fidelity.browsed={BROWSED}", cwd=folder,
    )  # fmt: skip
    evaluated(folder, "[fidelity,quality]")
    return folder / "results"


def evaluated(folder, metrics):
    must_run("evaluate.py", f"metric={metrics}", "analysis=[significance]", cwd=folder)


def described(results):
    """What `report.html` says in its lists: texts by their terms."""
    page = (results / "report.html").read_text(encoding="utf-8")
    return {term: html.unescape(text) for term, text in
            re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page)}  # fmt: skip


def test_the_report_names_its_model_test_set_and_words(folder):
    terms = described(folder)
    assert re.fullmatch(r"mine, opened from my_model, fingerprint [0-9a-f]{6}", terms["model"])
    assert terms["test set"] == f"phrases, de-en, {len(PAIRS)} sentences"
    with (folder / "fidelity.csv").open(encoding="utf-8") as file:
        heading, row = (next(file).split(",") for _ in range(2))
    assert terms["decisions"] == str(int(float(row[heading.index("decisions")])))
    assert terms["translation quality"].startswith("BLEU ")
    assert terms["explainer"].endswith("Here: attention")
    assert terms["judge"].endswith("Here: Base")
    assert terms["blind row"].endswith("Here: random")
    assert "1 of the source and 1 of the translation" in terms["rule"]


def test_a_page_without_quality_says_how_to_measure_it(folder):
    evaluated(folder.parent, "[fidelity]")
    assert "add quality to metric=[...]" in described(folder)["translation quality"]
    evaluated(folder.parent, "[fidelity,quality]")


def test_no_row_holds_where_the_model_lay(folder):
    for path in folder.rglob("*.json"):
        assert str(folder.parent) not in path.read_text(encoding="utf-8")
    assert str(folder.parent) not in (folder / "report.html").read_text(encoding="utf-8")


def test_sentences_stand_under_the_explainers_name_with_their_share(folder):
    listings = read_listings(folder / "debug.html")
    names = [listing["name"].partition(", ")[0] for listing in listings]
    assert sorted(names) == ["attention", "random"]
    for listing in listings:
        assert (len(listing["numbers"]), listing["total"]) == (BROWSED, len(PAIRS))


def test_the_share_is_read_above_the_list(folder, browser):
    browser.get((folder / "debug.html").as_uri())
    browser.execute_async_script("setTimeout(arguments[0], 300)")

    def text(name):
        return browser.find_element("id", name).text

    assert text("said") == f"{BROWSED} of {len(PAIRS)} measured sentences"
    assert text("title") == read_listings(folder / "debug.html")[0]["name"] == browser.title
    browser.find_element("id", "find").send_keys("no such word")
    assert text("said").startswith(f"0 of {BROWSED}; here are {BROWSED} of {len(PAIRS)}")
    assert text("none").startswith("Nothing here fits")
    browser.find_element("id", "clear").click()
    assert text("said") == f"{BROWSED} of {len(PAIRS)} measured sentences"
    assert not browser.find_element("id", "none").is_displayed()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1300])
@pytest.mark.parametrize("page", ["report.html", "debug.html", "debug.html#view=lines&find=x"])
def test_a_page_is_whole_and_dark_enough(folder, browser, page, width, scheme):
    name, hash_, address = page.partition("#")
    assert_readable(browser, folder / name, width, scheme, hash_ + address)


def test_words_of_the_line_above_are_left_out_in_a_narrow_window_until_it_is_sorted(
    browser, tmp_path
):
    words = [("x", "a"), ("x", "b"), ("y", "b"), ("y", "c"), ("y", "c")]
    lines = [
        Line((pair[0],), [Cell(text) for text in (*pair, *map(str, range(place, place + 30)))])
        for place, pair in enumerate(words)
    ]
    table = Summary("Two", ["system", "name", *map(str, range(30))], lines, [], words=2)
    shown = [ShownTable("two", table)]
    page = write_page(Overview([], {}), [], {}, shown, [], [], tmp_path)
    assert_readable(browser, page, 390, "light")
    with screen(browser, 390, "light"):
        browser.get(page.as_uri())

        def shown_words():
            rows = browser.find_elements("css selector", "#two tbody tr")
            cells = [row.find_elements("class name", "words") for row in rows]
            return [[cell.text for cell in of_row if cell.is_displayed()] for of_row in cells]

        assert shown_words() == [["x", "a"], ["b"], ["y", "b"], ["c"], ["c"]]
        for _ in range(2):
            browser.find_elements("css selector", "#two th button")[2].click()
        assert shown_words() == [[*pair] for pair in reversed(words)]


def test_numbers_stand_under_their_words_in_a_narrow_window(folder, browser):
    with screen(browser, 390, "light"):
        browser.get((folder / "report.html").as_uri())
        lines = browser.find_elements("css selector", "#fidelity tbody tr")
        assert len(lines) == 2
        for line in lines:
            words, *numbers = line.find_elements("tag name", "td")
            assert numbers
            bottom = words.rect["y"] + words.rect["height"]
            assert all(cell.rect["y"] >= bottom - 1 for cell in numbers)
            for interval in line.find_elements("tag name", "small"):
                assert interval.value_of_css_property("display") == "block"
