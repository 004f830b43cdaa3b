"""The page on which translations are read: what it holds, and a reader in a browser."""

import base64
import csv
import gzip
import json
import math
import re
import struct
import time
import xml.etree.ElementTree as ElementTree
from urllib.parse import urlencode

import numpy as np
import pytest

from support.browser import assert_readable
from support.debug_page_reader import read_listings
from support.forked_commands import must_run
from xnmt_bench.measuring.listing import Listing, Matrix, Synonyms, TokenScores
from xnmt_bench.report.debug import write_debug_page
from xnmt_bench.words import Tokens

KIND = "translations"
HOSTILE = [
    "</script><b>",
    "<img",
    "src=x",
    "onerror=alert(1)>",
    "a\u2028b",
    "שלום",
    "👩‍👩‍👧",
    "e\u0301",
]
SENTENCES = 60


def sentence(rng, number, other):
    """A translation in pieces; every seventh's source is made of what breaks careless pages."""
    drawn = np.random.default_rng(number)  # both systems have the same sources
    words = [f"▁w{n}" for n in drawn.integers(0, 50, drawn.integers(3, 12))]
    source = [*HOSTILE, "▁end"] if number % 7 == 3 else words
    if other and number == 5:
        source = [*source, "▁more"]  # of another source than the first system's
    target = [f"▁t{n}" for n in rng.integers(0, 50, rng.integers(2, 12))]
    if number == 9:
        target = list(source)
    if len(target) > 3:
        target[2] = target[2].removeprefix("▁")  # goes on the word before it
    # Peaked weights, as trained systems have them.
    weights = rng.dirichlet(np.full(len(source) + 1, 0.2), len(target) + 1)
    log_p = np.log(rng.uniform(0.05, 1, len(target) + 1))
    return {
        "number": number, "source": [*source, "</s>"], "target": [*target, "</s>"],
        "weights": weights.tolist(), "log_probabilities": log_p.tolist(),
    }  # fmt: skip


def dump(path, seed, sentences=SENTENCES):
    rng = np.random.default_rng(seed)
    head = {"form": "weights", "version": 1, "attention": True}
    sentence_dumps = [sentence(rng, n, other=seed > 0) for n in range(sentences)]
    path.write_text("\n".join(map(json.dumps, [head, *sentence_dumps])) + "\n", encoding="utf-8")
    return sentence_dumps


@pytest.fixture(scope="module")
def written_page(tmp_path_factory):
    """Two systems' dumps, and what the command made of them."""
    folder = tmp_path_factory.mktemp("debug")
    sentences_of = {}
    for seed, name in enumerate(("one", "two")):
        sentences_of[name] = dump(folder / f"{name}.jsonl", seed)
        reference = folder / f"{name}.txt"
        reference.write_text("t1 t2 t3\n" * SENTENCES)
        must_run(
            "evaluate.py", "metric=[confidence]", f"relevance.path={folder}/{name}.jsonl",
            "relevance.format=json_lines", f"relevance.reference={reference}",
            f"store={folder}/store", f"results={folder}/results", f"hydra.run.dir={folder}/run",
        )  # fmt: skip
    return folder / "results", sentences_of


@pytest.fixture(scope="module")
def rows(written_page):
    """The rows of the CSV, by system and sentence."""
    with (written_page[0] / "confidence_sentences.csv").open(newline="", encoding="utf-8") as file:
        return {(r["nmt"], int(r["sentence"])): r for r in csv.DictReader(file)}


def number(text):
    return float(text) if text else math.nan


def same(first, two):
    return first == two or (math.isnan(first) and math.isnan(two))


def test_every_number_is_the_csvs_to_the_last_digit(written_page, rows):
    listings = read_listings(written_page[0] / "debug.html")
    assert [listing["kind"] for listing in listings] == [KIND, KIND]
    for name, listing in zip(("one", "two"), listings, strict=True):
        assert name in listing["name"]
        assert len(listing["columns"]) > 20
        for column in listing["columns"]:
            for n, value in zip(listing["numbers"], listing["values"][column], strict=True):
                assert same(number(rows[f"{name}.jsonl", n][column]), value), column


