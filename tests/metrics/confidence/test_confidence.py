"""Confidence through the pipeline: own systems, other tools' dumps, annotated translations."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest

from support.attention_dumps import DUMPS
from support.configurations import configure, overrides
from support.forked_commands import command, must_run
from support.systems import context_aware, small_job
from xnmt_bench.dumps.json_lines import JsonLines
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.measuring.measurement import read, write
from xnmt_bench.metrics.confidence import Confidence
from xnmt_bench.metrics.confidence.scores import confidence
from xnmt_bench.metrics.confidence.sentences import Reading, rows
from xnmt_bench.parquet import read_table
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.weighed_sentences import _logarithms, weigh_sentences
from xnmt_bench.rules.extract import REAL
from xnmt_bench.words.pieces import as_shares

EXPLAINED = "rules.test_sentences=12"


def job_of(workplace, name, explainer, *changes):
    return small_job(workplace, name, f"explainer={explainer}", EXPLAINED, *changes)


def measured(job, **options):
    [planned] = Confidence(**options).measure(job)
    return planned, planned.make()


@pytest.mark.parametrize(
    ("system", "explainer"),
    [("transformer", "attention"), ("rnn_search", "attention"), ("transformer", "gradient_norm"),
     ("transformer", "random")],
)  # fmt: skip
def test_own_translations_are_scored_by_their_relevance(workplace, system, explainer):
    """Recomputed from the stored relevance, sentence by sentence."""
    job = job_of(workplace, system, explainer)
    planned, evidence = measured(job)
    assert planned.keys["explainer"] == explainer
    columns = read_table(evidence.files["sentences"]).to_pylist()
    relevances = list(job.relevance(REAL, source_alone=True))
    outputs = job.outputs().texts
    assert len(columns) == len(relevances) == len(evidence.units) == 12
    for row, relevance, output in zip(columns, relevances, outputs, strict=False):
        assert (row["sentence"], row["target"]) == (relevance.number, output)
        weights = (
            relevance.source_TS if explainer == "attention" else as_shares(relevance.source_TS)
        )
        assert weights.sum(1) == pytest.approx(1, abs=1e-5)
        tokens = len(weights) - (job.texts.subwords[1].encode(output) != [] and 1)
        expected = confidence(weights, row["overlap"], tokens)
        for name in ("cdp", "ap_out", "ap_in", "confidence"):
            assert row[name] == pytest.approx(getattr(expected, name), rel=1e-9)
        assert row["log_probability"] == pytest.approx(
            np.log(relevance.probability_T).mean(), rel=1e-5
        )
        contribution = row["source_contribution"]
        assert np.isnan(contribution) == (explainer == "attention")
        assert np.isnan(contribution) or 0 < contribution <= 1


def test_what_is_written_for_our_systems_reads_alike(workplace, tmp_path):
    """The JSON lines, given back as a dump, have the same scores."""
    _, written = measured(job_of(workplace, "transformer", "attention"))
    dump = configure("metric=[confidence]", f"relevance.path={written.files['weights']}",
                     "relevance.format=json_lines", f"store={tmp_path}/store")  # fmt: skip
    planned, again = measured(Job(dump, may_make=False))
    assert planned.keys["nmt"] == "weights.jsonl"
    for name in ("confidence", "overlap", "attention_to_eos", "log_probability"):
        np.testing.assert_allclose(again.units[name], written.units[name], rtol=1e-5)
    assert "chrf" not in again.units.columns


@pytest.mark.parametrize(
    ("eos", "unit"), [("drop", "pieces"), ("keep", "words"), ("drop", "words")]
)
def test_how_weights_are_read(workplace, eos, unit):
    job = job_of(workplace, "transformer", "attention")
    _, evidence = measured(job, eos=eos, unit=unit)
    kept = JsonLines(measured(job)[1].files["weights"])
    for value, sentence in zip(evidence.units["cdp"], kept, strict=True):
        weights = sentence.weights_TS
        if unit == "words":
            words = [
                np.array([w if w >= 0 else max(side.words) + 1 for w in side.words])
                for side in (sentence.target, sentence.source)
            ]
            summed = np.stack([weights[:, words[1] == n].sum(1) for n in range(words[1].max() + 1)])
            weights = np.stack([summed.T[words[0] == n].mean(0) for n in range(words[0].max() + 1)])
        if eos == "drop":
            weights = weights[:-1, :-1]
        assert value == pytest.approx(confidence(weights, 0, 9).cdp, abs=1e-6)


@pytest.mark.parametrize("name", ["multi_encoder", pytest.param("cadec", marks=pytest.mark.long)])
def test_weights_of_a_context_are_left_out_for_every_explainer(workplace, name):
    """Shares of the current sentence's words, so that explainers compare."""
    first = context_aware(name, workplace)
    for explainer in ("attention", "gradient_norm"):
        few = "rules.test_sentences=5"
        job = context_aware(name, workplace, f"explainer={explainer}", few)
        _, evidence = measured(job)
        assert evidence.facts["in_context"]
        kept, sentences = JsonLines(evidence.files["weights"]), job.texts.sentences(EVALUATED)
        for value, sentence in zip(evidence.units["cdp"], kept, strict=True):
            assert sentence.source.text == sentences[sentence.number].source  # the sentence alone
            weights = as_shares(sentence.weights_TS)
            assert weights.sum(1) == pytest.approx(1)
            assert value == pytest.approx(confidence(weights, 0, 9).cdp, abs=1e-6)
        assert np.isnan(evidence.units["source_contribution"]).all() == (explainer == "attention")
    assert first.system.context.sentences == 3


