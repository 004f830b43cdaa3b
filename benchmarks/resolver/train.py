"""Learns the resolver that comes with the package from GAP and LitBank.

    python -m benchmarks.resolver.train DIR [WEIGHTS]

DIR holds `gap-development.tsv.gz`, `gap-validation.tsv.gz` and `litbank_coref_brat.tar.gz`. The
weights go where the package reads them from, or into the file WEIGHTS. Needs scikit-learn
(`pip install xnmt_bench[resolver]`). GAP's test set is not read.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.resolver.data import (
    LITBANK,
    Chained,
    GapRow,
    passages,
    read_gap,
    read_litbank,
)
from benchmarks.resolver.gap import answer_by_model, holds, mention_at, score
from xnmt_bench.errors import XnmtError
from xnmt_bench.resolvers.learnt.entities import Entity, name_words
from xnmt_bench.resolvers.learnt.lexicon import Lexicon, Pair
from xnmt_bench.resolvers.learnt.mentions import Mention
from xnmt_bench.resolvers.learnt.model import WEIGHTS, Model, Trees, assign_pronouns
from xnmt_bench.resolvers.learnt.passage import FEATURES, PERSONAL, Passage

log = logging.getLogger(__name__)
SEED = 0
FOLDS = 5  # a text's features come from counts of the other folds' texts
LENGTHS = (1, 2, 3, 5)  # sentences of LitBank's passages, in turn
HELD_OUT = 10  # each tenth document of LitBank chooses the threshold
GAP_WEIGHT = 3.0  # of a row of GAP, beside one of LitBank
TREES = {
    "n_estimators": 250,
    "learning_rate": 0.06,
    "max_depth": 4,
    "min_samples_leaf": 20,
    "subsample": 0.5,
    "max_features": 0.3,
}
# What the features of a name would be, were it a noun that names a person.
OF_A_NOUN = {
    "is_name": 0.0,
    "is_noun": 1.0,
    "names_between": 0.0,
    "entity_names": 0.0,
    "is_earliest_name": 0.0,
    "gender_fit": 0.0,
    "best_other_fit": 0.0,
    "gender_known": 0.0,
    "person": 2.0,
    "the_before": 1.0,
    "definite": 1.0,
    "long_name": 0.0,
    "length": 2.0,
    "upper": 0.0,
}

THRESHOLDS = np.arange(-3.0, 1.01, 0.25)
Examples = tuple[list[np.ndarray], list[np.ndarray]]  # features and labels, pronoun by pronoun


def train(folder: Path) -> Model:
    """Return the model that GAP's development set and LitBank teach.

    Args:
        folder: of the files.

    Raises:
        DataError: a file is missing or is of another form.
        XnmtError: scikit-learn is missing.
    """
    development = read_gap(folder / "gap-development.tsv.gz")
    validation = read_gap(folder / "gap-validation.tsv.gz")
    documents = read_litbank(folder / LITBANK)
    # Whole documents, since parts of one book share their names.
    held_out = documents[::HELD_OUT]
    learnt_from = [document for document in documents if document not in held_out]
    parts = [part for document in learnt_from for part in passages(document, LENGTHS)]
    held_out_parts = [part for document in held_out for part in passages(document, LENGTHS)]

    books = [document.document for document in learnt_from]
    counts = [
        _count(
            [row for n, row in enumerate(development) if n % FOLDS == fold],
            [document for n, document in enumerate(learnt_from) if n % FOLDS == fold],
        )
        for fold in range(FOLDS)
    ]
    # For the finished model; in training a text's features come from the other folds.
    lexicon = _lexicon(counts)
    # Counts of a text itself would tell the trees its answer.
    without = [_lexicon(counts[:fold] + counts[fold + 1 :]) for fold in range(FOLDS)]

    of_litbank: Examples = ([], [])
    for part in parts:
        passage = Passage(part.text, without[books.index(part.document) % FOLDS])
        _add(of_litbank, _chained_examples(passage, part))
    log.info("%d pronouns of LitBank with candidates", len(of_litbank[0]))
    # Trees of LitBank alone assign the other pronouns of GAP's rows, which have no labels.
    trees = fit(of_litbank, ([], []))
    # Twice: the second time, trees that know GAP assign the pronouns before the asked one.
    for _ in range(2):
        of_gap: Examples = ([], [])
        for n, row in enumerate(development):
            _add(of_gap, _gap_examples(Passage(row.text, without[n % FOLDS]), row, trees))
        trees = fit(of_litbank, of_gap)
    log.info("%d pronouns of GAP with candidates", len(of_gap[0]))

    scores = {}
    for threshold in THRESHOLDS:
        model = Model(lexicon, trees, float(threshold))
        # On text that the trees never saw, where their log-odds are not too sure.
        gap = score(validation, list(map(answer_by_model(model), validation))).overall
        links = 100 * _link_f1(model, held_out_parts)
        scores[float(threshold)] = gap + links
        log.info("threshold %.2f: F1 %.1f on GAP, %.1f on LitBank", threshold, gap, links)
    return Model(lexicon, trees, max(scores, key=scores.__getitem__))


def _count(
    rows: Sequence[GapRow], documents: Sequence[Chained]
) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, bool]]]:
    """Return how often a pronoun stood for a first name, and a noun for a person."""
    genders: Counter[tuple[str, str]] = Counter()
    people: Counter[tuple[str, bool]] = Counter()
    empty = Lexicon({}, {})
    for row in rows:
        for stretch, label in zip(row.names, row.labels, strict=True):
            if label:
                words = row.text[slice(*stretch)].split()
                genders[words[0], "she" if row.feminine else "he"] += 1
    for document in documents:
        passage = Passage(document.text, empty)
        chains = _chains(passage, document)
        # By chain and not by mention: one `she` anywhere shows the gender of all its names.
        pronouns: dict[int, Counter[str]] = {}
        for mention, (chain, _) in chains.items():
            if mention.pronoun in PERSONAL:
                pronouns.setdefault(chain, Counter())[mention.pronoun] += 1
        # Once a chain: a name that comes a hundred times in a book is one piece of evidence.
        named = set()
        for mention, (chain, kind) in chains.items():
            if mention.kind == "name" and chain in pronouns:
                word = name_words(passage.tokens, mention)[0]
                named.add((word, pronouns[chain].most_common(1)[0][0], chain))
            elif mention.kind == "noun" and kind:
                people[passage.tokens[mention.last].lower, kind.endswith("_PER")] += 1
        genders.update((word, gender) for word, gender, _ in named)
        for mention in passage.mentions:
            # LitBank leaves out nouns that name no person, place or vehicle.
            if mention.kind == "noun" and mention not in chains:
                people[passage.tokens[mention.last].lower, False] += 1
    return genders, people


def _lexicon(counts: Sequence[tuple[Counter[Any], Counter[Any]]]) -> Lexicon:
    genders, people = sum((g for g, _ in counts), Counter()), sum((p for _, p in counts), Counter())

    def pairs(counter: Mapping[tuple[str, Any], int], first: Any, second: Any) -> dict[str, Pair]:
        words = sorted({word for word, _ in counter})
        return {w: (counter.get((w, first), 0), counter.get((w, second), 0)) for w in words}

    nouns = pairs(people, True, False)
    # A noun that was read once as no person says hardly more than an unknown one.
    return Lexicon(
        pairs(genders, "he", "she"), {w: pair for w, pair in nouns.items() if pair != (0, 1)}
    )


def _chains(passage: Passage, part: Chained) -> dict[Mention, tuple[int, str]]:
    """Return the chain and kind of each mention that was found and that people annotated.

    A pronoun has to be the annotated one. A name or noun phrase is the shortest annotated mention
    that begins with it and holds it, or that ends with it.
    """
    chain_by_mention = {}
    for mention in passage.mentions:
        start, end = passage.tokens[mention.first].start, passage.tokens[mention.last].end
        fitting = [
            (stretch[1] - stretch[0], chain, kind)
            for stretch, chain, kind in part.mentions
            if (
                stretch == (start, end)
                if mention.kind == "pronoun"
                else ((stretch[0] == start and stretch[1] >= end) or stretch[1] == end)
            )
        ]
        if fitting:
            # The shortest, since a longer mention may end with the same words.
            _, chain, kind = min(fitting)
            chain_by_mention[mention] = (chain, kind)
    return chain_by_mention


def _is_labelled(pronoun: Mention, chains: Mapping[Mention, Any]) -> bool:
    """Return whether LitBank says what a pronoun stands for.

    It annotates people, places and vehicles: an `it` without a chain may stand for another thing.
    """
    return pronoun in chains or pronoun.pronoun != "it"


def _chained_examples(passage: Passage, part: Chained) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield features and labels of each pronoun; those before it are assigned as people did."""
    chains = _chains(passage, part)

    def has_chain(entity: Entity, chain: int) -> bool:
        return any(m in chains and chains[m][0] == chain for m in entity.mentions)

    for pronoun in passage.pronouns:
        candidates = passage.candidates(pronoun)
        chain, _ = chains.get(pronoun, (-1, ""))
        labels = [has_chain(candidate.entity, chain) for candidate in candidates]
        if candidates and _is_labelled(pronoun, chains):
            yield passage.features(pronoun, candidates), np.array(labels)
        # As people did and not as trees would, so that an early mistake spoils no later example.
        right = [c.entity for c, label in zip(candidates, labels, strict=True) if label]
        passage.assign(pronoun, right[-1] if right else None)


