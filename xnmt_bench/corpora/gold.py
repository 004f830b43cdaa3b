"""A corpus whose test split is a set of sentence pairs with gold word alignment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from xnmt_bench.corpora.formats.alignment import AlignmentFile, Form
from xnmt_bench.corpora.sentence import Corpus, Gold, Sentence, Split
from xnmt_bench.corpora.text import present, text_lines, visible
from xnmt_bench.corpora.tokens import BLANKS, split_words
from xnmt_bench.corpora.view import CorpusView
from xnmt_bench.errors import DataError
from xnmt_bench.options import Text
from xnmt_bench.store import file_hash

BETWEEN_SIDES = " ||| "  # of a file that holds both


def read_pairs(paths: Sequence[Path]) -> list[tuple[str, str]]:
    """Return sentence pairs from two line-aligned files, or from one of `source ||| target` lines.

    Raises:
        DataError: unequal lengths, an empty side or a line without a separator, with file and line.
    """
    if len(paths) == 1:
        pairs = []
        for number, text in text_lines(paths[0]):
            source, _, target = text.partition(BETWEEN_SIDES)
            # Without a separator the target is empty; a second one would be a word of it.
            if not (visible(source) and visible(target)) or BETWEEN_SIDES in target:
                problem = "expected `source words ||| target words`"
                raise DataError(paths[0], number, problem)
            pairs.append((source.strip(BLANKS), target.strip(BLANKS)))
        return pairs
    sides = [[text.strip(BLANKS) for _, text in text_lines(path)] for path in paths]
    # The shorter file is named, since that is where lines are missing.
    (short, path), (longer, _) = sorted(zip(map(len, sides), paths, strict=True))
    if short != longer:
        raise DataError(
            path, short, f"the file ends here, but the other language has {longer} lines"
        )
    for path, side in zip(paths, sides, strict=True):
        for number, text in enumerate(side, start=1):
            if not visible(text):
                raise DataError(path, number, "an empty line, so a side of the pair has no words")
    return list(zip(*sides, strict=True))


class GoldCorpus(CorpusView):
    """Trains and validates on another corpus, tests on gold-aligned pairs.

    The gold counts words between blanks, so the other corpus should be tokenised alike. Of its
    training pairs those are left out whose source or target is a gold pair's, which would test what
    was learnt by heart.

    Args:
        training: where the training and validation splits come from.
        text: two line-aligned files, source and target, or one of `source ||| target` lines.
        links: the alignment file.
        base: what its words are counted from.
        form: `pharaoh` (talp's `ipj` included) or `naacl`.
        reverse: the target side stands first in it.
        name: the corpus's name in results.

    Raises (when read):
        DataError: files that do not belong together, with file and line.
    """

    def __init__(
        self,
        training: Corpus,
        text: Annotated[Sequence[Text | Path], Field(min_length=1, max_length=2)],
        links: Text | Path,
        base: Literal[0, 1] = 0,
        form: Form = "pharaoh",
        reverse: bool = False,
        name: Text = "gold",
    ) -> None:
        super().__init__(training)
        self.name, self.generated = name, False
        self._text = [Path(path) for path in text]
        self._links = AlignmentFile(Path(links), base, reverse, form=form)

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream a split; each gold pair is a document of its own."""
        if split == "valid":
            # Validation may hold gold pairs: it chooses an epoch, and teaches no word.
            yield from self.corpus.sentences(split)
            return
        pairs = read_pairs(self._text)
        if split == "train":
            # Either side suffices: a system that has read the target in training knows the answer.
            repeats = _repeats(pairs)
            yield from (s for s in self.corpus.sentences(split) if not repeats(s))
            return
        # A link beyond its sentence shows a wrong base or a wrong file.
        lengths = [(len(split_words(x)), len(split_words(y))) for x, y in pairs]
        alignments = self._links.read(lengths)
        for number, ((x, y), links) in enumerate(zip(pairs, alignments, strict=True)):
            yield Sentence(x, y, str(number), 0, Gold(links.sure, links.possible))

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the training corpus's recipe, the bytes of the gold and how it is read."""
        if split == "valid":
            return self.corpus.recipe(split)
        recipe: dict[str, Any] = {
            "kind": "gold",
            # All of it beside the gold: it cuts and cases words from elsewhere.
            "training": self.corpus.recipe("train" if split == "train" else None),
            "repeated": "left out",
            "text": [file_hash(present(path)) for path in self._text],
        }
        if split != "train":
            recipe["links"] = file_hash(present(self._links.path))
            recipe["read"] = [self._links.base, self._links.form, self._links.reverse]
        return recipe

    def counts(self) -> Iterator[str]:
        """Yield the training corpus's own, and how many of its training pairs are left out."""
        yield from self.corpus.counts()
        repeats = _repeats(read_pairs(self._text))
        repeated = sum(map(repeats, self.corpus.sentences("train")))
        yield f"{repeated:,} training pairs repeat a gold pair's source or target and are left out"


def _repeats(pairs: Sequence[tuple[str, str]]) -> Callable[[Sentence], bool]:
    """Return a test of whether either side of a sentence equals that side of a pair."""
    sources, targets = (frozenset(pair[side] for pair in pairs) for side in (0, 1))
    return lambda sentence: sentence.source in sources or sentence.target in targets
