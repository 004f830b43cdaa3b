"""Ids of sentences in their context."""

from xnmt_bench.corpora.vocabulary.subwords import EOS, SEPARATOR


def join_context(sentences: list[list[int]]) -> list[int]:
    """Joins sentences as a concatenation model reads them: the last is the current one."""
    *before, last = sentences
    return [i for ids in before for i in (*ids, SEPARATOR)] + [*last, EOS]