def test_another_format_is_another_reading(tmp_path):
    """One file and one store: what was read as one thing is not answered as another."""
    (tmp_path / "dump.txt").write_text(
        "0 ||| x y </s> ||| 0 ||| a b c ||| 3 3\n.6 .1 0\n.2 .5 .1\n.1 .3 .5\n"
    )
    values = set()
    for kind in ("nematus", "sockeye", "nematus"):
        config = configure(f"relevance.path={tmp_path}/dump.txt", f"relevance.format={kind}",
                          f"store={tmp_path}/store")  # fmt: skip
        values.add(float(measured(Job(config, may_make=False))[1].units["cdp"][0]))
    assert len(values) == 2


def test_relevance_of_other_sentences_is_refused(workplace):
    """Golden relevance is of the references, not of the translations."""
    job = job_of(workplace, "transformer", "attention")
    folder = job.relevance("golden", source_alone=True).source.path
    with pytest.raises(XnmtError, match=r"the relevance is of sentence .*; expected sentence "):
        measured(job_of(workplace, "transformer", "attention", f"relevance.path={folder}"))


def test_relevance_of_more_sentences_is_refused(workplace):
    job = job_of(workplace, "transformer", "attention")
    relevances, explained = [*job.relevance(REAL, source_alone=True)], job.explained
    split = explained.decisions.split(EVALUATED, REAL).taken(np.arange(11))
    shorter = SimpleNamespace(
        decisions=SimpleNamespace(split=lambda *_: split),
        texts=explained.texts,
        explainer=explained.explainer,
    )
    assert len(relevances) == 12
    with pytest.raises(XnmtError, match="of more sentences than the 11 sentences"):
        list(weigh_sentences(shorter, REAL, relevances))


def test_relevance_given_as_a_dump_is_not_called_attention(workplace, tmp_path):
    _, written = measured(job_of(workplace, "transformer", "random"))
    dump = configure(f"relevance.path={written.files['weights']}", "relevance.format=json_lines",
                     f"store={tmp_path}/store")  # fmt: skip
    planned, again = measured(Job(dump, may_make=False))
    assert planned.keys["explainer"] == "relevance"
    np.testing.assert_allclose(again.units["confidence"], written.units["confidence"], rtol=1e-5)


def test_a_probability_of_nothing_has_a_logarithm_and_an_unknown_one_none():
    assert np.isfinite(_logarithms(np.array([0.0, 0.5]))).all()
    assert _logarithms(np.array([0.5]))[0] == np.log(0.5)
    assert _logarithms(np.array([np.nan, np.nan])) is None