def test_weights_are_rounded_down_and_token_scores_come_from_the_full_ones(written_page):
    results, sentences_of = written_page
    for name, listing in zip(("one", "two"), read_listings(results / "debug.html"), strict=True):
        for dumped, shown in zip(sentences_of[name], listing["shown"], strict=True):
            weights_TS = np.array(dumped["weights"])
            assert shown["rows"] == dumped["target"]
            assert shown["columns"] == dumped["source"]
            # Seven digits are kept of a weight.
            assert np.abs(shown["levels"] - np.floor(250 * weights_TS + 1e-5)).max() <= 1
            assert (shown["levels"] == np.floor(250 * weights_TS + 1e-5)).mean() > 0.999
            probability = 100 * np.exp(dumped["log_probabilities"])
            assert np.abs(shown["pieces"]["P"] - probability).max() <= 0.5001
            cdp = 100 * np.exp(-(np.log1p((1 - weights_TS.sum(0)) ** 2) ** 2))
            assert np.abs(shown["pieces"]["CDP"] - cdp).max() <= 0.5001
            logs = np.log(np.where(weights_TS > 0, weights_TS, 1))
            ap_out = 100 * np.exp(-0.05 * (weights_TS * logs).sum(1) ** 2)
            assert np.abs(shown["pieces"]["APout"] - ap_out).max() <= 0.5001


