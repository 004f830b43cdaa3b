"""The site that `make docs` builds: its links, its classes, and what a browser makes of it."""

from __future__ import annotations

import inspect
import os
import re
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from support.browser import screen
from support.paths import ROOT

SITE = ROOT / "docs" / "site"
BUILT = "XNMT_BENCH_SITE"  # names the folder of a site that is built
sys.path.insert(0, str(SITE))

import build  # noqa: E402
import reference  # noqa: E402

# Elements that make a browser load their address; links wait for the reader.
LOADED = ("script", "link", "img", "iframe", "source", "video", "audio", "embed", "object")


class Page(HTMLParser):
    """What a page links to, its anchors, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.anchors: set[str] = set()
        self.words: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.links += [(tag, values[name]) for name in ("href", "src") if name in values]

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def site():
    """The site that `make docs` has built, which runs these tests on it."""
    if BUILT not in os.environ:
        pytest.skip("make docs checks the site that it builds")
    return ROOT / os.environ[BUILT]


@pytest.fixture(scope="module")
def pages(site):
    """Every page but 404.html, whose links are absolute: a server shows it in any folder."""
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_every_page_of_the_project_is_in_the_site(pages, site):
    expected = {place.replace(".md", ".html") for place in build.PLACES.values()}
    for path in (*(ROOT / "docs" / "guide").glob("*.md"), *(ROOT / "docs" / "recorded").glob("*")):
        if path.suffix == ".md":
            expected.add(path.relative_to(ROOT / "docs").with_suffix(".html").as_posix())
    expected |= {f"reference/{name}.html" for name in reference.PAGES}
    for path in (ROOT / "docs" / "recorded").glob("*/*.csv"):
        expected.add(path.relative_to(ROOT / "docs").as_posix())
    assert [name for name in sorted(expected) if not (site / name).is_file()] == []
    # Each page leads to each other one by the navigation.
    index = {target.removeprefix("./") for _, target in pages[site / "index.html"].links}
    assert {name for name in expected if name.endswith(".html")} - index <= {"index.html"}


def test_links_lead_somewhere(pages):
    lost = []
    for path, page in pages.items():
        for _, link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else {unquote(parts.fragment)}
            if not target.exists() or unquote(parts.fragment) not in anchors | {""}:
                lost.append(f"{path.name}: {link}")
    assert lost == []
    assert sum(len(page.links) for page in pages.values()) > 5000


def test_nothing_is_loaded_from_elsewhere(pages, site):
    remote = [
        link
        for page in pages.values()
        for tag, link in page.links
        if tag in LOADED and (urlsplit(link).scheme or urlsplit(link).netloc)
    ]
    assert set(remote) == set()
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", text), sheet


@pytest.mark.parametrize("name", reference.PAGES)
def test_classes_are_documented(name, pages, site):
    """zensical ignores a plug-in that it does not know, and the page would be empty."""
    page = pages[site / "reference" / f"{name}.html"]
    text = " ".join("".join(page.words).replace("*", "").split())
    objects = reference.objects(name)
    assert objects
    for full_name in objects:
        module, _, attribute = full_name.rpartition(".")
        documented = getattr(import_module(module), attribute)
        assert full_name in page.anchors
        first = inspect.getdoc(documented).splitlines()[0]
        # Markdown makes code of what stands in backticks, and stresses what stands in stars.
        assert " ".join(re.sub("[`*]", "", first).split()) in text, full_name


def test_every_entry_point_has_its_class():
    documented = {name for page in reference.PAGES for name in reference.objects(page)}
    for kind in reference.KINDS:
        for point in reference.entries(kind).values():
            if point.value.startswith(reference.OURS):
                cls = point.load()
                assert f"{cls.__module__}.{cls.__qualname__}" in documented


def test_links_of_a_page_are_written_anew():
    places = {ROOT / "docs" / "a.md": "deep/a.md", ROOT / "README.md": "index.md"}
    text = (
        "[a](docs/a.md#x), [`code` [b]](https://b.c), [no](setup.py), [here](#y)\n"
        "    [a](docs/a.md)\n```\n[a](docs/a.md)\n```\n[r](README.md)\n"
    )
    assert build.relink(text, ROOT / "README.md", "guide/index.md", places) == (
        "[a](../deep/a.md#x), [`code` [b]](https://b.c), no, [here](#y)\n"
        "    [a](docs/a.md)\n```\n[a](docs/a.md)\n```\n[r](../index.md)\n"
    )


def test_search_knows_every_page(pages, site):
    text = (site / "search.json").read_text(encoding="utf-8")
    names = [path.relative_to(site).as_posix() for path in pages]
    assert [name for name in names if f'"{name}' not in text] == []


@pytest.mark.parametrize(
    ("width", "scheme"), [(1400, "light"), pytest.param(390, "dark", marks=pytest.mark.long)]
)
def test_a_browser_shows_it_from_a_disk(site, browser, width, scheme):
    from selenium.webdriver.support.ui import WebDriverWait

    with screen(browser, width, scheme):
        # A scheme that an earlier page chose is remembered.
        browser.get((site / "index.html").as_uri())
        browser.execute_script("localStorage.clear()")
        for name in ("guide/plugins", "recorded/trial", "reference/explainers", "index"):
            browser.get((site / f"{name}.html").as_uri())
            wide = browser.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, name
            colour = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g)"
            bright = sum(map(int, browser.execute_script(colour)[:3])) > 600
            assert bright == (scheme == "light"), name
        search(browser, "index.html", site, "attention")
        WebDriverWait(browser, 60).until(
            lambda d: re.search(r"\d+ results.*Attention over coreference", d.execute_script(SHOWN))
        )


# Search lives in a tree of its own, behind a shadow root.
DIALOG = "[...document.querySelectorAll('*')].map((e) => e.shadowRoot).find(Boolean)"
SHOWN = f"return {DIALOG}.textContent"
FOUND = f"return [...{DIALOG}.querySelectorAll('a')].map((link) => link.getAttribute('href'))"


def search(browser, name, site, words):
    """Opens a page and types words into its search."""
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get((site / name).as_uri())
    browser.execute_script("document.querySelector('button.md-search__button').click()")
    field = f"return {DIALOG}?.querySelector('input')"
    WebDriverWait(browser, 60).until(lambda d: d.execute_script(field)).send_keys(words)


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("LaTeX", "guide/"),
        ("p-value", "guide/numbers.html?h=#the-p-value"),
        ("rule", "guide/numbers.html?h=#the-rule"),
        ("seed", "guide/numbers.html?h=#which-seed-decides-what"),
    ],
)
def test_search_leads_to_the_page_that_explains_a_word(site, browser, words, place):
    """Among the first three results."""
    from selenium.webdriver.support.ui import WebDriverWait

    search(browser, "index.html", site, words)
    WebDriverWait(browser, 60).until(
        lambda d: any(place in link for link in d.execute_script(FOUND)[:3]), place
    )
