"""Size of the page on which sentences are read, and how long a browser takes with it.

    python benchmarks/debug_page.py

Sentences of 14 to 41 tokens a side, drawn by Zipf's law from 30,000 words, with peaked random
weights of four digits: newstest's length. Milliseconds are headless Chromium's own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from selenium import webdriver

SORTED_BY = ("confidence_pct", "overlap", "length_ratio")
SORT = "const at = performance.now(); change({sort: arguments[0]}); return performance.now() - at"
LISTED = "return document.querySelector('#rows [role=option]') && performance.now()"


def dump(path: Path, sentences: int) -> None:
    """Writes sentences with attention as JSON lines."""
    generator = np.random.default_rng(0)
    words = [f"{chr(97 + n % 26)}{'aeiou'[n % 5]}{n}" for n in range(30_000)]
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"form": "weights", "version": 1, "attention": True}) + "\n")
        for number in range(sentences):
            sizes = generator.integers(14, 42, 2)
            source, target = (
                [f"▁{words[int(n)]}" for n in generator.zipf(1.3, size) % len(words)]
                for size in sizes
            )
            weights = generator.dirichlet(np.full(sizes[0], 0.08), sizes[1]).round(4).tolist()
            told = {"number": number, "source": source, "target": target, "weights": weights}
            file.write(json.dumps(told) + "\n")


def opened() -> webdriver.Chrome:
    """Headless Chromium."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(argument)
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def main() -> None:
    """Prints the page's size, and milliseconds until it shows its list and for each sort."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=10_000)
    count = parser.parse_args().sentences
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dump(folder / "many.jsonl", count)
        command = [
            "metric=[confidence]", f"relevance.path={folder}/many.jsonl",
            "relevance.format=json_lines", f"store={folder}/store", f"results={folder}/results",
            f"hydra.run.dir={folder}/run",
        ]  # fmt: skip
        start = time.monotonic()
        evaluate = Path(__file__).parent.parent / "evaluate.py"
        subprocess.run([sys.executable, evaluate, *command], check=True, capture_output=True)
        print(f"{count} sentences, scored and written in {time.monotonic() - start:.0f} s")
        page = folder / "results" / "debug.html"
        print(f"page: {page.stat().st_size / 1e6:.1f} MB")
        browser = opened()
        browser.get(page.as_uri())
        while not (listed := browser.execute_script(LISTED)):
            time.sleep(0.01)
        print(f"list: {listed:.0f} ms")
        for column in SORTED_BY:
            print(f"sort by {column}: {browser.execute_script(SORT, column):.0f} ms")
        browser.quit()


if __name__ == "__main__":
    main()
