"""A corpus of English sentences with their coreference chains."""

from xnmt_bench.corpora.sentence import Corpus, Gold, Mention, Sentence


class ListedChains(Corpus):
    """Sentences by their sources, each with its chains."""

    name, source_language, target_language = "made", "en", "de"

    def __init__(self, *rows):
        self.rows = rows

    def sentences(self, split):
        for n, (source, chains) in enumerate(self.rows):
            mentions = [
                Mention(str(chain), words) for chain, spans in enumerate(chains) for words in spans
            ]
            gold = None if chains is None else Gold(source_mentions=tuple(mentions))
            yield Sentence(source, f"Satz {n}", "made", n, gold)

    def recipe(self, split=None):
        return {"made": [list(map(str, row)) for row in self.rows]}


ROWS = (
    ("the dog likes its bone", [[(0, 1), (3,)]]),
    ("Anna saw Her, and she smiled", [[(0,), (4,)]]),
    ("Anna sold her car as it was old", [[(2, 3), (5,)]]),  # `her` alone is in no cluster
    ("Anna saw him.", [[(0,)], [(2,)]]),
)
