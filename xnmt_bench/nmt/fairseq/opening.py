"""Opening a fairseq checkpoint as a model under explanation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.fairseq.checkpoint import Options, Weights, read_checkpoint
from xnmt_bench.nmt.fairseq.lstm import FairseqLSTM
from xnmt_bench.nmt.fairseq.subwords import DictionarySubwords
from xnmt_bench.nmt.fairseq.transformer import FairseqTransformer
from xnmt_bench.nmt.foreign import made_from
from xnmt_bench.options import Natural, Text

Model = FairseqTransformer | FairseqLSTM


def open_fairseq(
    path: str,
    source_language: str | None = None,
    target_language: str | None = None,
    data: str | None = None,
    source_codes: str | None = None,
    target_codes: str | None = None,
    source_vocabulary: Text | None = None,
    target_vocabulary: Text | None = None,
    vocabulary_threshold: Natural | None = None,
    glossaries: Sequence[Text] = (),
) -> Model:
    """Open a checkpoint of fairseq's `transformer` or `lstm`, of any of their named sizes.

    Args:
        path: the checkpoint, such as `checkpoint_best.pt`.
        source_language: ending of the source dictionary's name, where the checkpoint does not say.
        target_language: the same of the target's.
        data: the folder of `dict.*.txt`; the checkpoint's own if not given.
        source_codes: BPE codes of subword-nmt or a SentencePiece model (`.model`) of the source;
            none if the corpus consists of subwords already.
        target_codes: the same of the target.
        source_vocabulary: the file given as `--vocabulary` when the source was cut; lines of a
            subword and its count. Subwords that it lacks are cut further.
        target_vocabulary: the same of the target.
        vocabulary_threshold: the least count of a subword of both vocabularies.
        glossaries: regular expressions of what subword-nmt left whole.

    Raises:
        XnmtError: it is another kind of checkpoint, or has what this reader does not support.
        DataError: a dictionary, codes or a vocabulary are not readable.
    """
    file = Path(path)
    options, tensors = read_checkpoint(file)
    weights = Weights(file, tensors)
    folder = Path(data) if data else file.parent
    if vocabulary_threshold is not None and not (source_vocabulary or target_vocabulary):
        raise XnmtError(
            "nmt.reader.vocabulary_threshold needs a vocabulary: give "
            "nmt.reader.source_vocabulary or nmt.reader.target_vocabulary"
        )
    configured = {"source": source_language, "target": target_language}
    languages = [_language(options, side, language) for side, language in configured.items()]
    codes, vocabularies = (source_codes, target_codes), (source_vocabulary, target_vocabulary)
    source, target = (
        DictionarySubwords(
            folder / f"dict.{language}.txt", code, vocabulary, vocabulary_threshold, glossaries
        )
        for language, code, vocabulary in zip(languages, codes, vocabularies, strict=True)
    )
    for side, subwords in (("encoder", source), ("decoder", target)):
        # Another dictionary than it was trained with shows in the number of words.
        name = f"{side}.embed_tokens.weight"
        words = len(subwords) - len(subwords.ids.unpredictable)
        if name in weights and len(tensors[name]) != words:
            embeddings = f"{len(tensors[name])} embeddings in {name}"
            raise XnmtError(f"{file}: {embeddings}, but the dictionary has {words} words")
    model = _family(options)(source, target, options, weights)
    weights.close()
    model.fingerprint = made_from([file], [source.fingerprint, target.fingerprint])
    return model.eval().requires_grad_(False)


def _family(options: Options) -> type[Model]:
    """Return the class that follows an architecture's name."""
    # Such a system needs language tokens around a sentence, which are not added here.
    options.refuse(encoder_langtok=None, decoder_langtok=False, simul_type=None)
    if "multi" in str(options.get("task")):
        raise XnmtError(f"{options.path}: task={options.get('task')} is not supported")
    arch = str(options["arch"])
    if "lm" not in arch.split("_"):  # a language model, such as transformer_lm, has no source
        for name, model in (("transformer", FairseqTransformer), ("lstm", FairseqLSTM)):
            if arch.startswith(name):
                return model
    raise XnmtError(f"{options.path}: arch={arch} is not supported; transformer and lstm are")


def _language(options: Options, side: str, configured: str | None) -> str:
    """Return the ending of a dictionary's name, in which corpus and checkpoint have to agree."""
    trained = options.get(f"{side}_lang", configured)
    if trained is None:
        raise XnmtError(
            f"{options.path} does not name its {side} language; give nmt.reader.{side}_language"
        )
    if configured not in (None, trained):
        raise XnmtError(
            f"{options.path}: its {side} language is {trained}, not {configured}; if both mean the "
            f"same language, give nmt.reader.{side}_language={trained}"
        )
    return str(trained)
