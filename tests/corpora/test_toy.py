"""The toy corpus: reproducible, streamed, and with gold that is right about German.

The gold is checked against the words themselves and the lexicon, never against the grammar's code.
"""

from collections import defaultdict
from functools import lru_cache
from hashlib import sha256
from itertools import islice

import pytest

from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.toy.lexicon import lexicon

pytestmark = pytest.mark.usefixtures("generated_anew")
LEXICON = lexicon()
VERBS = (*LEXICON.transitive, *LEXICON.intransitive)
GENDERS = {noun.german: noun.gender for noun in (*LEXICON.objects, *LEXICON.people)}
GENDERS |= {spelling: name.sex for name in LEXICON.names for spelling in name.spellings}
ENGLISH_NAMES = {spelling: name.english for name in LEXICON.names for spelling in name.spellings}
ENGLISH_VERBS = {form for verb in VERBS for form in (verb.base, verb.third, verb.participle)}
ARTICLES = {"der": "m", "den": "m", "einen": "m", "die": "f", "eine": "f", "das": "n", "ein": "mn"}
PRONOUNS = {"er": "m", "ihn": "m", "sie": "f", "es": "n"}
FINITE = {
    "third": {"hat", "ist", "kann"} | {verb.finite_third for verb in VERBS},
    "du": {"hast", "bist", "kannst"} | {verb.finite_second for verb in VERBS},
    "Sie": {"haben", "sind", "können"} | {verb.bare_infinitive for verb in VERBS},
}


@lru_cache
def generated():
    """(sentence, source words, target words) of a few hundred documents."""
    sentences = ToyCorpus(seed=0, train=3000).sentences("train")
    return [(s, s.source.split(), s.target.split()) for s in sentences]


def found(source="", target=""):
    """The generated sentences that hold these words; there have to be several."""

    def wanted(s):
        return (source, s.source), (target, s.target)

    cases = [
        (s.gold, x, y)
        for s, x, y in generated()
        if all(f" {words} " in f" {text} " for words, text in wanted(s) if words)
    ]
    assert len(cases) >= 5, f"only {len(cases)} sentences with {source!r} and {target!r}"
    return cases


def sources_of(gold, j):
    return {i for i, linked in gold.sure if linked == j}


def targets_of(gold, i):
    return {j for linked, j in gold.sure if linked == i}


def genders_of_chains():
    """The gender of each chain of each document, from the nouns that refer to it."""
    genders = defaultdict(set)
    for s, _, y in generated():
        for mention in s.gold.target_mentions:
            head = y[mention.words[-1]]
            if head in GENDERS:
                genders[s.document, mention.chain].add(GENDERS[head])
    return genders


# Reproducible and streamed --------------------------------------------------------------------


def test_a_seed_is_a_corpus():
    first, again, other = (list(ToyCorpus(seed, train=50).sentences("train")) for seed in (0, 0, 1))
    assert first == again
    assert sum(a.source == b.source for a, b in zip(first, other, strict=True)) < 5


def test_the_first_300_pairs_are_pinned():
    """The same on every platform; who changes the sentences raises toy.VERSION too."""
    pairs = [f"{s.source}\t{s.target}\n" for s, _, _ in generated()[:300]]
    digest = sha256("".join(pairs).encode()).hexdigest()
    assert digest == "264503c9f6488ba93ad9a225366f1f0e3adeef2305bec2a78e0f212cf2ec46b2"


def test_a_stream_has_any_size():
    sizes = {"train": 7, "valid": 0, "test": 1}
    corpus = ToyCorpus(**sizes)
    assert {split: len(list(corpus.sentences(split))) for split in sizes} == sizes
    # Unread sentences are never generated: 10^15 of them would take years.
    assert len(list(islice(ToyCorpus(train=10**15).sentences("train"), 9))) == 9


def test_a_larger_corpus_goes_on_from_a_smaller_one():
    small, large = (list(ToyCorpus(train=n).sentences("train")) for n in (33, 60))
    assert large[:33] == small


