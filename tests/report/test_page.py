"""The page in a browser: tables can be sorted and are whole, and nothing they are given runs."""

import pytest

from xnmt_bench.report.overview import Overview
from xnmt_bench.report.page import write_page
from xnmt_bench.report.summary import Cell, Line, ShownTable, Summary, to_html

SCRIPT = "<img src=x onerror=document.title='run'>"
# Name, value, count and share of each line, in two blocks.
LINES = [
    ("b2", "4.78 [4.5, 5.1]", "1,234", "89.8 %"),
    ("b10", "12.1 [9, 15]", "n/a", "9.1 %"),
    ("a", "failed", "15", ""),
    ("c", "-3 [-4, -2]", "15", "100 %"),
    (SCRIPT, "inf", "2", "no number"),
]


def summary(columns=0):
    """The table, with more columns if asked."""
    lines = []
    for place, line in enumerate(LINES):
        extra_cells = [f"{place + n:,}.5 [{n:,}.25, {place + n + 1:,}.75]" for n in range(columns)]
        lines.append(Line((place > 2,), [Cell(text) for text in (*line, *extra_cells)]))
    headings = ["name", "value", "count", f"share {SCRIPT}", *(f"c{n}" for n in range(columns))]
    return Summary("A table", headings, lines, ["A note."])


def test_blocks_are_apart_and_intervals_can_go_under_their_number():
    html = to_html(summary())
    assert html.count("<tr class=begins>") == 1
    assert "<td>4.78 <wbr><small>[4.5, 5.1]</small></td>" in html
    assert SCRIPT not in html


@pytest.fixture(scope="module")
def opened_page(tmp_path_factory, browser):
    """The page of a small table and of one that is too wide for any window."""
    shown = [ShownTable("small", summary()), ShownTable("wide", summary(40))]
    sentences, columns = ["By own SA: nothing beats every blind row."], {"own SA": "a proxy"}
    about = Overview([{"model": "m" * 80, "test set": "toy"}], {"judge": "predicts"})
    path = write_page(
        about,
        sentences,
        columns,
        shown,
        [],
        ["python train.py k=2"],
        tmp_path_factory.mktemp("page"),
    )
    browser.get(path.as_uri())
    return browser


def column(page, number):
    lines = page.find_elements("css selector", "#small tbody tr")
    return [line.find_elements("tag name", "td")[number].text for line in lines]


@pytest.mark.parametrize(
    ("number", "ascending", "descending"),
    [
        (0, [SCRIPT, "a", "b2", "b10", "c"], ["c", "b10", "b2", "a", SCRIPT]),
        (1, ["-3", "4.78", "12.1", "inf", "failed"], ["inf", "12.1", "4.78", "-3", "failed"]),
        (2, ["2", "15", "15", "1,234", "n/a"], ["1,234", "15", "15", "2", "n/a"]),
        (3, ["9.1 %", "89.8 %", "100 %", "", "no number"],
         ["100 %", "89.8 %", "9.1 %", "", "no number"]),
    ],
)  # fmt: skip
def test_a_table_is_sorted_by_click_and_by_key(opened_page, number, ascending, descending):
    """Numbers as numbers, words as words, what is missing last, the rest in its old order."""
    before = column(opened_page, number)
    names = column(opened_page, 0)
    heading = opened_page.find_elements("css selector", "#small th")[number]
    button = heading.find_element("tag name", "button")

    def values():
        return [text.split(" [")[0] for text in column(opened_page, number)]

    button.click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert values() == ascending
    if number == 2:
        assert column(opened_page, 0)[1:3] == ["a", "c"]
    button.send_keys("\n")
    assert heading.get_attribute("aria-sort") == "descending"
    assert values() == descending
    if number == 2:
        assert column(opened_page, 0)[1:3] == ["a", "c"]
    button.click()
    assert heading.get_attribute("aria-sort") is None
    assert (column(opened_page, number), column(opened_page, 0)) == (before, names)


def test_one_column_at_a_time_is_sorted_by_and_blocks_have_no_rule_then(opened_page):
    first, second = opened_page.find_elements("css selector", "#small th button")[:2]
    [begins] = opened_page.find_elements("css selector", "#small .begins td:first-child")
    assert begins.value_of_css_property("border-top-width") == "1px"
    first.click()
    assert begins.value_of_css_property("border-top-width") == "0px"
    second.click()
    assert len(opened_page.find_elements("css selector", "#small [aria-sort]")) == 1
    second.click()
    second.click()
    assert begins.value_of_css_property("border-top-width") == "1px"


@pytest.mark.parametrize("width", [1400, 1280])
def test_a_wide_table_scrolls_by_itself_and_keeps_its_names_in_view(opened_page, width):
    opened_page.set_window_size(width, 900)
    inside = "return document.documentElement.scrollWidth <= innerWidth"
    assert opened_page.execute_script(inside)
    scroll = opened_page.find_element("css selector", "#wide .scroll")
    name, *_, last = opened_page.find_elements("css selector", "#wide tbody tr:first-child td")
    before = name.location_once_scrolled_into_view["x"]
    opened_page.execute_script("arguments[0].scrollLeft = 1e6", scroll)
    edge = scroll.rect["x"] + scroll.rect["width"]
    assert last.rect["x"] + last.rect["width"] <= edge + 1
    assert (
        opened_page.execute_script("return arguments[0].getBoundingClientRect().x", name) == before
    )
    assert opened_page.execute_script(inside)


def test_nothing_that_a_table_is_given_runs(opened_page):
    assert opened_page.title.startswith("xnmt_bench")
    assert not opened_page.find_elements("css selector", "table img")
    assert not [e for e in opened_page.get_log("browser") if e["level"] == "SEVERE"]
