"""Two hundred bad inputs: each ends a command in one line that names the file or the option."""

import json

import pytest

from support.forked_commands import command

SMALL = ["corpus.train=60", "corpus.valid=10", "corpus.test=10", "threads=1", "device=cpu",
         "trainer.progress_bar=false"]  # fmt: skip
# What stands in the place of any line-aligned text file.
NO_TEXT = {
    "empty": "",
    "a line": "a b c\n",
    "no UTF-8": b"a\xff\n" * 10,
    "half a letter": b"a\xf0\x9f\n" * 10,
    "UTF-16": "a b\n".encode("utf-16") * 10,
    "a line too many": "a b c\n" * 11,
}
NO_NUMBERS = {
    **NO_TEXT,
    "words": "x\n" * 20,
    "inf": "inf\n" * 20,
    "nan": "nan\n" * 20,
    "1e999": "1e999\n" * 20,
    "underscores": "-1_0\n" * 20,
    "full-width": "１２\n" * 20,
    "hexadecimal": "0x1\n" * 20,
    "decimal commas": "1,5\n" * 20,
    "two a line": "1 2\n" * 20,
    "empty lines": "\n" * 20,
}
# What stands in the place of a line of JSON.
NO_JSON = {
    "half": '{"a": ',
    "a word": "x",
    "a list": "[1]",
    "a number": "3",
    "null": "null",
    "nested": "[" * 100_000,
    "5,000 digits": '{"a": ' + "9" * 5000 + "}",
    "half a character": r'{"a": "\ud800"}',
    "a key twice": '{"a": 1, "a": 2}',
    "other keys": '{"a": 1}',
}
NO_TABLE = {
    "empty": "",
    "no header": "1,2,3\n4,5,6\n",
    "ragged": "src,mt,ref\na,b\n",
    "a cell too many": "src,mt,ref\na,b,c,d\n",
    "a column twice": "src,mt,ref,mt\na,b,c,d\n",
    "no ref": "src,mt\na,b\n",
    "no label": "src,mt,ref,x\na,b,c,1\na,b,c,2\n",
    "a huge cell": "src,mt,ref\n" + "x" * 200_000 + ",b,c\n",
    "no UTF-8": b"src,mt,ref\n\xff,b,c\n",
    "header alone": "src,mt,ref\n",
}
PAIR = '{"lang_pair": "en-de"}\n'
GROUP = {"source": "it is old .", "variants": ["er ist alt .", "sie ist alt ."]}
NO_SET = {
    "empty": "",
    "header alone": PAIR,
    "no header": json.dumps(GROUP) + "\n",
    "a pair that is no text": '{"lang_pair": 3}\n',
    "another pair": '{"lang_pair": "en-ru"}\n' + json.dumps(GROUP) + "\n",
    **{name: PAIR + text + "\n" for name, text in NO_JSON.items()},
    **{
        name: PAIR + json.dumps(GROUP | change) + "\n"
        for name, change in {
            "one variant": {"variants": ["a"]},
            "no variant": {"variants": []},
            "variants in a text": {"variants": "ab"},
            "an empty source": {"source": ""},
            "the true one beyond": {"true": 2},
            "the true one below": {"true": -1},
            "the true one a text": {"true": "0"},
            "a misspelt key": {"tru": 1},
            "half a distance": {"distance": 0.5},
            "contexts of two lengths": {"variants": [["a", "b"], ["b"]]},
        }.items()
    },
}
NO_GROUPS = {
    "empty": "",
    "a word": "x\n",
    "below": "-1\n",
    "beyond": "9\n",
    "twice": "0\n0\n",
    "a square": "²\n",
    "underscores": "0_0\n",
    "30 digits": "9" * 30 + "\n",
}
NO_LINKS = {
    "a word": "x\n0-0\n",
    "a line": "0-0\n",
    "a line too many": "0-0\n" * 3,
    "below": "0--1\n0-0\n",
    "one number": "3\n0-0\n",
    "commas": "0,0\n0-0\n",
    "10 digits": "0-9999999999\n0-0\n",
    "full-width": "０-０\n0-0\n",
    "no UTF-8": b"0-0\xff\n0-0\n",
    "underscores": "0_0-0\n0-0\n",
    "a sign": "+0-0\n0-0\n",
    "a confidence": "0-0-0.5\n0-0\n",
    "beyond its sentence": "0-9\n0-0\n",
}
BLOCK = "0 ||| Hund ||| 0 ||| dog ||| 1 1\n"
NO_BLOCK = {
    "empty": "",
    "no weights": BLOCK,
    "a word": BLOCK + "x\n",
    "nan": BLOCK + "nan\n",
    "inf": BLOCK + "1e999\n",
    "negative": BLOCK + "-1\n",
    "above 1": BLOCK + "2\n",
    "underscores": BLOCK + "0_1\n",
    "full-width": BLOCK + "０.５\n",
    "zero": BLOCK + "0\n",
    "a decimal comma": BLOCK + "0,5\n",
    "hard links": BLOCK + "0-0\n",
    "too many": BLOCK + "0.5 0.5\n",
    "a row too many": BLOCK + "0.5\n0.5\n",
    "no fields": "Hund\n1\n",
    "three fields": "0 ||| Hund ||| dog\n1\n",
    "a full stop": BLOCK + ".\n",
    "a truth": BLOCK + "true\n",
    "no UTF-8": BLOCK.encode().replace(b"dog", b"d\xff") + b"1\n",
}
HEADER = '{"form": "weights", "version": 1, "attention": true}\n'
SENTENCE = {"source": ["dog"], "target": ["Hund"], "weights": [[1.0]]}
NO_WEIGHTS = {
    "empty": "",
    "no header": json.dumps(SENTENCE) + "\n",
    "another version": HEADER.replace("1", "9"),
    **{name: HEADER + text + "\n" for name, text in NO_JSON.items()},
    **{
        name: HEADER + json.dumps(SENTENCE | change) + "\n"
        for name, change in {
            "no list": {"source": "dog"},
            "numbers for tokens": {"source": [3]},
            "ragged": {"target": ["a", "b"], "weights": [[1.0], [0.5, 0.5]]},
            "one axis": {"weights": [1.0]},
            "three axes": {"weights": [[[1.0]]]},
            "texts": {"weights": [["1"]]},
            "null": {"weights": None},
            "nan": {"weights": [[float("nan")]]},
            "inf": {"weights": [[float("inf")]]},
            "above 1": {"weights": [[3.0]]},
            "zero": {"weights": [[0.0]]},
            "too many tokens": {"source": ["a", "b"]},
            "a logarithm above 0": {"log_probabilities": [0.5]},
            "too many logarithms": {"log_probabilities": [-1, -1]},
            "a number below": {"number": -1},
        }.items()
    },
}
NO_PLACES = {
    "store": ["file/store", "loop/x"],
    "results": ["file/results", "loop/x"],
}
OPTIONS = [
    "k=0", "k=x", "k=1.5", "k=null", "k=99", "prefix=all", "prefix=null", "seed=-1",
    "seed=1e99", "nmt.beam=0", "nmt.beam=1000000", "seed=99999999999", "rules.seed=-1",
    "bootstrap.seed=-1", "nmt.seed=x",
    "nmt.sizes.layers=0", "nmt.sizes.layers=99999", "nmt.sizes.heads=3", "nmt.sizes.dropout=nan",
    "nmt.sizes.dropout=1", "nmt.sizes.dimension=0", "nmt.training.learning_rate=0",
    "nmt.training.learning_rate=inf", "nmt.training.max_epochs=0", "nmt.training.patience=-1",
    "nmt.training.batch_tokens=0", "nmt.context.sentences=9", "nmt.context.read=2", "nmt.path=''",
    "corpus.train=0", "corpus.test=-1", "corpus.max_length=0", "corpus.reversed=no",
    "corpus.subwords.type=wordpiece", "corpus.subwords.source_size=0", "rules.largest_k=0",
    "rules.shard_sentences=0", "rules.precision=8", "trainer.precision=64-true",
    "trainer.precision=16", "trainer.validate_every=0", "proxy.sizes.dimension=0",
    "proxy.training.validation_share=2", "bootstrap.samples=0", "bootstrap.samples=99999999",
    "device=tpu", "threads=0", "threads=99999", "scenario=forced", "learned_from=x",
    "doubts.unknown=2", "metric.fidelity.browsed=-1", "explain_target=x", "explainer.name=''",
]  # fmt: skip
CHOICES = [
    "nmt=transfomer", "explainer=atention", "proxy=saa", "metric=[fidelty]", "judge=[bse]",
    "analysis=[rank]", "corpus=toyy", "logger=wandbb", "experiment=quik", "nmt=", "metric=[mine]",
]  # fmt: skip


