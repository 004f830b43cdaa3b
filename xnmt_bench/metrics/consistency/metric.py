"""Coreference consistency of translations, as a metric (Yehudai et al. 2023)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from xnmt_bench.corpora.formats.alignment import counts_from_one
from xnmt_bench.corpora.sentence import Corpus, Links
from xnmt_bench.corpora.suites.consistency.chains import chains
from xnmt_bench.corpora.suites.consistency.reading import CHAINS, OWN, BringsSuite, read_suite
from xnmt_bench.corpora.suites.consistency.resolver import Resolver
from xnmt_bench.corpora.suites.consistency.suite import Suite
from xnmt_bench.corpora.suites.consistency.winomt import SUBSETS
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import ConfigError, NotApplicable, StoreError, XnmtError
from xnmt_bench.measuring.listing import Listing, names
from xnmt_bench.measuring.measurement import (
    EXPLAINED,
    Evidence,
    Measurement,
    PlannedRow,
    ScoredRow,
)
from xnmt_bench.measuring.metric import Column, Further, Key, SumMetric, count, hundredths
from xnmt_bench.measuring.units import Bounds, Units, by_unit
from xnmt_bench.metrics.consistency.judge import (
    CAUSES,
    CLUSTERS,
    JudgedPronoun,
    Translation,
    judge,
)
from xnmt_bench.metrics.consistency.listed_pronouns import FILE, listing, write_judged
from xnmt_bench.metrics.consistency.mention_links import EFLOMAL, EXPLAINER, TRAIN, WAYS
from xnmt_bench.metrics.consistency.mention_links import FILE as LINKS
from xnmt_bench.metrics.consistency.points import (
    RELEVANCE_FILE,
    Pointing,
    WordWeights,
    points,
    weigh_suite,
    write_entity_relevance,
)
from xnmt_bench.metrics.consistency.statistics import POINTED, POINTING, results, statistics
from xnmt_bench.metrics.consistency.translation_set import REFERENCE, TranslationSet, translated
from xnmt_bench.morphology import Morphology
from xnmt_bench.options import Text
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.settings import DoubtSettings
from xnmt_bench.pipeline.texts import test_set
from xnmt_bench.registry import create, entries, load_all
from xnmt_bench.store import file_hash, fingerprint

log = logging.getLogger(__name__)
JUDGED, ENTITY_RELEVANCE = "judged", "entity_relevance"  # of a measurement's files
ENGLISH = "en"  # of all suites
GOING = {  # of a pronoun, by cluster, in words
    "right": "agree with the right one alone",
    "wrong": "agree with the wrong one alone",
    "both": "agree with both",
    "none": "agree with neither",
    "unknown": "are themselves, or have one of both, of unknown gender",
}
one_digit = "{:.1f}".format


class Consistency(SumMetric):
    """Whether pronouns agree with the nouns that they refer to; no reference is needed.

    A unit is a sentence of a suite, with all its pronouns.

    Args:
        suite: by name; `chains` are those of the configured corpus, such as ParCorFull's, and
            `corpus` is the suite that a generated corpus brings.
        data: the folder that holds the suites.
        language: of the translations; None for the configured corpus's.
        links: `eflomal`, `explainer` (the configured one's relevance), `gold` (of references),
            `rule` (of a generated corpus's suite), or a file of links in Pharaoh's form.
        learn_from: what else eflomal learns from: `train`, the configured corpus's training
            sentences, or a file of lines `source ||| translation`.
        morphology: by name; None for the language's usual one.
        resolver: an English resolver to compare with: a plug-in's name, or a file of clusters.
        relevance: whether the configured explainer tells at which entity a pronoun looks.
    """

    name = "consistency"
    papers = ("yehudai2023",)
    setting_options = ()
    reads_relevance = True
    inputs = ("outputs",)
    needs = "a suite of pronouns (metric.consistency.suite and metric.consistency.data)"
    title = "Coreference consistency"
    note = (
        "Share of the pronouns whose translation has the gender of their entity's, where both have "
        "one, with its 95 % bootstrap interval over sentences; higher is better. Gender accuracy: "
        "the entity's is the gold one. Delta G: F1 of masculine less that of feminine entities; "
        "delta S: accuracy on stereotypical less anti-stereotypical sentences. Link: the pronoun "
        "goes with the right one of two entities of different gender. Both: the entities have one "
        "gender, so a translator that uses the masculine form everywhere is consistent too."
    )
    resolver_note = (
        "Below the resolver: how much more often the resolver is right on the pronouns that link "
        "counts, paired."
    )
    points_note = (
        "Points: at the words that translate the pronoun the right entity weighs more than the "
        "other, or that does which the pronoun goes with; 50 is chance."
    )
    keys = (
        Key("links", "links", "links: {}", usual=EFLOMAL),
        Key("learn_from", "learnt from", "learnt from {} too"),
        Key("morphology", "genders", "genders: {}"),
        Key("resolver", "resolver", "resolver: {}"),
        Key("explainer", "explainer", "relevance: {}"),
        Key("seed", "seed"),
    )
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        "items": Bounds(1),
        "consistent": Bounds(0, 1, of="determined"),
        "pronoun_n": Bounds(0, 1, of="pronoun_known"),
        "accurate": Bounds(0, 1, of="gold"),
        "hit_*": Bounds(0, 1, of="gold_*"),
        **{f"{name}_right": Bounds(0, 1, of=name) for name in SUBSETS},
        "expected": Bounds(0, 1, of="expecting"),
        "resolved": Bounds(0, 1, of="resolvable"),
        "we_decide": Bounds(0, 1, of="both_decide"),
        "resolver_decides": Bounds(0, 1, of="both_decide"),
        "pointed": Bounds(0, 1, of="pointing"),
        "pointed_there": Bounds(0, 1, of="going"),
        f"{POINTED}*": Bounds(0, 1, of=f"{POINTING}*"),
        "on_markers": Bounds(0, 1, of="marker_n"),
        # Everything is of some pronouns.
        "*": Bounds(0, 1, of="items"),
    }
    columns = (
        Column.higher("consistency", "consistency %", hundredths).means(
            "share of the pronouns that have the gender of the noun that they refer to"
        ),
        Column("determined", "determined %", hundredths).means(
            "share of the pronouns where the genders of pronoun and noun are both known"
        ),
        Column.higher("gender_accuracy", "gender accuracy %", hundredths).means(
            "share of the nouns whose gender is the annotated one"
        ),
        Column.higher("f1_male", "F1 masculine", one_digit, shown=False),
        Column.higher("f1_female", "F1 feminine", one_digit, shown=False),
        Column("delta_g", "delta G", one_digit, interval=True).means(
            "F1 of masculine entities less F1 of feminine ones"
        ),
        Column("delta_s", "delta S", one_digit, interval=True).means(
            "gender accuracy of stereotypical sentences, less that of anti-stereotypical"
        ),
        Column.higher("pronoun_accuracy", "pronoun accuracy %", hundredths).means(
            "share of the pronouns that are the annotated one"
        ),
        Column.higher("link_accuracy", "link %", hundredths).means(
            "share of the pronouns that agree with the right entity of two"
        ),
        Column("link_n", "link n", count).means(
            "pronouns that agree with one of two entities of different gender"
        ),
        Column.higher("points_right", "points at the right %", hundredths).means(
            "share of the pronouns whose relevance is greater on the right entity"
        ),
        Column.higher("points_there", "points where it goes %", hundredths).means(
            "share of the pronouns whose relevance is greater where they agree"
        ),
        Column("marker_share", "on markers %", hundredths, interval=True).means(
            "share of the relevance at the pronoun that stands on markers"
        ),
        Column("resolver_accuracy", "resolver %", hundredths, shown=False, interval=True),
        Column("resolver_there", "resolver there %", hundredths, shown=False, interval=True),
        Column.lower("below_resolver", "below the resolver", hundredths).means(
            "how much less often than an English resolver it points right"
        ),
        Column("neutral_pronouns", "neutral pronouns %", hundredths, shown=False, interval=True),
        *(Column(name, f"{name.replace('_', ' ')} %", hundredths, shown=False) for name in CAUSES),
        *(
            Column(f"cluster_{c}", f"{c} %", hundredths, shown=c == "both").means(
                f"share of the pronouns with another entity that {GOING[c]}"
            )
            for c in CLUSTERS
        ),
    )
    compared = "nmt"

    def __init__(
        self,
        suite: Text = "winomt",
        data: Text | None = None,
        language: Text | None = None,
        links: Text = EFLOMAL,
        learn_from: Text | None = None,
        morphology: Text | None = None,
        resolver: Text | None = None,
        relevance: bool = False,
    ) -> None:
        self.suite, self.data, self.language = suite, data, language
        self.links, self.learn_from, self.resolver = links, learn_from, resolver
        self._morphology, self.relevance = morphology, relevance

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield a system's translations of the suite, or a file's, and people's."""
        language = self._language(job)
        name, morphology = self._chosen(language)
        suite = self._suite(job, language)
        asks_explainer = self._explained and job.input_file("relevance") is None
        if asks_explainer and job.explained.explainer.alters:
            raise NotApplicable("altered explainers test judges; they are not measured on pronouns")
        # Before any row is planned, so that a wrong file or name ends the run at once.
        resolver = self.resolve_suite(suite)
        for translation_set in translated(job, suite, self.suite):
            identity: dict[str, Any] = {
                "corpus": suite.name,
                "lang_pair": f"{self._source(job)}-{language}",
                "nmt": translation_set.nmt,
                "links": self._linked_by(job, translation_set),
                "morphology": name,
                # Only names: a path of this machine means nothing where results are read.
                "learn_from": Path(self.learn_from).name if self.learn_from else "",
                "resolver": Path(self.resolver).name if self.resolver else "",
                "explainer": self._explained_by(job, translation_set) if self.relevance else "",
                # Empty where nothing asks the explainer, so that seeds of a sweep give one row.
                "seed": job.explained_identity()["seed"] if self._explained else "",
            }
            facts: dict[str, Any] = {
                "blind": translation_set.nmt == REFERENCE,  # people are not ranked
                "generated": self._of_corpus and job.corpus.generated,
            }
            if self.relevance:
                facts["blind_explainer"] = job.explained.explainer.blind
            # By what files hold: two versions of a suite under one name are two rows.
            content = {"suite": suite.fingerprint} | self._file_content()
            if resolver is not None:
                content["resolver"] = resolver.fingerprint
            if not (translation_set.people or translation_set.own):
                input_files = self.input_files(job)
                content |= {
                    kind: input_file.fingerprint for kind, input_file in input_files.items()
                }
            if self.learn_from == TRAIN:
                content["learn_from"] = fingerprint(job.corpus.recipe("train"))
            if translation_set.own:
                content |= translation_set.content
            if self._explained:
                content |= job.file_relevance
            # A row of a file or of people depends on the system only by its relevance.
            of_relevance = self._explained and not translation_set.own
            yield self.plan(
                job,
                partial(self._evidence, translation_set, morphology, resolver),
                translation_set.stages,
                partial(_further, job if of_relevance else None, content, facts),
                of_system=translation_set.own,
                of_corpus=False,  # doubts about the links and genders come with the evidence
                **identity,
            )

    def resolve_suite(self, suite: Suite) -> Resolver | None:
        """Return what the resolver makes of a suite: of a file, or of a plug-in by its name.

        Raises:
            DataError: there is no such file and no such plug-in, or the file is of other sentences.
            XnmtError: the plug-in knows no sentence of the suite, or lacks a package.
        """
        if not self.resolver:
            return None
        path = Path(self.resolver)
        # A file comes first; a name that is neither is named as a missing file.
        if path.exists() or self.resolver not in entries("resolvers"):
            return Resolver(path, suite)
        plug_in = create("resolvers", self.resolver)
        clusters = list(plug_in.resolve(suite.sentences))
        if all(of_sentence is None for of_sentence in clusters):
            raise XnmtError(
                f"resolver {self.resolver!r} has clusters for no sentence of {suite.name}"
            )
        return Resolver.of_clusters(suite, clusters, plug_in.fingerprint)

    def _file_content(self) -> dict[str, str]:
        """Return fingerprints of the files among its options; their names are in its columns."""
        options = {"learn_from": self.learn_from, "links": self.links}
        paths = {name: Path(value) for name, value in options.items() if value}
        return {name: file_hash(path)[:16] for name, path in paths.items() if path.is_file()}

    def measured_from_files(self, job: Job) -> bool:
        """Return whether files hold everything: translations do, an explainer needs the system."""
        return job.input_file("outputs") is not None and not self._explained

    @property
    def _explained(self) -> bool:
        """Whether it asks the configured explainer."""
        return self.relevance or self.links == EXPLAINER

    @property
    def _of_corpus(self) -> bool:
        """Whether the suite is the configured corpus's own, and not a folder's."""
        return self.suite in (CHAINS, OWN)

    def _language(self, job: Job) -> str:
        """Return the language of the translations.

        Raises:
            ConfigError: it is not known, or the suites' folder is not.
            XnmtError: the system translates between other languages.
        """
        from_files = job.input_file("outputs") is not None
        # A file's translations of a suite need not be in the configured corpus's language.
        configured = None if from_files and not self._of_corpus else job.corpus.target_language
        chosen = {
            "data": self.suite if self._of_corpus else self.data,
            "language": self.language or configured,
        }
        if self.learn_from and self.links != EFLOMAL:
            problem = (
                f"metric.consistency.learn_from needs links={EFLOMAL}; links={self.links} learns "
                "nothing"
            )
            raise ConfigError([problem])
        if missing := [name for name, value in chosen.items() if value is None]:
            raise ConfigError(
                [
                    f"metric.consistency.{name}: has no value yet; give "
                    f"metric.consistency.{name}=..."
                    for name in missing
                ]
            )
        language = str(chosen["language"])
        # A system says one language, so another one is a slip.
        if configured not in (None, language):
            problem = f"the corpus's target language is {configured}"
            raise XnmtError(f"metric.consistency.language={language}, but {problem}")
        if not from_files and not self._of_corpus and job.corpus.source_language != ENGLISH:
            problem = f"the system translates from {job.corpus.source_language}"
            raise XnmtError(f"the sentences of {self.suite} are English, but {problem}")
        return language

    def _source(self, job: Job) -> str:
        return job.corpus.source_language if self._of_corpus else ENGLISH

    def _explained_by(self, job: Job, translation_set: TranslationSet) -> str:
        """Return the explainer, and of translations of others whose relevance it is."""
        name = str(job.explained.name)
        return name if translation_set.own else f"{name} of {job.system.name}"

    def _linked_by(self, job: Job, translation_set: TranslationSet) -> str:
        if self.links == EXPLAINER:
            return self._explained_by(job, translation_set)
        return self.links if self.links in WAYS else Path(self.links).name

    def _suite(self, job: Job, language: str) -> Suite:
        if self.suite == CHAINS:
            return chains(job.corpus)
        if self.suite == OWN:
            if not isinstance(job.corpus, BringsSuite):
                raise NotApplicable(f"corpus {job.corpus.name} has no suite of pronouns")
            return job.corpus.suite()
        return read_suite(self.suite, Path(str(self.data)), language)

    def _chosen(self, language: str) -> tuple[str, Morphology]:
        """Return the named morphology, or the language's usual one.

        Raises:
            XnmtError: there is none, or it is of another language.
        """
        # All of them, since only their classes say which language they are of.
        morphologies = load_all("morphologies")
        usual = [
            name
            for name, morphology in morphologies.items()
            if morphology.usual and morphology.language == language
        ]
        name = self._morphology or next(iter(usual), None)
        if name is None:
            available = ", ".join(
                f"{morphology.language} ({name})" for name, morphology in morphologies.items()
            )
            hint = (
                "pip install 'xnmt_bench[morphology]' brings more, plug-ins others "
                "(docs/guide/plugins.md)"
            )
            raise XnmtError(f"no morphology of {language!r}; installed are {available}; {hint}")
        morphology_made: Morphology = create("morphologies", name)
        if morphology_made.language != language:
            raise XnmtError(
                f"morphology {name} is for {morphology_made.language}, but the translations are "
                f"{language}"
            )
        return name, morphology_made

    def _evidence(
        self, translation_set: TranslationSet, morphology: Morphology, resolver: Resolver | None
    ) -> Evidence:
        job, suite = translation_set.job, translation_set.suite
        learn_from: Corpus | Path | None = Path(self.learn_from) if self.learn_from else None
        # The word `train` is an option and no file of that name.
        learn_from = job.corpus if self.learn_from == TRAIN else learn_from
        aligned, links = translation_set.links(self.links, learn_from)
        translations = {
            n: Translation(split_words(text), links[n])
            for n, (_, text) in translation_set.pairs.items()
            if n in links  # an explainer may leave sentences out
        }
        items = [
            item
            for item in suite.items
            # Every sentence of its entities has to be there, not only its own.
            if {item.sentence - back for back in item.backs} <= translations.keys()
        ]
        if not items:
            raise XnmtError(f"none of the translated sentences has a pronoun of {suite.name}")
        judged = [judge(suite, item, translations, morphology) for item in items]
        # Of the links themselves: eflomal's are others each time.
        made_by = {
            "suite": suite.fingerprint,
            "translations": fingerprint(
                {"pairs": [[n, *p] for n, p in translation_set.pairs.items()]}
            ),
            "links": file_hash(aligned.path / LINKS)[:16],
            # A signature separates its fields by colons.
            "genders": morphology.version.replace(":", ""),
        }
        made_further: dict[str, str] = {}
        resolved: list[bool | None] = []
        pointings: list[Pointing] = []
        weights: dict[int, WordWeights] = {}
        # By form, so that `she` and `it` can be compared.
        forms = [suite.pronoun(item) for item in items]
        if resolver is not None:
            resolved = list(map(resolver.right, items))
            made_further["resolver"] = resolver.fingerprint
        if self.relevance:
            weighed_sentences = translation_set.weighed_sentences
            weights = weigh_suite(weighed_sentences, translation_set.pairs, items)
            pointings = points(weights, items, judged)
            made_further["relevance"] = weighed_sentences.fingerprint
        columns = statistics(items, judged, resolved, pointings, forms)
        units = self._units(translation_set, columns, np.array([item.sentence for item in items]))
        # Stored with the sums: the page and the sheets show each pronoun.
        artefact = job.store.stage(
            "consistency_judged",
            partial(write_judged, suite, items, translations, judged),
            version=5,
            cheap=True,
            morphology=type(morphology).__name__,
            # The genders' rules count by their version, since their code lies outside the recipe.
            **dict[str, Any](made_by),
        )
        files = {JUDGED: artefact.path / FILE}
        if self.relevance:
            relevance_artefact = job.store.stage(
                "consistency_relevance",
                partial(write_entity_relevance, weights, items, judged),
                version=2,
                cheap=True,
                judged=artefact,
                # Of its own, so that a row without relevance and one with it share the judged
                # pronouns.
                relevance=made_further["relevance"],
            )
            files[ENTITY_RELEVANCE] = relevance_artefact.path / RELEVANCE_FILE
        facts = {
            "genders": morphology.version,
            "left_out": len(suite.items) - len(items),
            "resolver": resolver is not None,
        }
        thresholds = job.settings.doubts
        doubts = [
            *self._about_links(links, thresholds),
            *_about_genders(judged, morphology.language, thresholds),
        ]
        facts |= {"doubts": doubts} if doubts else {}
        settings: dict[str, Any] = job.search_settings if translation_set.own else {}
        if self._explained:
            most = job.settings.rules.test_sentences
            limited = most is not None and most < len(translation_set.pairs)
            # By the option and not by the sentences, which may differ before and after tuning.
            settings[EXPLAINED] = f"the first {most} sentences" if limited else "all"
            settings |= job.learning_settings
        return Evidence(units, made_by | made_further, facts, files, settings)

    def _about_links(self, links: Mapping[int, Links], thresholds: DoubtSettings) -> Iterator[str]:
        """Yield a doubt about what a file of links counts words from."""
        from_file = self.links not in WAYS and thresholds.gold_shift is not None
        if from_file and counts_from_one(links.values()):
            name = Path(self.links).name
            yield f"no link of {name} has word 0; the file should count words from 0"

    def _units(
        self,
        translation_set: TranslationSet,
        columns: Mapping[str, np.ndarray],
        sentence_N: np.ndarray,
    ) -> Units:
        """Sum over the pronouns of each sentence."""
        # By sentence and not by pronoun: pronouns of one sentence depend on each other.
        numbers, sums = by_unit(sentence_N, **columns)
        suite = translation_set.suite
        of = (
            test_set(translation_set.job.corpus)
            if self.suite == CHAINS
            # Content and not only the name, so that two versions of a suite are never paired.
            else (f"{suite.name} {suite.fingerprint}")
        )
        # Without `rows`, since `items` counts the same.
        return Units(of, numbers, {name: sums[name] for name in columns})

    def listings(self, measurements: Sequence[Measurement]) -> Iterator[Listing]:
        """Yield every sentence, with the links and genders of its mentions."""
        read = [m for m in measurements if JUDGED in m.files]
        for name, m in zip(names(read, self.identity), read, strict=True):
            try:
                yield listing(name, m.file(JUDGED))
            except StoreError as error:
                # One damaged file leaves the other listings on the page.
                log.warning("not on the page: %s", error)

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the results (R,) from the sums; see `statistics.results`."""
        return results(sums_R)

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return notes on what was left out, by cause, and on the words that showed genders."""
        notes = []
        for scored_row in (s for s in scored if s.measurement.ok):
            row, facts = scored_row.row, scored_row.measurement.facts.of_metric
            causes = ", ".join(
                f"{name.replace('_', ' ')} {100 * row[name]:.1f} %" for name in CAUSES
            )
            row_name = f"{row['corpus']} {row['lang_pair']} {row['nmt']}"
            lost = facts["left_out"]
            also = f", and {lost:,} pronouns whose sentence was left out" if lost else ""
            notes.append(f"{row_name}: left out: {causes}{also}. Genders: {facts['genders']}.")
        if any(s.measurement.facts.of_metric.get("resolver") for s in scored):
            notes.append(self.resolver_note)
        if any(s.row["explainer"] for s in scored):
            notes.append(self.points_note)
        return notes


def _about_genders(
    judged: Sequence[JudgedPronoun], language: str, thresholds: DoubtSettings
) -> Iterator[str]:
    """Yield a doubt about the language of translations that hardly show any gender."""
    share = np.mean([not pronoun.cause for pronoun in judged])
    if thresholds.determined is not None and share < thresholds.determined:
        yield (
            f"the genders of pronoun and entity show in {100 * share:.1f} % of the pronouns: "
            f"are the translations {language} (metric.consistency.language)?"
        )


def _further(job: Job | None, content: Mapping[str, str], facts: Mapping[str, Any]) -> Further:
    """Return what a translation set adds; with a job, whose system says translations of others."""
    of_system = {"system": job.system.fingerprint} if job else {}
    return Further(content={**content, **of_system}, facts=facts)
