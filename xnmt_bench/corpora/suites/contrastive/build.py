"""Contrastive sets made from documents by exchanging forms, as Voita et al. (2019, Appendix A) do.

A table says which forms of a target language are exchanged: those of informal address for those of
formal one, and one spelling of a name for another. A passage that holds one form throughout is also
written with each other one. Each version is the true one behind its own context, so the sets are
mirrored: a system that does not read the target context is right in exactly 1/n of the groups.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path

from xnmt_bench.corpora.exchange.substitutes import exchanged, longest_entries
from xnmt_bench.corpora.sentence import Corpus, Sentence, Split, lang_pair
from xnmt_bench.corpora.suites.contrastive.group import ContrastiveSet, Group, Variant
from xnmt_bench.corpora.text import text_lines
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import DataError, XnmtError

WINDOW = 3  # sentences back in which a context decides
ADDRESS, NAMES = "address", "names"
Words = tuple[str, ...]


@dataclass(frozen=True)
class Exchange:
    """Forms that are exchanged for each other.

    Attributes:
        forms: for each form its counterparts: itself and what it becomes.
        formal: words that show the other form of address, so that a passage is mixed.
        informal: words that show this form of address, and whose counterpart is unknown.
        unless: words that agree with a form, and whose counterpart is unknown.
    """

    forms: dict[Words, tuple[Words, ...]] = field(default_factory=dict)
    formal: frozenset[str] = frozenset()
    informal: Sequence[re.Pattern[str]] = ()
    unless: Sequence[re.Pattern[str]] = ()

    def versions(self, text: str) -> list[str] | None:
        """Return the sentence in each form; empty without one, None if it is ambiguous."""
        words = split_words(text)
        # Longest first: a form of two words may begin with another form.
        longest = max(map(len, self.forms), default=0)
        matches = list(longest_entries(words, longest, self._of))
        taken = {i for start, form in matches for i in range(start, start + len(form))}
        # A form that is exchanged is not a sign of the other address.
        kept_words = [word for i, word in enumerate(words) if i not in taken]
        if not self.formal.isdisjoint(kept_words) or _any(self.informal, kept_words):
            return None
        if not matches:
            return []
        # Only where a form is: elsewhere such a word agrees with something that stays.
        if _any(self.unless, kept_words):
            return None
        count = len(self._of(matches[0][1]))
        return [
            exchanged(words, ((start, form, self._of(form)[n]) for start, form in matches))
            for n in range(count)
        ]

    def _of(self, form: Words) -> tuple[Words, ...]:
        """Return a form's versions; one that begins a sentence may have a capital."""
        if form in self.forms:
            return self.forms[form]
        lowered = (form[0][:1].lower() + form[0][1:], *form[1:])
        versions = self.forms.get(lowered, ()) if lowered != form else ()
        return tuple((w[0][:1].upper() + w[0][1:], *w[1:]) for w in versions)


def _any(patterns: Sequence[re.Pattern[str]], words: Sequence[str]) -> bool:
    return any(pattern.fullmatch(word.lower()) for pattern in patterns for word in words)


def _forms(
    path: Path, number: int, fields: Sequence[str], written: Callable[[str], str]
) -> tuple[Words, ...]:
    forms = tuple(tuple(split_words(written(field))) for field in fields)
    if not all(forms):
        raise DataError(path, number, "a form is empty")
    return forms