def test_no_test_pair_stands_in_the_training_split():
    corpus, alone = ToyCorpus(train=4400, test=400), ToyCorpus(train=0, test=500)
    train, test, free = (
        list(c.sentences(split))
        for c, split in ((corpus, "train"), (corpus, "test"), (alone, "test"))
    )
    training_pairs = {(s.source, s.target) for s in train}
    repeating_documents = {s.document for s in free if (s.source, s.target) in training_pairs}
    assert repeating_documents
    # Only whole documents are gone, and the count is kept.
    assert test == [s for s in free if s.document not in repeating_documents][:400]


def test_splits_differ():
    corpus = ToyCorpus(train=200, valid=200, test=200)
    parts = [list(corpus.sentences(split)) for split in ("train", "valid", "test")]
    assert len({s.document for part in parts for s in part}) == sum(
        len({s.document for s in part}) for part in parts
    )
    assert len({tuple(s.source for s in part) for part in parts}) == 3


@pytest.mark.parametrize("change", [{"seed": 1}, {"train": 9}, {"valid": 9}, {"test": 9}])
def test_the_recipe_tells_corpora_apart(change):
    assert ToyCorpus(**change).recipe() != ToyCorpus().recipe()


def test_documents_are_numbered_sentence_by_sentence():
    positions = defaultdict(list)
    for s, _, _ in generated()[:-10]:
        positions[s.document].append(s.position)
    assert all(numbers == list(range(len(numbers))) for numbers in positions.values())
    assert {len(numbers) for numbers in positions.values()} >= {3, 4, 5, 6, 7}


def test_the_lexicon_is_large_enough():
    entries = [len(getattr(LEXICON, kind)) for kind in LEXICON.__dataclass_fields__]
    assert sum(entries) >= 300
    for nouns in (LEXICON.objects, LEXICON.people):
        assert {noun.gender for noun in nouns} == {"m", "f", "n"}
    assert {verb.auxiliary for verb in VERBS} == {"haben", "sein"}


# The gold -------------------------------------------------------------------------------------


def test_gold_stays_within_its_sentence():
    for s, x, y in generated():
        gold = s.gold
        assert gold.sure <= gold.possible
        assert all(0 <= i < len(x) and 0 <= j < len(y) for i, j in gold.possible)
        assert len(gold.deciding_source) == len(gold.deciding_prefix) == len(y)
        for j in range(len(y)):
            assert gold.deciding_source[j] | gold.deciding_prefix[j], (s.target, y[j])
            assert gold.deciding_source[j] <= set(range(len(x)))
            assert gold.deciding_prefix[j] <= set(range(j))  # earlier than the word itself
        for mentions, words in ((gold.source_mentions, x), (gold.target_mentions, y)):
            places = [i for mention in mentions for i in mention.words]
            assert set(places) <= set(range(len(words)))
            assert len(set(places)) == len(places)


def test_the_verb_is_last_after_dass_and_dass_decides_it():
    for gold, x, y in found(source="that", target="dass"):
        that, dass, finite = x.index("that"), y.index("dass"), len(y) - 2
        verb_forms = {verb.particle + verb.finite_third for verb in VERBS} | {"hat", "ist", "kann"}
        assert y[finite] in verb_forms
        # The last place is the second where nothing but the subject stands before it.
        subject = next(m.words[-1] for m in gold.target_mentions if m.words[0] > dass)
        elsewhere = finite > subject + 1 or y[finite] not in FINITE["third"]
        assert (dass in gold.deciding_prefix[finite]) == elsewhere
        assert (that in gold.deciding_source[finite]) == elsewhere
        assert sources_of(gold, dass) == {that}


def test_the_comma_before_dass_has_no_counterpart():
    for gold, x, y in found(target=", dass"):
        comma = y.index("dass") - 1
        assert not sources_of(gold, comma)
        assert x.index("that") in gold.deciding_source[comma]


