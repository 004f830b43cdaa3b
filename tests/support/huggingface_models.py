"""Small models of each Hugging Face family, built on the spot as `save_pretrained` leaves them.

    python tests/support/huggingface_models.py marian DIR

writes one that has learnt some of the toy corpus.
"""

from __future__ import annotations

import json
import logging
import random
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import sentencepiece as spm
import torch
from tokenizers import AddedToken
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
    PreTrainedTokenizerBase,
    T5Config,
    T5ForConditionalGeneration,
)

from xnmt_bench.progress import track

PIECES = 16_000  # of the base size, if the text has as many

# The options of `nmt=<family>` beside the path, for a model that translates English to German.
READER = {
    "marian": {},
    "m2m100": {"source_language": "en", "target_language": "de"},
    "nllb": {"source_language": "eng_Latn", "target_language": "deu_Latn"},
    "mbart": {"source_language": "en", "target_language": "de"},
    "t5": {"prefix": "translate: "},
}


def build(
    family: str,
    folder: Path,
    texts: tuple[list[str], list[str]],
    width: int = 32,
    wild: bool = True,
) -> None:
    """Writes an untrained model, and its tokenizer trained on both sides' texts.

    Args:
        family: which.
        folder: where the files go.
        texts: of the source and of the target.
        width: of embeddings and states.
        wild: great random weights, since with the initial ones little depends on the input.
    """
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    tokenizer = make_tokenizer(family, folder, texts)
    tokenizer.save_pretrained(folder)
    model = _model(family, tokenizer, width)
    if wild:
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if weight.dim() > 1 and "embed_positions" not in name:
                    weight.normal_(std=0.5 if "shared" in name or "embed" in name else 0.15)
        if family == "marian":
            model.final_logits_bias.normal_(std=0.1)
    model.save_pretrained(folder)


def build_base(folder: Path, texts: list[str], width: int = 512) -> None:
    """Writes an M2M100 of the base size of Vaswani et al. (2017), with random weights.

    Args:
        folder: where the files go.
        texts: of both sides, which its pieces are trained on.
        width: of embeddings and states, 512 in the paper.
    """
    vocabulary, tokenizer = _m2m100_tokenizer(folder, texts, PIECES)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = M2M100Config(
        vocab_size=len(tokenizer) + 108,  # its languages come behind its pieces
        d_model=width, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width,
        max_position_embeddings=256, dropout=0.0, scale_embedding=True, decoder_start_token_id=2,
    )  # fmt: skip
    M2M100ForConditionalGeneration(config).save_pretrained(folder)
    print(f"{len(vocabulary):,} pieces of {PIECES:,} that were asked for")


def build_marian(
    folder: Path,
    texts: Sequence[list[str]],
    languages: tuple[str, str],
    pieces: int,
    width: int,
    longest: int = 128,
) -> tuple[PreTrainedTokenizerBase, MarianMTModel]:
    """Returns an untrained Marian that can learn to translate, and its tokenizer, which is saved.

    Args:
        folder: where the tokenizer goes.
        texts: of the source and of the target.
        languages: of both.
        pieces: of a side.
        width: of embeddings and states.
        longest: positions of a side.
    """
    folder.mkdir(parents=True)
    tokenizer = _marian("marian", folder, texts, pieces, languages)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    pad = tokenizer.pad_token_id
    model = MarianMTModel(MarianConfig(
        vocab_size=len(tokenizer), pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=0,
        forced_eos_token_id=0, d_model=width, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width, max_position_embeddings=longest, dropout=0.1,
        scale_embedding=True, activation_function="swish",
    ))  # fmt: skip
    model.generation_config.bad_words_ids = [[pad]]  # as those of the hub have it
    return tokenizer, model


def add_separator(
    folder: Path, separator: str = "<brk>", kind: type = AutoModelForSeq2SeqLM
) -> None:
    """Gives a model in its folder a piece that stands between sentences, with random weights."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = kind.from_pretrained(folder, dtype=torch.float32)
    # Blanks around it belong to it: else a lone blank would become a piece of its own.
    added = AddedToken(separator, lstrip=True, rstrip=True, normalized=False)
    tokenizer.add_tokens([added], special_tokens=True)
    size = len(model.get_input_embeddings().weight)
    [number] = tokenizer.convert_tokens_to_ids([separator])
    model.resize_token_embeddings(max(size, number + 1), mean_resizing=False)
    with torch.no_grad():
        model.get_input_embeddings().weight[number].normal_(std=0.5)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)


def make_tokenizer(family: str, folder: Path, texts: tuple[list[str], list[str]]):
    """Trains a family's tokenizer on the texts of both sides."""
    makers = {"marian": _marian, "m2m100": _m2m100, "t5": _t5}
    return makers.get(family, _fairseq_like)(family, folder, texts)