def test_a_step_that_nothing_helps_is_a_row_of_zeros():
    shares = as_shares(np.array([[1.0, -2.0, 3.0], [-1.0, -1.0, 0.0], [np.nan, 2.0, 0.0]]))
    assert shares.tolist() == [[0.25, 0, 0.75], [0, 0, 0], [0, 1, 0]]


def test_the_gold_alignment_says_nothing_of_translations(workplace):
    with pytest.raises(NotApplicable):
        measured(job_of(workplace, "transformer", "gold_alignment"))


def test_a_sentence_without_a_reference_is_named():
    from xnmt_bench.words import Tokens, Weighed

    sentence = Weighed(3, Tokens.of(["a"], False), Tokens.of(["x"], False), np.ones((1, 1)))
    reading = Reading("paper", "keep", "pieces", True, ("", ""))
    with pytest.raises(XnmtError, match="sentence 3 has no reference: there are 2"):
        rows([sentence], reading, ["x", "y"], lambda translation, reference: {})
    assert rows([], reading, None, lambda translation, reference: {}) == {}


def table(folder, name):
    with (folder / "results" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


BLOCKS = (
    "0 ||| der Hund da ||| 0 ||| the dog there ||| 3 3\n.8 .1 .1\n.1 .8 .1\n.1 .1 .8\n\n"
    "1 ||| ragged ||| 0 ||| sentence ||| 1 1\n1 2\n3\n\n"
    "2 ||| nur das eine ||| 0 ||| one or another ||| 3 3\n.4 .3 .3\n.3 .4 .3\n.3 .3 .4\n"
)


def test_a_dump_from_the_command_line(tmp_path):
    """No model, no corpus; the bad sentence is named and left out."""
    (tmp_path / "dump.txt").write_text(BLOCKS)
    (tmp_path / "ref.txt").write_text("der Hund da\n-\nnur eins\n")
    done = must_run(
        "evaluate.py", "metric=[confidence]", "metric.confidence.show=2", "analysis=[predicts]",
        f"relevance.path={tmp_path}/dump.txt", "relevance.format=nematus",
        f"relevance.reference={tmp_path}/ref.txt", f"results={tmp_path}/results",
        f"store={tmp_path}/store", "relevance.source_language=en", "relevance.target_language=de",
        "nmt.reader._target_=sys.exit", cwd=tmp_path,
    )  # fmt: skip
    assert "left out: " in done.stdout + done.stderr
    assert (
        "dump.txt:8: sentence 2: 1 weights, but the rows above have 2" in done.stdout + done.stderr
    )
    assert "1 sentences cannot be read or are too long, and are left out" in " ".join(
        done.stdout.split()
    )
    assert "source: one or another" in done.stdout
    assert (tmp_path / "results" / "confidence" / "attention_dump_txt_sentence_2.png").exists()
    assert max(map(len, done.stdout.partition("weights\n")[2].splitlines()[:4])) <= 80
    [row] = table(tmp_path, "confidence")
    assert (row["nmt"], row["explainer"], row["lang_pair"]) == ("dump.txt", "attention", "en-de")
    first, last = table(tmp_path, "confidence_sentences")
    assert (first["sentence"], last["sentence"]) == ("0", "2")
    mean = (float(first["confidence_pct"]) + float(last["confidence_pct"])) / 2
    assert float(row["confidence_pct"]) == pytest.approx(mean)
    assert float(first["chrf"]) == pytest.approx(100)
    # Of two sentences, ranks agree or they do not.
    predicted = {(r["score"], r["predicted"]): r for r in table(tmp_path, "confidence_predicts")}
    assert float(predicted["confidence", "chrF"]["spearman"]) == 1


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (["relevance.format=nematis"], "no format 'nematis'; did you mean nematus"),
        (["relevance.format=marian"], "needs a file of source tokens (relevance.source)"),
        (["relevance.format=nematus", "metric=[quality]"],
         "relevance.path: the metric quality does not read a file of relevance.format="),
        (["relevance.format=nematus", "relevance.reference=nowhere"], "nowhere: no such file"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_line(tmp_path, changes, problem):
    (tmp_path / "dump.txt").write_text(BLOCKS)
    done = command("evaluate.py", "metric=[confidence]", f"relevance.path={tmp_path}/dump.txt",
                   f"results={tmp_path}/results", f"store={tmp_path}/store", *changes,
                   cwd=tmp_path)  # fmt: skip
    assert done.returncode != 0
    assert problem in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_dump_is_scored_as_an_alignment_too(tmp_path):
    """Forced over the references, against gold links; a bad sentence is left out."""
    toy = ["corpus=toy", "corpus.train=50", "corpus.valid=5", "corpus.test=6"]
    sentences = list(Job(configure(*toy)).corpus.sentences(EVALUATED))
    lines = [json.dumps({"form": "weights", "version": 1, "attention": True})]
    for number, sentence in enumerate(sentences):
        source, target = sentence.source.split(), sentence.target.split()
        weights = np.full((len(target), len(source)), 0.01)
        for i, j in sentence.gold.possible:
            weights[j, i] = 0.5 / len(source)
        dumped = {"source": source, "target": target, "weights": weights.tolist()}
        lines.append(json.dumps(dumped) if number != 2 else "{")
    (tmp_path / "gold.jsonl").write_text("\n".join(lines) + "\n")
    options = [*toy, "metric=[aer]", f"relevance.path={tmp_path}/gold.jsonl",
             "relevance.format=json_lines", f"results={tmp_path}/results",
             f"store={tmp_path}/store", "nmt.reader._target_=sys.exit"]  # fmt: skip
    must_run("evaluate.py", *options, cwd=tmp_path)
    by_name = {row["explainer"]: row for row in table(tmp_path, "aer")}
    # A word has one link at most, so a second sure one is missed.
    assert float(by_name["gold.jsonl"]["precision"]) == 1
    assert float(by_name["gold.jsonl"]["aer"]) < 0.05
    assert by_name["gold.jsonl"]["units"] == by_name["diagonal"]["units"] == "5"
    assert float(by_name["diagonal"]["aer"]) > 0


def test_annotated_translations_are_said_by_our_system(workplace, tmp_path, transformer):
    """ScoredRow under our system, and detected by it, beside what the text alone tells."""
    pairs = transformer.texts.sentences(EVALUATED, 12)
    with (tmp_path / "marked.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["", "src", "mt", "ref", "broken", "fine"])
        for number, pair in enumerate(pairs):
            other = pairs[(number + 1) % len(pairs)].target
            broken = number % 3 == 0
            writer.writerow([number, pair.source, other if broken else pair.target, pair.target,
                             int(broken), int(not broken)])  # fmt: skip
    options = [*overrides("transformer", workplace), "metric=[confidence]", "explainer=attention",
               f"results={tmp_path}/results", f"outputs.path={tmp_path}/marked.csv",
               "outputs.format=annotated"]  # fmt: skip
    must_run("train.py", *options, cwd=tmp_path)
    labels = "+analysis.detects.labels={both:[broken],turned:[not fine],either:[broken,fine]}"
    labels = labels.replace("+analysis", "analysis")
    must_run("evaluate.py", *options, "analysis=[detects]", labels, cwd=tmp_path)
    [row] = table(tmp_path, "confidence")
    assert (row["corpus"], row["nmt"], row["explainer"]) == (
        "marked.csv", "marked.csv", "attention of transformer"
    )  # fmt: skip
    row_of = {(r["detector"], r["label"]): r for r in table(tmp_path, "confidence_detects")}
    probability = row_of["log probability", "both"]
    assert (probability["positive"], probability["sentences"]) == ("4", "12")
    assert float(probability["auroc"]) > 0.9
    assert probability["auroc"] == row_of["log probability", "turned"]["auroc"]
    assert row_of["log probability", "either"]["auroc"] == "nan"
    assert float(row_of["chrf", "both"]["auroc"]) == 1


@pytest.mark.shared("attention_dumps")
def test_the_released_tools_definition_reads_marians_dump_as_it_does(tmp_path):
    """Its mean over 30 sentences, whose target EOS it does not read."""
    with (DUMPS / "expected.tsv").open(encoding="utf-8") as file:
        expected = [
            float(row["confidence"])
            for row in csv.DictReader(file, delimiter="\t")
            if (row["file"], row["definition"]) == ("marian/rnn.soft.de", "softalignments")
        ]
    job = Job(configure(
        f"relevance.path={DUMPS}/marian/rnn.soft.de", "relevance.format=marian",
        f"relevance.source={DUMPS}/marian/rnn.src.en", f"store={tmp_path}/store",
    ), may_make=False)  # fmt: skip
    _, evidence = measured(job, definition="softalignments")
    np.testing.assert_allclose(evidence.units["confidence"], expected, atol=1e-6)


def test_a_damaged_row_costs_its_own_sentences_alone(tmp_path):
    """Units that cannot be read, or texts that are not there, of one of two rows."""
    for name, text in (
        ("a", "0 ||| x y ||| 0 ||| a b c ||| 0 0\n1 0 0\n.4 .3 .3\n"),
        ("b", BLOCKS),
    ):
        (tmp_path / f"{name}.txt").write_text(text)
        config = configure(f"relevance.path={tmp_path}/{name}.txt", "relevance.format=nematus",
                          f"store={tmp_path}/store")  # fmt: skip
        metric = Confidence(show=0)
        [planned] = metric.measure(Job(config, may_make=False))
        write("confidence", planned.identify(), planned.make(), tmp_path / "results")
    measurements = read("confidence", tmp_path / "results", metric.identity)
    details_of = dict(metric.details(measurements))
    assert {r["nmt"] for r in details_of["confidence_sentences"]} == {"a.txt", "b.txt"}
    [damaged] = (m for m in measurements if m.identity["nmt"] == "a.txt")
    damaged.file("sentences").unlink()
    assert {r["nmt"] for r in dict(metric.details(measurements))["confidence_sentences"]} == {
        "b.txt"
    }
    assert len([*metric.shows(measurements)]) == 1


def test_a_sentence_of_two_rows_has_two_captions(tmp_path):
    """Its figure has the name of the caption's first line, so that neither replaces the other."""
    (tmp_path / "a.txt").write_text(BLOCKS)
    config = configure(f"relevance.path={tmp_path}/a.txt", "relevance.format=nematus",
                      f"store={tmp_path}/store")  # fmt: skip
    for definition in ("paper", "softalignments"):
        metric = Confidence(show=0, definition=definition)
        [planned] = metric.measure(Job(config, may_make=False))
        write("confidence", planned.identify(), planned.make(), tmp_path / "results")
    measurements = read("confidence", tmp_path / "results", metric.identity)
    first_lines = {caption.partition("\n")[0] for caption, _ in metric.shows(measurements)}
    assert first_lines == {
        "attention, a.txt, paper, sentence 0", "attention, a.txt, softalignments, sentence 0",
    }  # fmt: skip


def test_each_token_is_shown_with_its_own_number(tmp_path):
    """Also by the released tool's names, which are the other way round."""
    (tmp_path / "dump.txt").write_text("0 ||| x y ||| 0 ||| a b c ||| 0 0\n1 0 0\n.4 .3 .3\n")
    config = configure(f"relevance.path={tmp_path}/dump.txt", "relevance.format=nematus",
                      f"store={tmp_path}/store")  # fmt: skip
    for definition, heading in (("paper", "APout"), ("softalignments", "APin")):
        metric = Confidence(definition, show=0)
        [planned] = metric.measure(Job(config, may_make=False))
        row = write("confidence", planned.identify(), planned.make(), tmp_path / definition)
        [(text, _)] = metric.shows([row])
        assert f"{heading} % of each: x 100 y 94" in text