def test_articles_agree_with_their_noun_and_are_decided_by_it():
    genders = set()
    for s, x, y in generated():
        for mention in s.gold.target_mentions:
            article, noun = mention.words[0], mention.words[-1]
            if y[article] not in ARTICLES:
                continue
            genders.add(GENDERS[y[noun]])
            assert GENDERS[y[noun]] in ARTICLES[y[article]], s
            deciding, english = s.gold.deciding_source[article], sources_of(s.gold, noun)
            assert english and english <= deciding
            # The accusative, which only a masculine article shows, comes from the verb.
            other_deciding = deciding - english - sources_of(s.gold, article)
            assert {x[i] for i in other_deciding} <= ENGLISH_VERBS
            assert (y[article] in ("den", "einen")) == bool(other_deciding), s
    assert genders == {"m", "f", "n"}


def test_adjectives_are_inflected_as_in_german():
    doubled = {
        german + end
        for _, german in LEXICON.adjectives
        if german[-1] == "e"
        for end in ("e", "en", "er", "es")
    }
    assert not [y for _, _, y in generated() if doubled & set(y)][:3]


def test_a_separable_verb_is_aligned_with_both_its_parts():
    particles = set()
    for verb in VERBS:
        for s, x, y in generated() if verb.particle else ():
            present = verb.third in x and y[-2] == verb.particle and verb.finite_third in y
            if not present or "and" in x:
                continue
            english, finite, particle = x.index(verb.third), y.index(verb.finite_third), len(y) - 2
            assert targets_of(s.gold, english) == {finite, particle}
            assert finite in s.gold.deciding_prefix[particle]
            particles.add(verb.particle)
    assert len(particles) >= 5


def test_do_support_is_linked_with_the_verb_at_most():
    for gold, x, y in found(source="does", target="?"):
        does = x.index("does")
        assert not targets_of(gold, does)
        (verb,) = (j for i, j in gold.possible if i == does)
        assert y[verb] in FINITE["third"]


def test_a_compound_is_aligned_with_both_its_words():
    for gold, x, y in found(source="apple juice", target="Apfelsaft"):
        first, compound = x.index("apple"), y.index("Apfelsaft")
        assert sources_of(gold, compound) == {first, first + 1}


def test_after_weil_the_antecedent_decides_the_pronoun():
    pronouns = set()
    for gold, _, y in found(source="because", target="weil"):
        pronoun = y.index("weil") + 1
        chain = next(m.chain for m in gold.target_mentions if pronoun in m.words)
        antecedent = next(m for m in gold.target_mentions if m.chain == chain)
        head = antecedent.words[-1]
        assert head < pronoun
        assert head in gold.deciding_prefix[pronoun]
        if y[head] in GENDERS:
            assert GENDERS[y[head]] == PRONOUNS[y[pronoun]]
            pronouns.add(y[pronoun])
    assert pronouns == {"er", "sie", "es"}


@pytest.mark.parametrize("address", ["du", "Sie"])
def test_verbs_agree_with_the_form_of_address(address):
    for gold, x, y in found(source="you", target=address):
        you = y.index(address)
        finite = you - 1 if y[you - 1] in FINITE[address] else you + 1
        assert y[finite] in FINITE[address], y
        assert x.index("you") in gold.deciding_source[you] & gold.deciding_source[finite]


def test_a_document_addresses_its_reader_in_one_way():
    ways = defaultdict(set)
    for s, x, y in generated():
        if "you" in x:
            ways[s.document].update({"du", "Sie"} & set(y))
    assert all(len(way) == 1 for way in ways.values())
    assert {next(iter(way)) for way in ways.values()} == {"du", "Sie"}