def _gap_examples(
    passage: Passage, row: GapRow, trees: Trees
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield features and labels of a row's pronoun; trees assign the other pronouns before it."""
    pronoun = mention_at(passage, row.pronoun)
    if pronoun is None:
        return
    before = [m for m in passage.pronouns if m.first < pronoun.first]
    assign_pronouns(passage, trees, 0.0, before)
    candidates = passage.candidates(pronoun)
    kept, labels = [], []
    for n, candidate in enumerate(candidates):
        overlaps = [holds(passage, candidate.entity, name) for name in row.names]
        label = any(a and b for a, b in zip(overlaps, row.labels, strict=True))
        # Where neither name is right, the label of other entities is unknown. Nouns are left out: a
        # row of GAP asks about names alone, so that the trees would learn never to choose a noun.
        named = any(m.kind != "noun" for m in candidate.entity.mentions)
        if any(overlaps) or (any(row.labels) and named):
            kept.append(n)
            labels.append(label)
    if kept:
        features = passage.features(pronoun, candidates)[kept]
        yield features, np.array(labels)
        # Once more with nouns for its names, since GAP holds none.
        yield as_nouns(features), np.array(labels)


def as_nouns(features: np.ndarray) -> np.ndarray:
    """Return features with each name as a noun that names a person; nouns and pronouns stay."""
    changed = features.copy()
    names = features[:, FEATURES.index("is_name")] > 0
    for name, value in OF_A_NOUN.items():
        changed[names, FEATURES.index(name)] = value
    return changed


def _add(examples: Examples, pairs: Iterator[tuple[np.ndarray, np.ndarray]]) -> None:
    for features, labels in pairs:
        examples[0].append(features)
        examples[1].append(labels)


def fit(of_litbank: Examples, of_gap: Examples) -> Trees:
    """Return boosted trees that tell antecedents from other candidates."""
    try:
        from sklearn.ensemble import GradientBoostingClassifier
    except ImportError:
        problem = "scikit-learn is missing: pip install 'xnmt_bench[resolver]'"
        raise XnmtError(problem) from None
    features = np.concatenate(of_litbank[0] + of_gap[0])
    labels = np.concatenate(of_litbank[1] + of_gap[1])
    weights = np.ones(len(labels))
    # GAP has far fewer pronouns than LitBank, and all of them were chosen to be ambiguous.
    weights[sum(map(len, of_litbank[1])) :] = GAP_WEIGHT
    booster = GradientBoostingClassifier(random_state=SEED, **TREES)
    booster.fit(features, labels, sample_weight=weights)
    # Copied into plain arrays: the package applies trees without scikit-learn.
    roots, parts, offset = [], [], 0
    for tree in (estimator.tree_ for estimator in booster.estimators_[:, 0]):
        leaf = tree.children_left < 0
        node_numbers = np.arange(tree.node_count)
        roots.append(offset)
        parts.append(
            (
                np.where(leaf, -1, tree.feature),
                np.where(leaf, 0.0, tree.threshold),
                offset + np.where(leaf, node_numbers, tree.children_left),
                offset + np.where(leaf, node_numbers, tree.children_right),
                np.where(leaf, booster.learning_rate * tree.value[:, 0, 0], 0.0),
            )
        )
        offset += tree.node_count
    # The booster begins from the share of right candidates, in log-odds.
    share = float(np.average(labels, weights=weights))
    feature, threshold, left, right, value = map(np.concatenate, zip(*parts, strict=True))
    bias = float(np.log(share / (1 - share)))
    return Trees(np.array(roots), feature, threshold, left, right, value, bias)


def _link_f1(model: Model, parts: Sequence[Chained]) -> float:
    """Return F1 of pronouns' links to any mention of their chain in their passage."""
    right = linked = linkable = 0
    for part in parts:
        passage = model.resolve(part.text)
        chains = _chains(passage, part)
        for pronoun in (p for p in passage.pronouns if _is_labelled(p, chains)):
            entity = next(e for e in passage.entities if pronoun in e.mentions)
            antecedents = [m for m in entity.mentions if m is not pronoun]
            chain = chains[pronoun][0] if pronoun in chains else None
            # A pronoun alone in its entity claims no link, right or wrong.
            linked += bool(antecedents)
            linkable += chain is not None and any(
                c == chain for m, (c, _) in chains.items() if m is not pronoun
            )
            right += any(m in chains and chains[m][0] == chain for m in antecedents)
    return 2 * right / (linked + linkable)


def save(model: Model, path: Path) -> None:
    """Write the numbers of a model as JSON, compressed; the same model gives the same bytes."""
    trees = {
        # Six digits, so that the file, which comes with the package, stays small.
        name: np.round(getattr(model.trees, name), 6).tolist()
        for name in ("roots", "feature", "threshold", "left", "right", "value")
    }
    content = {
        # With weights of another order of features, every score would be wrong in silence.
        "features": list(FEATURES),
        "trees": trees | {"bias": model.trees.bias},
        "threshold": model.threshold,
        "given_names": model.lexicon.given_names,
        "nouns": model.lexicon.nouns,
    }
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    # No time of writing in the file.
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def main(arguments: list[str] | None = None) -> int:
    """Train and write the weights; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.resolver.train",
        description="Learns the resolver that comes with the package from GAP and LitBank.",
    )
    files = f"gap-development.tsv.gz, gap-validation.tsv.gz and {LITBANK}"
    parser.add_argument("folder", type=Path, help=f"holds {files}")
    parser.add_argument(
        "weights", type=Path, nargs="?", default=WEIGHTS, help="the file to write; the package's"
    )
    chosen = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        model = train(chosen.folder)
        save(model, chosen.weights)
    except (XnmtError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    size = chosen.weights.stat().st_size
    log.info("%s: %d bytes, threshold %.2f", chosen.weights, size, model.threshold)
    log.info(
        "%d features, %d names, %d nouns",
        len(FEATURES),
        len(model.lexicon.given_names),
        len(model.lexicon.nouns),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
