"""Small language models of several families, built on the spot as `save_pretrained` leaves them."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedTokenizerFast,
)

TEMPLATE = "English: {source}\nGerman: {target}\n"
EXAMPLES = [
    ("the dog sleeps .", "der Hund schläft ."),
    ("a cat sees it .", "eine Katze sieht es ."),
]
SIZES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 512, "attention_dropout": 0.0,
}  # fmt: skip
# Each with what is its own: grouped heads, norms of queries, windows, scaled embeddings, bounds and
# scales of logits, ties of embeddings, blocks side by side.
CONFIGS = {
    "llama": {"num_key_value_heads": 2, "tie_word_embeddings": False},
    "qwen2": {"num_key_value_heads": 2, "tie_word_embeddings": True},
    "gpt_neox": {"tie_word_embeddings": False, "use_parallel_residual": True},
    "mistral": {"num_key_value_heads": 2, "sliding_window": 9},
    "gemma2": {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 9,
               "final_logit_softcapping": 3.0},
    "gemma3_text": {"num_key_value_heads": 1, "head_dim": 8, "sliding_window": 9,
                    "layer_types": ["sliding_attention", "full_attention"]},
    "granite": {"num_key_value_heads": 2, "embedding_multiplier": 2.0, "residual_multiplier": 0.5,
                "attention_multiplier": 0.3, "logits_scaling": 4.0},
    "cohere2": {"num_key_value_heads": 2, "sliding_window": 9, "logit_scale": 0.25},
}  # fmt: skip
GROUPED = {"num_key_value_heads": 2}
# Families of further kinds, of which it is only asked whether their logits are read: positions that
# are learnt or turned in part, norms behind blocks, sinks, mixtures of experts.
FURTHER = {
    "gpt2": {}, "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32}, "falcon": {},
    "gptj": {"rotary_dim": 4}, "olmo2": {}, "phi3": {"sliding_window": 9},
    "starcoder2": {"sliding_window": 9}, "qwen3": {"head_dim": 8, **GROUPED}, "stablelm": GROUPED,
    "mixtral": {"num_local_experts": 3, **GROUPED},
    "gpt_oss": {"head_dim": 8, "num_local_experts": 3, "num_experts_per_tok": 2,
                "sliding_window": 9, **GROUPED},
}  # fmt: skip
# Of text and images: the options of the language model stand in a config of their own.
NESTED = {
    "gemma3": {"mm_tokens_per_image": 1,
               "vision_config": {"hidden_size": 8, "num_hidden_layers": 1, "patch_size": 14,
                                 "num_attention_heads": 1, "intermediate_size": 8,
                                 "image_size": 28}},
}  # fmt: skip
# Families whose attention cannot be read here, and why.
REFUSED = {
    "bloom": ("it takes no position_ids", {}),
    "gpt_neo": ("its windows of attention are of another kind",
                {"attention_types": [[["global", "local"], 1]], "num_layers": 2}),
    "moshi": ("its windows of attention are of another kind", {}),
    "falcon": ("cannot be read", {"alibi": True}),
    "mamba": ("it takes no p", {}),
    "gemma3n_text": ("each layer reads a second embedding of every id",
                     {"num_kv_shared_layers": 0, "layer_types": ["full_attention"] * 2,
                      "head_dim": 8, "vocab_size_per_layer_input": 500,
                      "hidden_size_per_layer_input": 8, "laurel_rank": 8,
                      "activation_sparsity_pattern": [0.0] * 2, **GROUPED}),
    "llama4_text": ("chunked_attention layers", {"num_local_experts": 2}),
}  # fmt: skip
BYTES = ("qwen2", "gpt_neox")  # families whose tokenizers are of bytes


def build(family: str, folder: Path, texts: tuple[list[str], list[str]], **changes) -> None:
    """Writes a model with great random weights, and its tokenizer trained on both sides' texts."""
    torch.manual_seed(0)
    tokenizer = make_tokenizer(texts, family in BYTES)
    special = {f"{x}_token_id": getattr(tokenizer, f"{x}_token_id") for x in ("bos", "eos", "pad")}
    of_text = f"{family}_text" if family in NESTED else family
    own = (CONFIGS | FURTHER).get(of_text, {})
    options = special | {"vocab_size": len(tokenizer)} | SIZES | own | changes
    if family in NESTED:
        options = special | NESTED[family] | {"text_config": options}
    config = AutoConfig.for_model(family, **options)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.5 if "embed" in name or "lm_head" in name else 0.15)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_tokenizer(texts: tuple[list[str], list[str]], of_bytes: bool) -> PreTrainedTokenizerFast:
    """Trains a tokenizer: of bytes as GPT's, or of characters with `▁` and a BOS as Gemma's."""
    special = ["<pad>", "<bos>", "<eos>"] if not of_bytes else ["<eos>"]
    if of_bytes:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    else:
        tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
        tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse()])
        special, alphabet = [*special, "<unk>"], ["\n", ":"]
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    # A full stop and a line end are often together, and become one piece.
    lines = [f"{text}\n" for text in chain(*texts)]
    tokenizer.train_from_iterator([*lines, "English: a\nGerman: b\n" * 50, "\n\n" * 50], trainer)
    if not of_bytes:
        from tokenizers.processors import TemplateProcessing

        tokenizer.post_processor = TemplateProcessing(
            single="<bos> $A", special_tokens=[("<bos>", special.index("<bos>"))]
        )
    names = {"eos_token": "<eos>"}
    if not of_bytes:
        names |= {"bos_token": "<bos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