def test_the_title_decides_the_form_of_address_and_the_surname_does_not():
    for gold, x, y in found(source="mr", target="Sie"):
        mr, sie, herr = x.index("mr"), y.index("Sie"), y.index("Herr")
        assert mr in gold.deciding_source[sie]
        assert mr + 1 not in gold.deciding_source[sie]
        assert gold.deciding_source[herr] == {mr}
        assert gold.deciding_source[herr + 1] == {mr + 1}


def test_no_two_words_are_both_linked_with_the_same_two():
    for s, _, _ in generated():
        links = [(sources_of(s.gold, j), targets_of(s.gold, i)) for i, j in s.gold.sure]
        assert all(len(sources) == 1 or len(targets) == 1 for sources, targets in links), s


def test_the_modal_is_decided_by_can_and_the_subject():
    for gold, x, y in found(source="can", target="kann"):
        can, deciding = x.index("can"), gold.deciding_source[y.index("kann")]
        assert can in deciding
        subject = {i for i in deciding if x[i] not in ("can", "that")}
        assert subject and any(subject <= set(m.words) for m in gold.source_mentions)


def test_a_name_is_spelled_in_one_way_in_a_document():
    spellings, variants = defaultdict(set), defaultdict(set)
    for s, _, y in generated():
        for text in y:
            if text in ENGLISH_NAMES:
                spellings[s.document, ENGLISH_NAMES[text]].add(text)
                variants[ENGLISH_NAMES[text]].add(text)
    assert sum(len(v) > 1 for v in variants.values()) >= 10  # elsewhere it is spelled differently
    assert not {where: v for where, v in spellings.items() if len(v) > 1}


def test_a_chain_keeps_its_gender():
    genders = genders_of_chains()
    assert all(len(gender) == 1 for gender in genders.values())
    for s, _, y in generated():
        for mention in s.gold.target_mentions:
            head = y[mention.words[-1]]
            if head in PRONOUNS:
                assert genders[s.document, mention.chain] == {PRONOUNS[head]}, s


def test_chains_span_sentences_and_both_sides():
    sentences, distant = defaultdict(set), 0
    for s, _, y in generated():
        target = [mention.chain for mention in s.gold.target_mentions]
        assert {mention.chain for mention in s.gold.source_mentions} <= set(target)
        for mention in s.gold.target_mentions:
            sentences[s.document, mention.chain].add(s.position)
            alone = y[mention.words[0]] in PRONOUNS and target.count(mention.chain) == 1
            # With its antecedent a sentence away, nothing in the prefix tells the gender.
            distant += alone and not s.gold.deciding_prefix[mention.words[0]]
    assert sum(len(where) > 1 for where in sentences.values()) >= 100
    assert distant >= 50


def test_a_possessive_is_a_mention_of_the_owner():
    owners = 0
    for s, x, y in generated():
        mentions = s.gold.source_mentions, s.gold.target_mentions
        for words, side, possessives in ((x, 0, {"his", "its"}), (y, 1, {"sein", "seinen"})):
            alone = [m for m in mentions[side] if {words[i] for i in m.words} & possessives]
            assert all(len(m.words) == 1 for m in alone)
            assert len(alone) == len(possessives & set(words))
            # The owner is the subject, before it on the source side.
            for m in alone:
                owner = next(o for o in mentions[side] if o.chain == m.chain)
                assert side or owner.words < m.words, s
                owners += 1
    assert owners >= 50


def test_who_is_addressed_is_one_chain():
    for source in ("you", "mr", "mrs"):
        for gold, x, y in found(source=source, target=","):
            reader = [m for m in gold.source_mentions if m.chain == "reader"]
            target_reader = [m for m in gold.target_mentions if m.chain == "reader"]
            assert len(reader) == len(target_reader) == 2  # the vocative and the pronoun
            assert (x.index("you"),) in [m.words for m in reader]
            assert {y[m.words[0]] for m in target_reader} & {"du", "Sie"}
            for title in {"mr", "mrs"} & set(x):
                assert (x.index(title), x.index(title) + 1) in [m.words for m in reader]
