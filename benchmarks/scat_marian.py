"""Write the texts of SCAT as documents, and an untrained Marian to train on them.

    python benchmarks/scat_marian.py DIR --scat SCAT --pairs MULTI30K/train

`DIR/docs.tsv` has documents of two lines, the context and the current sentence, without tags.
`DIR/marian` is an untrained Marian, English to French, with `<brk>` among its pieces, which
`nmt=marian nmt.initial=DIR/marian` trains. The sentence pairs of `--pairs` (`.en` and `.fr`) are
documents of one line in the training split, so that the system reads sentences without a context
too.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.huggingface_models import add_separator, build_marian

SPLITS = "train", "valid", "test"
FILES = "context.en", "context.fr", "en", "fr"
LONGEST = 40  # words of a training text
PIECES, WIDTH = 2000, 128  # few pieces, since there are few texts
Line = tuple[str, str, int, str, str]  # split, document, place, source, target


def list_scat(folder: Path, longest: int) -> Iterator[Line]:
    """Yield the lines of SCAT's documents, in the order of its files."""
    for split in SPLITS:
        paths = (folder / f"highlighted.{split}.{name}.gz" for name in FILES)
        texts = [gzip.decompress(path.read_bytes()).decode().split("\n") for path in paths]
        for n, row in enumerate(zip(*texts, strict=True)):
            a, b, c, d = (" ".join(re.sub(r"</?\w+>", "", text).split()) for text in row)
            if split == "train" and max(len(text.split()) for text in (a, b, c, d)) > longest:
                continue
            for place, (source, target) in enumerate(((a, b), (c, d))):
                if source and target:
                    yield split, f"scat {n}", place, source, target


def list_pairs(path: str) -> Iterator[Line]:
    """Yield the lines of sentence pairs, each a document."""
    sides = (Path(f"{path}.{code}").read_text(encoding="utf-8").splitlines() for code in FILES[2:])
    for n, (source, target) in enumerate(zip(*sides, strict=True)):
        yield "train", f"pair {n}", 0, source, target


def main() -> None:
    """Write both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scat", type=Path, required=True, help="SCAT's folder")
    parser.add_argument("--pairs", nargs="*", default=[], help="texts without .en and .fr")
    parser.add_argument("--longest", type=int, default=LONGEST, help="words of a training text")
    arguments = parser.parse_args()
    lines = [*list_scat(arguments.scat, arguments.longest)]
    lines += [line for path in arguments.pairs for line in list_pairs(path)]
    texts = [[line[side] for line in lines if line[0] == "train"] for side in (3, 4)]
    model = build_marian(arguments.folder / "marian", texts, ("en", "fr"), PIECES, WIDTH, 256)[1]
    model.save_pretrained(arguments.folder / "marian")
    add_separator(arguments.folder / "marian")
    rows = ("\t".join(map(str, line)) for line in lines)
    (arguments.folder / "docs.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    print(f"{len(lines):,} lines")


if __name__ == "__main__":
    main()
