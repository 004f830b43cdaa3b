"""The sentences of a corpus's test documents in their context, as examples."""

from __future__ import annotations

from itertools import groupby

from xnmt_bench.corpora.function_words import function_words, is_function
from xnmt_bench.corpora.passage import Passage
from xnmt_bench.corpora.sentence import Corpus, Sentence, lang_pair
from xnmt_bench.corpora.suites.context.example import Example, ExampleSet
from xnmt_bench.corpora.tokens import split_words

FARTHEST = 3  # sentences on either side that a system may read
FUNCTION, CONTENT = "function words", "content words"
MENTIONED = "mentioned before"  # words of a mention whose chain the context mentions


def read_documents(corpus: Corpus) -> ExampleSet:
    """Return the test sentences that have one before them in their document.

    Words are tagged as function or content words, where the language has a list of these, and as
    words of a coreference chain that the context mentions, where chains are annotated.
    """
    examples, functional = [], function_words(corpus.target_language)
    numbered = enumerate(corpus.sentences("test"))
    for _, document in groupby(numbered, key=lambda pair: pair[1].document):
        numbers, sentences = zip(*document, strict=True)
        for place in range(1, len(sentences)):
            now, before = sentences[place], sentences[max(0, place - FARTHEST) : place]
            after = sentences[place + 1 : place + 1 + FARTHEST]
            passage = Passage(
                now.source,
                now.target,
                tuple(s.source for s in before),
                tuple(s.target for s in before),
                tuple(s.source for s in after),
            )
            tags = _classes(now.target, functional) | _mentioned(now, before)
            examples.append(Example(numbers[place], numbers[0], passage, tags))
    return ExampleSet(corpus.name, lang_pair(corpus), examples, corpus.generated)


def _classes(target: str, functional: frozenset[str]) -> dict[str, frozenset[int]]:
    if not functional:
        return {}
    words = split_words(target)
    function = frozenset(n for n, word in enumerate(words) if is_function(word, functional))
    return {FUNCTION: function, CONTENT: frozenset(range(len(words))) - function}


def _mentioned(now: Sentence, before: tuple[Sentence, ...]) -> dict[str, frozenset[int]]:
    if now.gold is None or not now.gold.target_mentions:
        return {}
    golds = [s.gold for s in before if s.gold is not None]
    # Of one side: an annotation may number the chains of each language on its own.
    earlier = {mention.chain for gold in golds for mention in gold.target_mentions}
    mentions = [m for m in now.gold.target_mentions if m.chain in earlier]
    return {MENTIONED: frozenset(word for mention in mentions for word in mention.words)}
