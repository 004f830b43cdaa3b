"""Greedy and beam decoding against a plain reference."""

import torch

from support.dispatched import sizes_of_gpu
from support.systems import batch_of, double
from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, PAD
from xnmt_bench.nmt.base import Reader
from xnmt_bench.nmt.batch import Batch, Encoding
from xnmt_bench.nmt.decoding import translate


def sources_of(system, count=8):
    split = system.texts.split("test")
    return [split.source[i].tolist() for i in range(count)]


def greedy(model, source):
    """One sentence, one step at a time, from ids."""
    target = []
    for _ in range(2 * len(source) + 10):
        batch = Batch.collate([(source, [*target, EOS])])
        logits = model(batch)[0, -1]
        logits[[PAD, BOS]] = -torch.inf
        target.append(int(logits.argmax()))
        if target[-1] == EOS:
            break
    return target


def log_probability(model, source, target):
    batch = Batch.collate([(source, target)])
    return float(model.log_probability(model.states(batch), batch.target_BT).sum())


def test_greedy_takes_the_best_word_at_each_step(system):
    sources = sources_of(system)
    expected = [greedy(system.system.model, source) for source in sources]
    assert translate(system.system.model, sources, beam=1) == expected


def test_a_sentence_is_translated_alike_in_any_batch(system):
    sources = sources_of(system)
    together = translate(system.system.model, sources, beam=3)
    assert together == [translate(system.system.model, [source], beam=3)[0] for source in sources]
    assert together[::-1] == translate(system.system.model, sources[::-1], beam=3)


def test_greedy_writes_the_same_where_it_looks_seldom_for_ended_sentences(system):
    sources = sources_of(system)
    expected = translate(system.system.model, sources)
    assert len({len(ids) for ids in expected}) > 1  # they end at different steps
    with sizes_of_gpu():
        assert translate(system.system.model, sources) == expected


def test_a_beam_finds_what_greedy_missed(system):
    """By the score it maximises, the beam is never worse on the whole."""
    sources = sources_of(system, 20)
    totals = []
    for beam in (1, 4):
        targets = translate(system.system.model, sources, beam=beam)
        scores = [
            log_probability(system.system.model, x, y) / len(y)
            for x, y in zip(sources, targets, strict=True)
        ]
        totals.append(sum(scores))
        assert all(
            y[-1] == EOS or len(y) == 2 * len(x) + 10 for x, y in zip(sources, targets, strict=True)
        )
    assert totals[1] >= totals[0] - 1e-6


def test_a_reader_that_keeps_what_it_has_read_gives_the_same_states(system):
    """Rows that have read unlike numbers of words, chosen anew between, in float64."""
    model, split = double(system.system.model), system.texts.split("test")
    batch = batch_of(split, range(4))
    encoding = model.encode(model.embed_source(batch.source_BS), batch.layout)
    keeping, anew = model.reader(encoding), Reader(model, encoding)
    assert type(keeping) is not Reader
    rng = torch.Generator().manual_seed(0)
    words = torch.randint(4, 50, (4, 5), generator=rng)
    words[:, 0] = BOS
    words[1, 3:] = words[2, 1:] = PAD
    for rows, further in (
        (torch.tensor([2, 0, 0, 3, 1]), torch.randint(4, 50, (5, 1), generator=rng)),
        (torch.tensor([4, 1]), torch.tensor([[7, BOS, 9], [8, PAD, PAD]])),
        (torch.tensor([0, 1, 1]), torch.randint(4, 50, (3, 1), generator=rng)),
    ):
        torch.testing.assert_close(keeping.read(words), anew.read(words), rtol=1e-10, atol=1e-12)
        for reader in (keeping, anew):
            reader.select(rows)
        words = further
    torch.testing.assert_close(keeping.read(words), anew.read(words), rtol=1e-10, atol=1e-12)


class Scripted:
    """A model whose next word depends only on how many there are; after three words it ends.

    Before that its best word is 4 (0.5), and the end comes second (0.3).
    """

    longest_target = None

    def embed_source(self, ids):
        return ids[..., None].float()

    embed_target = embed_source

    def parameters(self):
        return iter([torch.zeros(1)])

    def draft(self, source):
        return None

    def encode(self, source, layout):
        return Encoding(source, layout)

    def reader(self, encoding):
        return Reader(self, encoding)

    def decode(self, encoding, inputs):
        return torch.arange(inputs.shape[1]).expand(len(inputs), -1)[..., None]

    def logits(self, states):
        early = torch.tensor([0.0, 0.0, 0.0, 0.3, 0.5, 0.2]).clamp_min(1e-9).log()
        late = torch.tensor([0.0, 0.0, 0.0, 0.9, 0.05, 0.05]).clamp_min(1e-9).log()
        return torch.where(states < 3, early, late)


def test_an_end_that_is_only_second_best_does_not_end_greedy():
    assert translate(Scripted(), [[4, EOS]], beam=1) == [[4, 4, 4, EOS]]


def test_decisions_are_the_first_choice(system):
    from xnmt_bench.explainers.base import decide

    batch = batch_of(system.texts.split("test"), range(4))
    labelled, log_p = decide(system.system.model, batch)
    logits = system.system.model(batch)
    assert torch.equal(labelled.labels_BT, logits.argmax(-1))
    torch.testing.assert_close(log_p, logits.log_softmax(-1).amax(-1), rtol=1e-4, atol=1e-6)
