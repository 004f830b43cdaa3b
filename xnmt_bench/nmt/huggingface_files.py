"""A Hugging Face model's folder: its tokenizer and its weights, or which file of it is at fault."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import sentencepiece as spm
import torch
import transformers
from safetensors import safe_open
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from xnmt_bench.errors import XnmtError, refusal
from xnmt_bench.nmt.hub import GGUF, download
from xnmt_bench.nmt.huggingface_attention import NAME

# Language models of any `model_type`, see `nmt.causal_lm`.
CAUSAL_LM = "causal_lm"
# `model_type` of each family's config.json; NLLB is an M2M100 with another tokenizer.
FAMILIES = {
    "marian": "marian",
    "m2m100": "m2m_100",
    "nllb": "m2m_100",
    "mbart": "mbart",
    "t5": "t5",
}
WANTED = ("*.json", "*.safetensors", "*.bin", "*.model", "*.spm", "*.txt")
# What each tokenizer cannot do without; of the names in one entry a folder has at least one.
TOKENIZER_FILES = {
    "Marian": ("source.spm", "target.spm", "vocab.json"),
    "M2M100": ("vocab.json", "sentencepiece.bpe.model"),
    "Nllb": ("tokenizer_config.json", "tokenizer.json or sentencepiece.bpe.model"),
    "MBart": ("tokenizer.json or sentencepiece.bpe.model",),
    "MBart50": ("tokenizer.json or sentencepiece.bpe.model",),
    "T5": ("tokenizer.json or spiece.model",),
    **dict.fromkeys(("PreTrained", "", "Causal_lm"), ("tokenizer.json or tokenizer.model",)),
}
NEVER_IN_TEXT = re.compile(r"<extra_id_\d+>|<mask>")  # T5's sentinels, and what a gap is filled by


def read_folder(path: str, family: str) -> tuple[Path, PreTrainedTokenizerBase, PreTrainedModel]:
    """Return the folder of a model, its tokenizer and itself, with every weight that it needs.

    Args:
        path: the folder, or the model's name on the hub; of a language model also a GGUF file.
        family: one of FAMILIES, or CAUSAL_LM.

    Raises:
        XnmtError: nothing is there, it is of another family, a file is missing or damaged, or
            tokenizer and model do not belong together.
    """
    transformers.utils.logging.disable_progress_bar()
    folder, of_file = _find_folder(path, family)
    # `transformers` opens a folder with some of them damaged: a truncated vocabulary then knows no
    # word, and without generation_config.json a Marian writes padding.
    if not of_file and (
        damaged := _find_damaged(folder, ".json", ".spm", ".model", ".safetensors")
    ):
        raise XnmtError(f"{path}: not a model of {family}: {damaged}")
    # No code of the model's own, nor a question.
    ours_alone = {"trust_remote_code": False, **of_file}
    part = "its sizes" if of_file else "config.json"
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **ours_alone)
        _refuse_type(path, config, family)
        if missing := [] if of_file else _missing_files(folder, family):
            problem = f"the files of its tokenizer are missing: {', '.join(missing)}"
            raise XnmtError(f"{path}: {problem}; write them with tokenizer.save_pretrained")
        part = "its tokenizer"
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **ours_alone)
        part = "its weights"
        kind: Any = (
            transformers.AutoModelForCausalLM
            if family == CAUSAL_LM
            else transformers.AutoModelForSeq2SeqLM
        )
        model, report = kind.from_pretrained(
            folder,
            dtype=torch.float32,
            # Fused kernels give no attention weights.
            attn_implementation="eager" if family == CAUSAL_LM else NAME,
            output_loading_info=True,
            **ours_alone,
        )
    except XnmtError:
        raise
    except Exception as error:  # readers of so many kinds of files raise many kinds of errors
        problem = _find_damaged(folder, ".bin") or f"{part}: {refusal(error)}"
        raise XnmtError(f"{path}: not a model of {family}: {problem}") from None
    # What is missing would be left at random, and explained as if it had been learnt.
    if wrong := sorted({*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}):
        lacking = ", ".join(wrong[:5])
        raise XnmtError(f"{path}: the weights {lacking} are missing or have another shape")
    if getattr(tokenizer, "separate_vocabs", False):
        raise XnmtError(f"{path}: separate vocabularies of source and target are not supported")
    inputs = model if family == CAUSAL_LM else model.get_encoder()
    layers = (inputs.get_input_embeddings(), model.get_output_embeddings())
    _refuse_further_ids(path, tokenizer, min(len(layer.weight) for layer in layers))
    return folder, tokenizer, model


def files_of(path: str, folder: Path) -> list[Path]:
    """Return the files that decide what a model is."""
    if path.endswith(GGUF):
        return [Path(path)]
    return sorted(f for pattern in WANTED for f in folder.glob(pattern))


def _find_folder(path: str, family: str) -> tuple[Path, dict[str, str]]:
    """Return the folder of a model, and what names its file where that is one."""
    if not path.endswith(GGUF):
        return (Path(path) if Path(path).is_dir() else download(path, WANTED)), {}
    if family != CAUSAL_LM:
        raise XnmtError(f"{path}: a GGUF file is read as a language model: nmt={CAUSAL_LM}")
    if not Path(path).is_file():
        raise XnmtError(f"{path}: no such file")
    return Path(path).parent, {"gguf_file": Path(path).name}


def _refuse_type(path: str, config: PretrainedConfig, family: str) -> None:
    """Raise an XnmtError for a model of another family."""
    if family != CAUSAL_LM:
        if config.model_type != FAMILIES[family]:
            families = ", ".join(FAMILIES)
            raise XnmtError(
                f"{path}: a model of type {config.model_type}, not {family}; known are {families}"
            )
    elif config.is_encoder_decoder:
        problem = f"a model of type {config.model_type} has an encoder"
        raise XnmtError(
            f"{path}: {problem}, so it is no {CAUSAL_LM}; nmt=marian and others read it"
        )
    elif type(config) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        raise XnmtError(f"{path}: a model of type {config.model_type} is no language model")


def _missing_files(folder: Path, family: str) -> list[str]:
    """Return what a folder lacks of its tokenizer's files.

    Without them some tokenizers open all the same, and every word is unknown to them.
    """
    try:
        described = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        name = str(described["tokenizer_class"])
    except (FileNotFoundError, KeyError):
        name = {"m2m100": "M2M100", "mbart": "MBart"}.get(family, family.capitalize())
    needed = TOKENIZER_FILES.get(name.partition("Tokenizer")[0], ())
    return [
        files
        for files in needed
        if not any((folder / file).is_file() for file in files.split(" or "))
    ]


def _find_damaged(folder: Path, *endings: str) -> str | None:
    """Return the first file with one of some endings that cannot be read, and why; None if none."""
    for file in sorted(f for f in folder.iterdir() if f.suffix in endings):
        try:
            if file.suffix == ".json":
                json.loads(file.read_text(encoding="utf-8"))
            elif file.suffix == ".safetensors":
                with safe_open(file, "pt"):
                    pass
            elif file.suffix in (".spm", ".model"):
                spm.SentencePieceProcessor(model_file=str(file))
            elif file.name.startswith("pytorch_model"):  # others are a training's
                torch.load(file, weights_only=True)
        except Exception as error:  # as above
            empty = "" if file.stat().st_size else "it is empty: "
            return f"{file.name}: {empty}{refusal(error)}"
    return None


def _refuse_further_ids(path: str, tokenizer: PreTrainedTokenizerBase, size: int) -> None:
    """Raise an XnmtError where a text may have an id that the model has no embedding of."""
    special = {*tokenizer.all_special_tokens}  # count as unknown words in a text
    further = {
        number: token
        for token, number in tokenizer.get_vocab().items()
        if number >= size and not NEVER_IN_TEXT.fullmatch(token) and token not in special
    }
    if further:
        # The other way round is usual: vocabularies are padded to a round size.
        first = ", ".join(further[number] for number in sorted(further)[:5])
        raise XnmtError(
            f"{path}: the tokenizer has ids up to {max(further)}, the model embeddings of ids up "
            f"to {size - 1}, and none of {first}: resize the model "
            "(resize_token_embeddings) and train it, or take these tokens out of the tokenizer"
        )
