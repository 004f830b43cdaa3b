"""Which sentences are coref and gender examples (Yehudai et al. 2023, section 4)."""

import pytest

from support.coreference_rows import ROWS, ListedChains
from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.view import ReversedCorpus
from xnmt_bench.errors import XnmtError
from xnmt_bench.registry import create
from xnmt_bench.resolvers.examples import (
    ExampleCounts,
    ExamplesCorpus,
    count_examples,
    english_side,
    is_coref,
    is_gender,
)


def test_examples_of_a_sentence():
    kinds = []
    for sentence in ListedChains(*ROWS).sentences("train"):
        [clusters] = create("resolvers", "gold").resolve([sentence])
        kinds.append((is_coref(clusters), is_gender(sentence, clusters)))
    assert kinds == [(True, False), (True, True), (True, False), (False, False)]
    assert not is_coref(None)
    his = Sentence("John lost HIS, he said", "", "x", 0)
    assert is_gender(his, (((0, 0), (2, 2)),))
    assert not is_gender(Sentence("John hurt himself", "", "x", 0), (((0, 0), (2, 2)),))


def test_counts_of_a_corpus_and_of_its_other_direction():
    corpus = ListedChains(*ROWS)
    counts = count_examples(corpus, "train", create("resolvers", "gold"))
    assert counts == ExampleCounts(4, 3, 1, 0)
    assert str(counts) == "4 sentences: 3 coref, 1 gender"

    class Other(ListedChains):
        source_language, target_language = "de", "fr"

    assert english_side(corpus) is corpus
    assert english_side(ReversedCorpus(corpus)).source_language == "en"
    back = count_examples(ReversedCorpus(corpus), "train", create("resolvers", "gold"))
    assert back == counts
    with pytest.raises(XnmtError, match="but neither language is English"):
        english_side(Other(*ROWS))


def test_a_sentence_that_the_resolver_does_not_know_is_counted():
    class Half(ListedChains):
        def sentences(self, split):
            for n, sentence in enumerate(super().sentences(split)):
                yield Sentence(sentence.source, "", "x", n, sentence.gold if n else None)

    counts = count_examples(Half(*ROWS), "train", create("resolvers", "gold"))
    assert counts == ExampleCounts(4, 2, 1, 1)
    assert str(counts).endswith("; 1 unknown to the resolver")


@pytest.mark.parametrize(("kind", "numbers"), [("coref", [0, 1, 2]), ("gender", [1])])
def test_a_corpus_of_examples_alone(kind, numbers):
    examples = ExamplesCorpus(ListedChains(*ROWS), create("resolvers", "gold"), kind)
    assert [s.position for s in examples.sentences("train")] == numbers
    assert len(list(examples.sentences("test"))) == len(ROWS)
    assert "4 sentences: 3 coref, 1 gender" in list(examples.counts())


def test_the_recipe_says_which_examples_by_which_resolver():
    recipes = [
        ExamplesCorpus(ListedChains(*ROWS), create("resolvers", name), kind).recipe()
        for name in ("gold", "learnt")
        for kind in ("coref", "gender")
    ]
    assert len({str(recipe) for recipe in recipes}) == 4


def test_a_corpus_without_examples_is_an_error():
    with pytest.raises(XnmtError, match="made: the training split has no gender example"):
        list(
            ExamplesCorpus(ListedChains(ROWS[0]), create("resolvers", "gold"), "gender").sentences(
                "train"
            )
        )


def test_toy_sentences_whose_chains_are_known():
    """Every sentence of generated data with a chain of two words of its own is an example."""
    corpus = ToyCorpus(train=300)
    expected = 0
    for sentence in corpus.sentences("train"):
        mentions = (sentence.gold.source_mentions if corpus.source_language == "en"
                    else sentence.gold.target_mentions)  # fmt: skip
        chains = [m.chain for m in mentions]
        expected += len(chains) > len(set(chains))
    assert expected > 20
    assert count_examples(corpus, "train", create("resolvers", "gold")).coref == expected
