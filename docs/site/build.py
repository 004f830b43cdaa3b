"""Builds the site: `make docs`. The pages of the project, its classes, pictures and notebooks.

Pages are gathered in `build/pages`, where links between them are written anew; zensical makes the
site of them in `build/site`. The site needs no network and no server.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import reference

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# Pages outside docs/, and where they stand in the site. All others keep their place in docs/.
PLACES = {
    "README.md": "index.md",
    "docs/README.md": "pages.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "CITATION.cff": "CITATION.cff",
    "LICENSE": "LICENSE.txt",
    "xnmt_bench/systems/tatoeba_de_en/README.md": "weights/tatoeba_de_en.md",
    "xnmt_bench/resolvers/learnt/README.md": "weights/resolver.md",
}
LINK = re.compile(r"(?<!\\)(?P<text>\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<target>[^)\s]+)\)")
WRITTEN = (".md", ".png", ".svg", ".csv")
# zensical takes this script from another host. Ours does the same for a site on a disk.
SHIM = re.compile(r'<script src="https://unpkg\.com/iframe-worker/shim"[^>]*></script>')


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the site."""
    parser = argparse.ArgumentParser(description="Build the site.")
    parser.add_argument("--out", type=Path, default=ROOT / "build", help="holds pages/ and site/")
    parser.add_argument(
        "--fast", action="store_true", help="without pictures and notebooks, which need a model"
    )
    options = parser.parse_args(arguments)
    out = options.out.resolve()
    pages = out / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.rmtree(out / "site", ignore_errors=True)
    sections = gather(pages, with_notebooks=not options.fast)
    sections["Classes"] = reference.write(pages / "reference")
    if not options.fast:
        import gallery  # they import torch
        import notebooks

        sections["Pictures"] = [gallery.write(pages / "gallery")]
        sections["Notebooks"] = notebooks.write(DOCS / "notebooks", pages / "notebooks")
    configure(out, {title: names for title, names in sections.items() if names})
    render(out)
    print(f"written: {out / 'site' / 'index.html'}")


def gather(pages: Path, with_notebooks: bool) -> dict[str, list[str]]:
    """Copy every page, picture and table into a folder, links written anew.

    Args:
        pages: the folder.
        with_notebooks: whether links to notebooks lead somewhere; else they become plain text.

    Returns:
        The pages of each section of the navigation.
    """
    places = {ROOT / source: place for source, place in PLACES.items()}
    for path in sorted(p for p in DOCS.rglob("*") if p.suffix in WRITTEN):
        places.setdefault(path, path.relative_to(DOCS).as_posix())
    # Notebooks are run, and their pages are made from what came out.
    run = {path for path, place in places.items() if place.startswith("notebooks/")}
    if not with_notebooks:
        places = {path: place for path, place in places.items() if path not in run}
    for path, place in places.items():
        if path in run:
            continue
        target = pages / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = relink(path.read_text(encoding="utf-8"), path, place, places)
            target.write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(path, target)
    for name in ("style.css", "worker.js"):
        shutil.copyfile(Path(__file__).parent / name, pages / name)
    listed = [place for path in linked(DOCS / "README.md") if (place := places.get(path))]
    inside = {p for path, p in places.items() if p.endswith(".md") and path not in run}
    sections: dict[str, list[str]] = {"Start": ["index.md", "pages.md"]}
    for title, folder in (("Guide", "guide/"), ("Recorded", "recorded/"), ("Weights", "weights/")):
        # In the order of the overview; what it does not name stands behind.
        named = [place for place in listed if place.startswith(folder)]
        unnamed = sorted(place for place in inside if place.startswith(folder))
        sections[title] = list(dict.fromkeys([*named, *unnamed]))
    sections["Project"] = ["contributing.md", "changelog.md"]
    return sections


def linked(page: Path) -> Iterator[Path]:
    """Yield the files that a page links to."""
    for match in LINK.finditer(page.read_text(encoding="utf-8")):
        if "://" not in match["target"]:
            yield (page.parent / match["target"].partition("#")[0]).resolve()


def relink(text: str, path: Path, place: str, places: dict[Path, str]) -> str:
    """Return a page's text with its links leading to the places of the site.

    A link to something other than a page, such as a folder of the source, becomes plain text.

    Args:
        text: of the page.
        path: where it lies.
        place: where it stands in the site.
        places: of every page.
    """

    def rewrite(match: re.Match[str]) -> str:
        target, hash_, anchor = match["target"].partition("#")
        if "://" in target or not target:
            return match[0]
        file = (path.parent / target).resolve()
        if file not in places:
            return match["text"][1:-1]
        relative = os.path.relpath(places[file], Path(place).parent).replace(os.sep, "/")
        return f"{match['text']}({relative}{hash_}{anchor})"

    return "".join(
        part if is_code else LINK.sub(rewrite, part) for is_code, part in split_code(text)
    )


def split_code(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts of a page, and whether each is a block of code."""
    part, was_code, fenced = list[str](), False, False
    for line in text.splitlines(keepends=True):
        fence = line.lstrip().startswith("```")
        is_code = fenced or fence or line.startswith("    ")
        if is_code != was_code:
            yield was_code, "".join(part)
            part = []
        part.append(line)
        was_code = is_code
        fenced ^= fence
    yield was_code, "".join(part)


def configure(out: Path, sections: dict[str, list[str]]) -> None:
    """Write the configuration of zensical: the fixed part, and the navigation."""
    # A JSON text, and a list of them, are the same in TOML.
    entries = [f"  {{ {json.dumps(t)} = {json.dumps(names)} }}" for t, names in sections.items()]
    fixed = (Path(__file__).parent / "zensical.toml").read_text(encoding="utf-8")
    head, tail = fixed.split("# NAVIGATION\n")
    (out / "zensical.toml").write_text(
        head + "nav = [\n" + ",\n".join(entries) + "\n]\n" + tail.replace("ROOT", ROOT.as_posix()),
        encoding="utf-8",
    )


def render(out: Path) -> None:
    """Let zensical make the site, and take out what it would load from elsewhere.

    Raises:
        SystemExit: it failed; what it said is printed.
    """
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "zensical",
            "build",
            "--clean",
            "--strict",
            "-f",
            out / "zensical.toml",
        ],
        cwd=out,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    site = out / "site"
    for page in site.rglob("*.html"):
        worker = os.path.relpath(site / "worker.js", page.parent).replace(os.sep, "/")
        text = page.read_text(encoding="utf-8")
        page.write_text(SHIM.sub(f'<script src="{worker}"></script>', text), encoding="utf-8")


if __name__ == "__main__":
    main()