def scored(content):
    """A file of scores of the pairs of a small contrastive set."""
    return {"set.jsonl": PAIR + (json.dumps(GROUP) + "\n") * 10, "bad": content}


CONTRASTIVE = ["metric=[contrastive]", "metric.contrastive.sets=[set.jsonl]"]
ALIGNED = ["metric=[aer]", "metric.aer.text=[text]"]
FILES = [
    ("outputs", NO_TEXT, ["metric=[quality]", "outputs.path=bad"], lambda x: {"bad": x}),
    ("scores", NO_NUMBERS, [*CONTRASTIVE, "scores.path=bad"], scored),
    ("annotated", NO_TABLE, ["metric=[quality]", "outputs.path=bad", "outputs.format=annotated"],
     lambda x: {"bad": x}),
    ("set", NO_SET, ["metric=[contrastive]", "metric.contrastive.sets=[bad.jsonl]"],
     lambda x: {"bad.jsonl": x, "bad": ""}),
    ("groups", NO_GROUPS, [*CONTRASTIVE, "metric.contrastive.groups=bad", "scores.path=s"],
     lambda x: {"set.jsonl": PAIR + json.dumps(GROUP) + "\n", "bad": x, "s": "1\n2\n"}),
    ("hypothesis", NO_LINKS,
     [*ALIGNED, "metric.aer.gold=gold", "metric.aer.hypothesis=bad"],
     lambda x: {"gold": "0-0\n0-0\n", "text": "a b ||| c d\n" * 2, "bad": x}),
    ("gold", NO_LINKS,
     [*ALIGNED, "metric.aer.gold=bad", "metric.aer.hypothesis=h"],
     lambda x: {"h": "0-0\n0-0\n", "text": "a b ||| c d\n" * 2, "bad": x}),
    ("block", NO_BLOCK,
     ["metric=[confidence]", "relevance.path=bad", "relevance.format=nematus"],
     lambda x: {"bad": x}),
    ("weights", NO_WEIGHTS,
     ["metric=[confidence]", "relevance.path=bad", "relevance.format=json_lines"],
     lambda x: {"bad": x}),
]  # fmt: skip
CASES = [
    pytest.param(options, make(content), "bad", id=f"{kind}: {name}")
    for kind, contents, options, make in FILES
    for name, content in contents.items()
]
CASES += [
    pytest.param([f"{option}={place}"], {"file": ""}, place.split("/")[0], id=f"{option}: {place}")
    for option, places in NO_PLACES.items()
    for place in places
]
CASES += [pytest.param([option], {}, option.split("=")[0], id=option) for option in OPTIONS]
CASES += [pytest.param([choice], {}, choice.split("=")[0], id=choice) for choice in CHOICES]


def test_there_are_two_hundred():
    assert len(CASES) >= 200
    print(f"{len(CASES)} bad inputs")


@pytest.mark.slow
@pytest.mark.parametrize(("options", "files", "named"), CASES)
def test_a_bad_input_is_one_line_that_names_it(tmp_path, options, files, named):
    for name, content in files.items():
        content = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(content)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    places = {"store": "store", "results": "results", "hydra.run.dir": "run"}
    names_set = {option.partition("=")[0] for option in options}
    placed = [f"{name}={place}" for name, place in places.items() if name not in names_set]
    small = [option for option in SMALL if option.partition("=")[0] not in names_set]
    if names_set & {"corpus"}:
        small = [option for option in small if not option.startswith("corpus")]
    done = command("train.py", *small, *placed, *options, cwd=tmp_path)
    assert done.returncode in (1, 2), done.stdout
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert errors
    assert named in errors[0]