def _model(family: str, tokenizer, width: int):
    size = len(tokenizer)
    if family == "t5":
        return T5ForConditionalGeneration(T5Config(
            vocab_size=size, d_model=width, d_kv=width // 4, d_ff=2 * width, num_layers=2,
            num_heads=4, dropout_rate=0.0, decoder_start_token_id=0,
        ))  # fmt: skip
    sizes = {
        "d_model": width, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 2 * width, "decoder_ffn_dim": 2 * width,
        "max_position_embeddings": 128, "dropout": 0.0, "scale_embedding": True,
    }  # fmt: skip
    if family == "marian":
        pad = tokenizer.pad_token_id
        model = MarianMTModel(MarianConfig(
            vocab_size=size, pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad, **sizes
        ))  # fmt: skip
        model.generation_config.bad_words_ids = [[pad]]  # as those of the hub have it
        return model
    if family == "mbart":
        return MBartForConditionalGeneration(MBartConfig(vocab_size=size, **sizes))
    size += 108 * (family == "m2m100")  # its languages come behind its pieces
    return M2M100ForConditionalGeneration(
        M2M100Config(vocab_size=size, decoder_start_token_id=2, **sizes)
    )


def teach(
    folder: Path, pairs: list[tuple[str, str]], steps: int, prefix: str = "", show: bool = False
) -> None:
    """Trains a model in its folder on sentence pairs, as its own labels and loss have it."""
    torch.manual_seed(0)
    rng = random.Random(0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, steps)
    for _ in track(range(steps), f"teaching {folder}", steps, "steps", show):
        sources, targets = zip(*rng.sample(pairs, 32), strict=True)
        batch = tokenizer([prefix + source for source in sources], text_target=list(targets),
                          padding=True, return_tensors="pt")  # fmt: skip
        batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
        optimiser.zero_grad()
        model(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    model.save_pretrained(folder)


def train_pieces(folder: Path, name: str, texts: list[str], size: int, **special: int) -> Path:
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=str(folder / "trained"), vocab_size=size,
        hard_vocab_limit=False, character_coverage=1.0, minloglevel=2, num_threads=1, **special,
    )  # fmt: skip
    (folder / "trained.vocab").unlink()
    return (folder / "trained.model").rename(folder / name)


def list_pieces(path: Path) -> list[str]:
    model = spm.SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(i) for i in range(model.get_piece_size())]


def open_tokenizer(folder: Path, tokenizer_class: str, **config):
    described = {"tokenizer_class": tokenizer_class, **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    return AutoTokenizer.from_pretrained(folder)


def _marian(family, folder, texts, size=300, languages=("en", "de")):
    sides = [train_pieces(folder, f"{side}.spm", text, size)
             for side, text in zip(("source", "target"), texts, strict=True)]  # fmt: skip
    pieces = [p for side in sides for p in list_pieces(side) if not p.startswith("<")]
    vocabulary = ["</s>", "<unk>", *dict.fromkeys(pieces), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({p: n for n, p in enumerate(vocabulary)}))
    (folder / "config.json").write_text(json.dumps({"model_type": "marian"}))
    source, target = languages
    return open_tokenizer(folder, "MarianTokenizer", source_lang=source, target_lang=target)


def _m2m100(family, folder, texts):
    return _m2m100_tokenizer(folder, [*chain(*texts)], 400)[1]


def _m2m100_tokenizer(folder, texts, pieces):
    """Returns its pieces, and it."""
    path = train_pieces(folder, "sentencepiece.bpe.model", texts, pieces)
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *list_pieces(path)[3:]]
    (folder / "vocab.json").write_text(json.dumps({p: n for n, p in enumerate(vocabulary)}))
    (folder / "config.json").write_text(json.dumps({"model_type": "m2m_100"}))
    tokenizer = open_tokenizer(folder, "M2M100Tokenizer", src_lang="en", tgt_lang="de")
    return vocabulary, tokenizer


def _t5(family, folder, texts):
    texts = [*chain(*texts), "translate:"]
    train_pieces(folder, "spiece.model", texts, 400, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folder / "config.json").write_text(json.dumps({"model_type": "t5"}))
    return open_tokenizer(folder, "T5Tokenizer", extra_ids=0, eos_token="</s>", pad_token="<pad>",
                 unk_token="<unk>")  # fmt: skip


def _fairseq_like(family, folder, texts):
    """NLLB and mBART."""
    kind = {"model_type": "bpe"} if family == "nllb" else {}
    train_pieces(folder, "sentencepiece.bpe.model", [*chain(*texts)], 400, **kind)
    model_type = {"nllb": "m2m_100", "mbart": "mbart"}[family]
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    codes = {"nllb": ["eng_Latn", "deu_Latn"], "mbart": ["en_XX", "de_DE"]}[family]
    languages = {"src_lang": codes[0], "tgt_lang": codes[1], "additional_special_tokens": codes}
    return open_tokenizer(
        folder, {"nllb": "NllbTokenizer", "mbart": "MBartTokenizer"}[family], **languages
    )


def main(family: str, folder: str, steps: str = "1500") -> None:
    """Builds a model and teaches it the toy corpus."""
    from xnmt_bench.corpora.toy import ToyCorpus

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    pairs = [(s.source, s.target) for s in ToyCorpus().sentences("train")]
    texts = ([source for source, _ in pairs], [target for _, target in pairs])
    build(family, Path(folder), texts, width=128, wild=False)
    teach(Path(folder), pairs, int(steps), READER[family].get("prefix", ""), show=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
