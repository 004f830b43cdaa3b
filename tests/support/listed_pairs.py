"""A corpus of the pairs that a test lists."""

from xnmt_bench.corpora.sentence import Corpus, Sentence


class ListedPairs(Corpus):
    """Pairs of texts by split, in one document."""

    name, source_language, target_language = "listed", "en", "de"

    def __init__(self, **splits):
        self.splits = splits

    def sentences(self, split):
        for number, (source, target) in enumerate(self.splits.get(split, ())):
            yield Sentence(source, target, "d", number)

    def recipe(self, split=None):
        return {"pairs": self.splits if split is None else self.splits.get(split)}