class Reader:
    """What a person does on the page."""

    def __init__(self, browser, page, downloads):
        self.browser, self.page, self.downloads = browser, page, downloads
        parameters = {"behavior": "allow", "downloadPath": str(downloads)}
        browser.execute_cdp_cmd("Browser.setDownloadBehavior", parameters)

    def open(self, **chosen):
        self.browser.get("about:blank")
        self.browser.get(f"{self.page.as_uri()}#{urlencode(chosen)}")
        for _ in range(100):
            if self.all("#rows [role=option]") or not self.js("return !!document.body"):
                return self
            time.sleep(0.05)
        return self

    def js(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def one(self, selector):
        [element] = self.all(selector)
        return element

    def press(self, *keys):
        for key in keys:
            self.one("body").send_keys(key)

    def choose(self, name, value):
        from selenium.webdriver.support.ui import Select

        Select(self.one(f"#{name}")).select_by_value(value)

    @property
    def order(self):
        """The sentences of the whole list, from the top."""
        return self.js("return places.map((place) => listing().numbers[place])")

    @property
    def sentence(self):
        return int(self.one("#which").text.split()[1])

    @property
    def values(self):
        """The numbers of the sentence that is read."""
        cells = self.all("#scores tr[data-column]")
        return {
            row.get_attribute("data-column"): [
                float(cell.get_attribute("data-value"))
                for cell in row.find_elements("css selector", "td")
            ]
            for row in cells
        }

    def saved(self, button, ending):
        before = set(self.downloads.iterdir())
        self.one(button).click()
        for _ in range(100):
            new = [p for p in set(self.downloads.iterdir()) - before if p.suffix == ending]
            if new:
                return new[0]
            time.sleep(0.05)
        raise AssertionError(f"nothing was saved by {button}")


@pytest.fixture(scope="module")
def reader(written_page, browser, tmp_path_factory):
    browser.set_window_size(1280, 900)
    return Reader(browser, written_page[0] / "debug.html", tmp_path_factory.mktemp("downloads"))


ONE, TWO = (f"{KIND}: attention, {name}.jsonl" for name in ("one", "two"))


def ordered(rows, name, column, down):
    """As the CSV has them, what has no number last, equal ones in their order."""
    values = {n: number(row[column]) for (nmt, n), row in rows.items() if nmt == name}
    with_value = sorted(n for n, value in values.items() if not math.isnan(value))
    with_value.sort(key=lambda n: -values[n] if down else values[n])
    return with_value + sorted(n for n, value in values.items() if math.isnan(value))


@pytest.mark.long
def test_the_list_is_sorted_by_every_score(reader, rows):
    reader.open()
    columns = reader.js("return listing().columns")
    assert "confidence_pct" in columns
    for column in columns:
        reader.choose("sort", column)
        assert reader.order == ordered(rows, "one.jsonl", column, down=False)
    reader.choose("sort", "chrf")
    reader.one("#down").click()
    assert reader.order == ordered(rows, "one.jsonl", "chrf", down=True)
    shown = [line.get_attribute("data-number") for line in reader.all("#rows [role=option]")]
    assert list(map(int, shown[:10])) == reader.order[:10]


def test_what_is_shown_of_a_sentence_is_its_row(reader, rows):
    for chosen in (0, 3, 9):
        reader.open(sentence=chosen)
        assert reader.sentence == chosen
        row = rows["one.jsonl", chosen]
        values = reader.values
        columns = reader.js("return listing().columns")
        assert set(values) == {c for c in columns if not math.isnan(number(row[c]))}
        assert all(cells == [number(row[name])] for name, cells in values.items())
        texts = {e.get_attribute("data-text"): e.text for e in reader.all("#texts dd")}
        for heading, column in (("source", "source"), ("translation", "target"),
                                ("reference", "reference")):  # fmt: skip
            assert texts[heading].split() == row[column].split()
    underlined = reader.one("#texts dd[data-text=translation] u").text
    assert underlined.split() == row["copied"].split() != []


def test_filter_search_and_lists_narrow_the_list(reader, written_page, rows):
    reader.open()
    reader.choose("column", "confidence_pct")
    reader.one("#to").send_keys("60.5")
    low = {
        n
        for (nmt, n), r in rows.items()
        if nmt == "one.jsonl" and number(r["confidence_pct"]) <= 60.5
    }
    assert set(reader.order) == low
    reader.open(find="w7")
    with_w7 = {n for (nmt, n), r in rows.items() if nmt == "one.jsonl" and "w7" in r["source"]}
    assert set(reader.order) == with_w7 != set()
    with (written_page[0] / "confidence_lists.csv").open(newline="", encoding="utf-8") as file:
        listed = [r for r in csv.DictReader(file) if r["nmt"] == "one.jsonl"]
    assert listed
    for name in {r["list"] for r in listed}:
        reader.open(list=name)
        expected = {int(r["sentence"]) for r in listed if r["list"] == name}
        assert set(reader.order) == expected
        [rule] = {r["rule"] for r in listed if r["list"] == name}
        assert reader.one("#said").text == f"{len(expected)} of {SENTENCES}. {name}: {rule}"
        assert f"{name} ({len(expected)})" in reader.one("#list").text


def test_keys_alone_are_enough(reader):
    from selenium.webdriver.common.keys import Keys

    reader.open()
    reader.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert reader.sentence == 2
    reader.press(Keys.ARROW_UP)
    assert reader.sentence == 1
    reader.press(Keys.END)
    assert reader.sentence == SENTENCES - 1
    assert reader.one("#rows [aria-selected=true]").get_attribute("data-number") == str(
        SENTENCES - 1
    )
    reader.press(Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    matrix = reader.js("return listing().matrix(place(), false)")
    assert matrix["rows"][1]["text"] in reader.one("#decision").text
    reader.press("m")
    assert reader.all("#drawn path")
    reader.press("w")
    assert reader.js("return inWords()")
    reader.press("+", "+", "-")
    assert reader.one("#cutSaid").text == "2 %"
    reader.press("e")
    assert reader.one("#listing").get_attribute("value") == TWO
    reader.press("c")
    assert reader.one("#other").get_attribute("value") == ONE
    reader.press("e")  # who stood beside it changes places with it
    assert reader.one("#listing").get_attribute("value") == ONE
    assert reader.one("#other").get_attribute("value") == TWO
    reader.press("/")
    reader.browser.switch_to.active_element.send_keys("w7", Keys.ESCAPE)
    assert 0 < len(reader.order) < SENTENCES
    reader.press("?")
    assert reader.one("#help").is_displayed()
    assert reader.one("#keyList").text.count("\n") > 20


@pytest.mark.parametrize("view", ["matrix", "lines"])
@pytest.mark.parametrize("cut", [0, 0.06, 0.5])
def test_the_cut_off_is_exact(reader, written_page, view, cut):
    dumped = written_page[1]["one"][4]
    reader.open(sentence=4, view=view, cut=cut)
    drawn = [float(e.get_attribute("data-weight")) for e in reader.all("#drawn [data-weight]")]
    weights = np.array(dumped["weights"])
    least = max(cut, 1 / 250)  # of less there is nothing to be seen
    assert len(drawn) == (weights >= least - 1e-7).sum()
    expected = np.sort(weights[weights >= least - 1e-7])
    assert np.sort(drawn) == pytest.approx(expected, abs=1 / 250 + 1e-6)


def test_words_are_sums_over_the_source_and_means_over_the_translation(reader, written_page):
    place = next(
        n for n, s in enumerate(written_page[1]["one"]) if len(s["target"]) > 5 and n % 7 != 3
    )
    dumped = written_page[1]["one"][place]
    reader.open(sentence=place, unit="words")
    shown = reader.js("return listing().matrix(place(), true)")
    weights = np.array(dumped["weights"])
    merged = np.concatenate([weights[:1], weights[1:3].mean(0, keepdims=True), weights[3:]])
    assert np.array(shown["weights"]) == pytest.approx(merged, abs=1 / 250 + 1e-6)
    assert shown["rows"][1]["text"] == (dumped["target"][1] + dumped["target"][2]).replace("▁", "")


def test_two_systems_are_compared(reader, rows, written_page):
    reader.open(other=TWO, sort="difference:confidence_pct", down="true", view="lines")
    differences = {
        n: number(rows["one.jsonl", n]["confidence_pct"])
        - number(rows["two.jsonl", n]["confidence_pct"])
        for n in range(SENTENCES)
    }
    assert reader.order == sorted(differences, key=lambda n: -differences[n])
    first = reader.sentence
    values = reader.values
    expected = [number(rows[f"{name}.jsonl", first]["chrf"]) for name in ("one", "two")]
    assert values["chrf"] == [*expected, expected[0] - expected[1]]
    # One row of source tokens between the two translations.
    assert len(reader.all("#drawn [data-column]")) == len(written_page[1]["one"][first]["source"])
    strokes = {e.get_attribute("stroke") for e in reader.all("#drawn g[stroke]")}
    assert len(strokes) == 2
    assert len(reader.all("#drawn g[stroke-dasharray]")) == 1
    reader.choose("list", "other sources")
    assert reader.order == [5]
    assert reader.one("#differs").is_displayed()
    texts = [e.text for e in reader.all("#texts dd[data-text=source]")]
    assert len(texts) == 2
    assert texts[1] == f"{texts[0]} more"


def test_synonyms_are_strong_links_of_one_source_word_to_other_words(reader, written_page):
    reader.open(other=TWO, list="synonyms")
    sentences_of = written_page[1]

    def links(name, place):
        dumped = sentences_of[name][place]
        weights = np.array(dumped["weights"])
        target = dumped["target"]
        goes_on = [n for n, t in enumerate(target) if n and not t.startswith("▁") and t != "</s>"]
        if "▁end" in dumped["source"]:
            return None  # pieces of one word: left to the page
        if goes_on and goes_on != [2]:
            return None
        rows = [[n] for n in range(len(target) - 1) if n not in goes_on]
        if goes_on:
            rows[1].append(2)
        link_lists = {}
        for row in rows:
            mean = weights[row].mean(0)
            shares = mean / mean.sum()
            score = 100 * math.exp(
                -0.05 * (shares * np.log(np.where(shares > 0, shares, 1))).sum() ** 2
            )
            for s in np.flatnonzero(mean[:-1] >= 0.5):
                link_lists.setdefault(int(s), []).append(("".join(target[n] for n in row), score))
        return link_lists

    expected = set()
    judged = set()
    for place in range(SENTENCES):
        links_of_first, two = links("one", place), links("two", place)
        if links_of_first is None or two is None:
            continue
        judged.add(place)
        if sentences_of["one"][place]["source"] == sentences_of["two"][place]["source"] and any(
            a != b and abs(p - q) <= 10
            for s in links_of_first.keys() & two.keys()
            for a, p in links_of_first[s]
            for b, q in two[s]
        ):
            expected.add(place)
    assert len(expected) > 3
    assert set(reader.order) & judged == expected
    assert "50%" in reader.one("#said").text


def test_a_link_leads_to_what_was_seen(reader):
    reader.open(
        other=TWO, sort="chrf", down="true", sentence=12, view="lines", unit="words", cut=0.1
    )
    time.sleep(0.3)  # the address follows a moment later
    address = reader.browser.current_url
    before = (reader.order, reader.sentence, reader.one("#drawn").get_attribute("innerHTML"))
    reader.browser.get("about:blank")
    reader.browser.get(address)
    time.sleep(0.5)
    assert (
        reader.order,
        reader.sentence,
        reader.one("#drawn").get_attribute("innerHTML"),
    ) == before
    reader.one("#next").click()
    time.sleep(0.3)
    assert f"sentence={reader.sentence}" in reader.browser.current_url
    assert reader.sentence == before[0][before[0].index(12) + 1]


def test_a_link_to_the_end_of_the_list_shows_it_there(reader):
    reader.open(sentence=SENTENCES - 2)
    chosen = reader.one("#rows [aria-selected=true]")
    assert chosen.get_attribute("data-number") == str(SENTENCES - 2)
    assert reader.js("return document.querySelector('#rows').scrollTop") > 0
    active = reader.one("#rows").get_attribute("aria-activedescendant")
    assert chosen.get_attribute("id") == active
    reader.open(sentence=3, find="t1 ")
    if 3 not in reader.order:
        assert reader.one("#where").text == "not in this list"


@pytest.mark.long
def test_what_a_layer_does_not_have_is_not_asked_of_it(reader):
    reader.open(sort="nonsense", column="nonsense", to="3", list="nonsense", other="nobody")
    assert reader.order == list(range(SENTENCES))
    assert reader.one("#sort").get_attribute("value") == "sentence"
    reader.open(other=TWO, sort="difference:chrf")
    reader.choose("other", "")
    assert reader.one("#sort").get_attribute("value") == "sentence"
    assert reader.order == list(range(SENTENCES))
    reader.open(find="nowhere at all")
    assert reader.order == []
    assert not reader.all("#rows [role=option]")
    reader.open(sentence=4, cut=0.05, view="lines")
    assert reader.one("#cutSaid").text in ("4 %", "6 %")


def test_a_bar_leads_to_its_sentence(reader):
    from selenium.webdriver import ActionChains

    reader.open(sort="confidence_pct")
    chart = reader.one("#charts figure[data-column=chrf] canvas")
    width = chart.size["width"]
    target_place = 17
    x = (target_place + 0.5) * width / SENTENCES - width / 2
    ActionChains(reader.browser).move_to_element_with_offset(chart, int(x), 0).click().perform()
    assert reader.sentence == reader.order[target_place]


def test_what_is_saved_is_what_is_shown(reader, rows):
    reader.open(sort="confidence_pct", find="w1", view="matrix", sentence=14)
    order = reader.order
    path = reader.saved("#tsv", ".tsv")
    with path.open(newline="", encoding="utf-8") as file:
        saved = list(csv.DictReader(file, delimiter="\t"))
    assert [int(row["sentence"]) for row in saved] == order
    for row in saved:
        expected = rows["one.jsonl", int(row["sentence"])]
        assert row["source"] == expected["source"]
        assert row["translation"] == expected["target"]
        for column in reader.js("return listing().columns"):
            assert same(number(row[column]), number(expected[column]))
    reader.open(sentence=3)  # with markup in its tokens
    drawn = ElementTree.parse(reader.saved("#svg", ".svg")).getroot()
    assert drawn.tag.endswith("}svg")
    texts = [e.text for e in drawn.iter() if e.tag.endswith("}text") or e.tag.endswith("}title")]
    assert any("onerror" in (text or "") for text in texts)
    image = reader.saved("#png", ".png").read_bytes()
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(image[n : n + 4], "big") for n in (16, 20))
    assert (width, height) == (2 * int(drawn.get("width")), 2 * int(drawn.get("height")))


def test_nothing_that_it_is_given_runs(reader):
    for view in ("matrix", "lines"):
        reader.open(sentence=3, view=view, other=TWO)
        assert not reader.all("img")
        assert not reader.all("#page b")
        assert "</script><b>" in reader.one("#texts").text
        assert "שלום" in reader.one("#drawn").text
    assert not [e for e in reader.browser.get_log("browser") if e["level"] == "SEVERE"]


@pytest.mark.parametrize("view", ["matrix", "lines"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_two_systems_are_whole_and_dark_enough_on_a_phone(reader, view, scheme):
    address = "#" + urlencode({"other": TWO, "view": view, "sentence": 4, "step": 1})
    assert_readable(reader.browser, reader.page, 390, scheme, address)


def test_it_follows_dark_mode(reader):
    reader.open(other=TWO)
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    light = reader.js("return getComputedStyle(document.body).backgroundColor")
    reader.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    try:
        assert reader.js("return getComputedStyle(document.body).backgroundColor") != light
        assert reader.js("return look().a") != "#0072B2"
    finally:
        reader.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_browser_that_cannot_unpack_is_told_so(reader):
    script = {"source": "delete window.DecompressionStream"}
    added = reader.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", script)
    try:
        reader.browser.get("about:blank")
        reader.browser.get(reader.page.as_uri())
        time.sleep(0.3)
        assert "no DecompressionStream" in reader.one("#state").text
    finally:
        reader.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def test_the_page_needs_nothing_else(written_page):
    page = (written_page[0] / "debug.html").read_text(encoding="utf-8")
    assert not re.findall(r"(?:src|href)=\"(?!report\.html)", page)
    assert "https://" not in page
    assert 'href="debug.html"' in (written_page[0] / "report.html").read_text(encoding="utf-8")


def tokens(*words):
    return Tokens.of(words, eos=False)


def test_scores_that_do_not_fit_their_tokens_are_left_out(tmp_path, caplog):
    """The page counts bytes: a missing one would move all that stand behind it."""
    matrices = {
        n: Matrix(tokens("▁x"), tokens("▁a"), np.array([[0.5]]), scores=TokenScores({"s": scores}))
        for n, scores in ((1, np.array([50.0])), (2, np.array([50.0, 60.0])))
    }
    texts = {"source": ["a", "b"], "translation": ["x", "y"]}
    listing = Listing("translations", "first", "", [1, 2], texts, {}, matrices=matrices.items)
    write_debug_page([listing], tmp_path)
    assert "no heatmap of sentence 2: s of the rows: 2 scores for 1 tokens" in caplog.text
    page = (tmp_path / "debug.html").read_text(encoding="utf-8")
    data = re.search(r'application/octet-stream">(.*?)</script>', page, re.DOTALL)[1]
    content = gzip.decompress(base64.b64decode(data))
    [size] = struct.unpack("<I", content[:4])
    [described] = json.loads(content[4 : 4 + size])["listings"]
    assert [matrix is None for matrix in described["matrices"]] == [False, True]


@pytest.fixture(scope="module")
def odd(browser, tmp_path_factory):
    """Listings of several kinds, with what is at the edge of each."""
    single, none = Tokens.of(["▁a"], eos=True), tokens()
    synonym = Synonyms("rule", 10.0)
    strong = {"links": [(0, 0, 90.0)]}
    plain = {
        7: Matrix(tokens("▁x"), tokens("▁a"), np.array([[0.9]]), **strong),
        8: Matrix(none, tokens("▁a"), np.zeros((0, 1))),
        9: Matrix(tokens("▁x\x01"), tokens("▁a"), np.array([[0.0]])),
    }
    with_eos = {7: Matrix(tokens("▁y"), single, np.array([[0.9, 0.1]]), **strong)}
    texts = {"source": ["a"] * 4, "translation": ["x", "", "x\x01", "no matrix"]}
    numbers = {"score": np.array([1.0, np.nan, 3.0, 2.0]), "nothing": np.full(4, np.nan)}
    framed = Matrix(
        tokens("he"), tokens("man", "it"), np.array([[0.25, np.nan]]), sources=1, framed=[(0, 0)]
    )
    listings = [
        Listing("translations", "first", "", [7, 8, 9, 10], texts, numbers, ["score"],
              matrices=plain.items, words=True, synonyms=synonym),
        Listing("translations", "second", "", [7], {"source": ["a"], "translation": ["y"]},
              {"other": np.array([5.0])}, matrices=with_eos.items, words=True, synonyms=synonym),
        Listing("groups", "first", "", [0], {"source": ["s"]}, {"margin": np.array([-1.5])},
              choices_U=[[("true one", -3.0), ("<b>wrong</b>", -1.5), ("none", np.nan)]]),
        Listing("links", "first", "", [0], {"current": ["he"]}, {}, matrices={0: framed}.items),
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("odd")
    return Reader(browser, write_debug_page(listings, folder), folder)


def test_entries_without_weights_without_words_and_without_scores(odd):
    odd.open(sort="score")
    assert odd.order == [7, 10, 9, 8]
    for number, drawn in ((7, True), (8, False), (9, True), (10, False)):
        odd.open(sentence=number, view="lines")
        assert odd.one("#figure").is_displayed() == drawn
    odd.open(sentence=9)
    ElementTree.parse(odd.saved("#svg", ".svg"))  # XML forbids a control character
    odd.open(sentence=7, other="translations: second", list="synonyms")
    assert odd.order == [7]  # also where one of the two writes EOS down
    assert set(odd.values) == {"score", "other"}
    assert not [e for e in odd.browser.get_log("browser") if e["level"] == "SEVERE"]


def test_variants_and_frames_are_shown(odd):
    odd.open(listing="groups: first")
    rows = [row.text for row in odd.all("#choices tr")]
    assert rows == ["variant first", "true one (true) -3", "<b>wrong</b> -1.500 ◀", "none –"]
    assert not odd.one("#figure").is_displayed()
    assert not odd.one("#other").is_enabled()
    odd.open(listing="links: first")
    assert len(odd.all("#drawn rect[stroke-width='3']")) == 1
    [cell] = odd.all("#drawn [data-weight]")
    assert float(cell.get_attribute("data-weight")) == pytest.approx(0.25, abs=1 / 250)
    assert odd.one("#drawn text[data-row]").get_attribute("font-weight") == "700"


def test_where_nothing_can_be_read_there_is_no_page(tmp_path):
    (tmp_path / "debug.html").write_text("of an older report")
    assert write_debug_page([], tmp_path) is None
    assert not (tmp_path / "debug.html").exists()