def exchanges(path: Path, written: Callable[[str], str] = str) -> dict[str, list[Exchange]]:
    """Return the exchanges of a table by phenomenon: one of address, one for each name.

    Its lines are tab-separated: `address`, a form, what it becomes; `formal`, a word; `informal` or
    `unless`, a regular expression; `names`, a name, and its spellings in one case.

    Args:
        path: of the table.
        written: how a corpus writes a form: tokenised, or in small letters.

    Raises:
        DataError: a line is none of these.
    """
    address: dict[Words, tuple[Words, ...]] = {}
    names: dict[str, dict[Words, tuple[Words, ...]]] = {}
    formal = set[str]()
    patterns: dict[str, list[re.Pattern[str]]] = {"informal": [], "unless": []}
    for number, line in text_lines(path):
        kind, *fields = line.split("\t")
        if kind == ADDRESS and len(fields) == 2:
            versions = _forms(path, number, fields, written)
            address[versions[0]] = versions
        elif kind == "formal" and len(fields) == 1:
            formal.add(written(fields[0]))
        elif kind in patterns and len(fields) == 1:
            try:
                patterns[kind].append(re.compile(fields[0]))
            except re.error as error:
                raise DataError(path, number, f"not a regular expression: {error}") from None
        elif kind == NAMES and len(fields) > 2:
            versions = _forms(path, number, fields[1:], written)
            cases = names.setdefault(fields[0], {})
            if any(len(spellings) != len(versions) for spellings in cases.values()):
                problem = f"{fields[0]} has a different number of spellings in an earlier line"
                raise DataError(path, number, problem)
            # Each spelling maps to all of them, since any may be the one that a text has.
            cases.update(dict.fromkeys(versions, versions))
        elif line.strip():
            problem = "expected a line that begins with address, formal, informal, unless or names"
            raise DataError(path, number, problem)
    return {
        ADDRESS: [Exchange(address, frozenset(formal), **patterns)],
        NAMES: [Exchange(forms) for forms in names.values()],
    }


def build(corpus: Corpus, split: Split, table: str | None = None) -> list[ContrastiveSet]:
    """Build sets of address and of names from the documents of a split.

    Args:
        corpus: of documents.
        split: of the corpus.
        table: the forms; this project's own for the target language, if not given.

    Raises:
        XnmtError: the language has no table, or the split has nothing to exchange.
    """
    path = Path(table) if table else _own_table(corpus.target_language)
    groups: dict[str, list[Group]] = {ADDRESS: [], NAMES: []}
    # Forms are tokenised and cased as the corpus is, or they would match nothing in it.
    written = partial(corpus.words, language=corpus.target_language)
    by_phenomenon = exchanges(path, written)
    for before, sentence in _windows(corpus, split):
        for phenomenon, phenomenon_groups in by_phenomenon.items():
            for exchange in phenomenon_groups:
                groups[phenomenon] += _mirrored(before, sentence, exchange)
    sets = [
        ContrastiveSet(
            f"{corpus.name} {phenomenon}", lang_pair(corpus), phenomenon_groups, corpus.generated
        )
        for phenomenon, phenomenon_groups in groups.items()
        # A corpus without names still has a set of address.
        if phenomenon_groups
    ]
    if not sets:
        raise XnmtError(
            f"corpus {corpus.name}: no {split} passage has a form of {path.name} that depends on "
            "its context, so there is nothing to compare"
        )
    return sets


def _own_table(language: str) -> Path:
    path = Path(
        str(files("xnmt_bench.corpora.suites.contrastive").joinpath(f"exchanged.{language}.tsv"))
    )
    if not path.is_file():
        raise XnmtError(
            f"no table of exchanged forms for {language!r}; name one with "
            "metric.contrastive.exchanged=FILE"
        )
    return path


def _windows(corpus: Corpus, split: Split) -> Iterator[tuple[list[Sentence], Sentence]]:
    """Yield each sentence behind the sentences of its document that stand just before it."""
    # A window is all that is kept: the corpus streams.
    before: deque[Sentence] = deque(maxlen=WINDOW)
    for sentence in corpus.sentences(split):
        # A context never reaches into the document before.
        if before and before[-1].document != sentence.document:
            before.clear()
        yield list(before), sentence
        before.append(sentence)


def _mirrored(
    before: Sequence[Sentence], sentence: Sentence, exchange: Exchange
) -> Iterator[Group]:
    """Yield a group for each version of a passage, if its context decides which one is right."""
    now = exchange.versions(sentence.target)
    if not now:
        return
    context = [exchange.versions(earlier.target) for earlier in before]
    if None in context:  # mixed, or with words without a counterpart
        return
    marked = [place for place, versions in enumerate(context) if versions]
    # Versions that are written alike cannot be told apart by any score.
    if not marked or len(set(now)) < len(now):
        return
    sources = tuple(earlier.source for earlier in before)
    for version in range(len(now)):
        # The whole context is put into the same version, so that it decides.
        written = tuple(
            versions[version] if versions else earlier.target
            for versions, earlier in zip(context, before, strict=True)
            if versions is not None
        )
        yield Group(
            sentence.source,
            tuple(Variant(text, written) for text in now),
            version,
            sources,
            distance=len(before) - marked[-1],  # the nearest sentence that shows the form
        )
