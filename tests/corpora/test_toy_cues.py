"""Exact cues of the generated documents, against the contrastive sets of the same families."""

import pytest

from xnmt_bench.corpora.suites.context.example import SENSITIVE
from xnmt_bench.corpora.toy.discourse import ToyDiscourse
from xnmt_bench.nmt.comparing import compare

FAMILIES = 4


@pytest.fixture(scope="module")
def corpus():
    return ToyDiscourse(train=20, valid=10, test=10, families=FAMILIES)


def words_at(places, context):
    return [context[sentence].split()[word] for sentence, word in sorted(places)]


def test_examples_are_the_true_variants_of_the_contrastive_sets(corpus):
    for examples, contrastive in zip(corpus.cued("test"), corpus.contrastive("test"), strict=True):
        assert examples.name == contrastive.name
        passages = [group.passages()[group.true] for group in contrastive.groups]
        assert [example.passage for example in examples.examples] == passages
        # The same units, so that metrics of either pair.
        assert examples.test_set == contrastive.test_set
        units = compare(contrastive).units_G.tolist()
        assert [example.unit for example in examples.examples] == units


def test_a_sensitive_word_is_where_a_variant_parts(corpus):
    for examples, contrastive in zip(corpus.cued("test"), corpus.contrastive("test"), strict=True):
        for example, group in zip(examples.examples, contrastive.groups, strict=True):
            true = group.variants[group.true].text.split()
            places = set()
            for n, variant in enumerate(group.variants):
                if n != group.true:
                    other = variant.text.split()
                    places.add(next(i for i in range(99) if true[: i + 1] != other[: i + 1]))
            assert example.tags[SENSITIVE] == places


def test_cues_tell_the_variants_of_a_family_apart_and_nothing_else_does(corpus):
    """Without the cue's words, contexts of a family are the same, but for predicates of nouns."""
    for examples in corpus.cued("test"):
        by_unit = {}
        for example in examples.examples:
            by_unit.setdefault(example.unit, []).append(example)
        for number, family in enumerate(by_unit.values()):
            distance = 1 + number // FAMILIES
            cues, rests = [], set()
            for example in family:
                for side in ("source", "target"):
                    assert {s for s, _ in example.cues[side]} <= {3 - distance}
                context = example.passage.target_context
                cues.append(tuple(words_at(example.cues["target"], context)))
                words = context[3 - distance].split()
                left = {w for _, w in example.cues["target"]}
                rests.add(tuple(w for n, w in enumerate(words) if n not in left))
            assert len(set(cues)) == len(family) and all(cues)
            if "pronouns" not in examples.name:
                assert len(rests) == 1


def test_a_pronoun_needs_the_noun_of_its_antecedent(corpus):
    examples, contrastive = corpus.cued("test")[2], corpus.contrastive("test")[2]
    for example, group in zip(examples.examples, contrastive.groups, strict=True):
        source = words_at(example.cues["source"], example.passage.source_context)
        assert source == list(group.antecedent.words[1:])  # without its article, the same in all
        target = words_at(example.cues["target"], example.passage.target_context)
        assert target[-1][0].isupper() and len(target) <= 2  # an article and a noun


def test_only_the_target_tells_address_and_spelling(corpus):
    for examples in corpus.cued("test")[:2]:
        assert not any(example.cues["source"] for example in examples.examples)
