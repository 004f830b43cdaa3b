"""Opening a fairseq checkpoint as a model under explanation."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.fairseq.checkpoint import Options, Weights, read_checkpoint
from xnmt_bench.nmt.fairseq.lstm import FairseqLSTM
from xnmt_bench.nmt.fairseq.subwords import DictionarySubwords
from xnmt_bench.nmt.fairseq.transformer import FairseqTransformer
from xnmt_bench.nmt.foreign import made_from

Model = FairseqTransformer | FairseqLSTM


def open_fairseq(
    path: str,
    source_language: str | None = None,
    target_language: str | None = None,
    data: str | None = None,
    source_codes: str | None = None,
    target_codes: str | None = None,
) -> Model:
    """Opens a checkpoint of fairseq's `transformer` or `lstm`, of any of their named sizes.

    Args:
        path: the checkpoint, such as `checkpoint_best.pt`.
        source_language: ending of the source dictionary's name, where the checkpoint does not say.
        target_language: the same of the target's.
        data: the folder of `dict.*.txt`; the checkpoint's own if not given.
        source_codes: BPE codes of subword-nmt or a SentencePiece model (`.model`) of the source;
            none if the corpus consists of subwords already.
        target_codes: the same of the target.

    Raises:
        XnmtError: what is there is no such checkpoint, or has what this reader does not support.
        DataError: a dictionary or codes are not readable.
    """
    file = Path(path)
    options, tensors = read_checkpoint(file)
    weights = Weights(file, tensors)
    folder = Path(data) if data else file.parent
    languages = tuple(
        _language(options, side, given)
        for side, given in (("source", source_language), ("target", target_language))
    )
    source, target = (
        DictionarySubwords(folder / f"dict.{language}.txt", codes)
        for language, codes in zip(languages, (source_codes, target_codes), strict=True)
    )
    for side, subwords in (("encoder", source), ("decoder", target)):
        _fits(file, f"{side}.embed_tokens.weight", tensors, subwords)
    model = _family(options)(source, target, options, weights)
    weights.close()
    model.fingerprint = made_from([file], [source.fingerprint, target.fingerprint])
    return model.eval().requires_grad_(False)


def _family(options: Options) -> type[Model]:
    """The class that follows an architecture's name.

    Raises:
        XnmtError: it is neither a transformer nor an LSTM.
    """
    # Language tokens would have to stand around a sentence, which nobody would put there.
    options.refuse(encoder_langtok=None, decoder_langtok=False, simul_type=None)
    if "multi" in str(options.get("task")):
        raise XnmtError(f"{options.path}: task={options.get('task')} is not supported")
    arch = str(options["arch"])
    if arch.startswith("transformer") and "lm" not in arch.split("_"):
        return FairseqTransformer
    if arch.startswith("lstm") and "lm" not in arch.split("_"):
        return FairseqLSTM
    raise XnmtError(f"{options.path}: arch={arch} is not supported; transformer and lstm are")


def _language(options: Options, side: str, given: str | None) -> str:
    """The ending of a dictionary's name.

    Raises:
        XnmtError: nobody says it, or corpus and checkpoint say otherwise.
    """
    trained = options.get(f"{side}_lang", given)
    if trained is None:
        raise XnmtError(f"{options.path} does not say: give nmt.reader.{side}_language")
    if given not in (None, trained):
        raise XnmtError(
            f"{options.path}: its {side} language is {trained}, not {given}; if they are one, give "
            f"nmt.reader.{side}_language={trained}"
        )
    return str(trained)


def _fits(file: Path, name: str, tensors: dict[str, Tensor], subwords: DictionarySubwords) -> None:
    """Makes sure that a dictionary is the one that the system was trained with.

    Raises:
        XnmtError: it has another number of words than there are embeddings.
    """
    words = len(subwords.ids.theirs_V) - len(subwords.ids.unpredictable)
    if name in tensors and len(tensors[name]) != words:
        raise XnmtError(
            f"{file}: {len(tensors[name])} embeddings in {name}, but its dictionary has {words}"
        )
