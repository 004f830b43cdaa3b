"""Translation models of Hugging Face `transformers` under explanation.

Explained is the function that translates: embeddings enter where the ids' embeddings do, scaled as
they are there, and language codes and task prefixes stand around the sentence as constants.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from xnmt_bench.corpora.vocabulary.subwords import SEPARATOR
from xnmt_bench.device import keeps_in_cache
from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.base import NMTModel, Prefix, Reader
from xnmt_bench.nmt.batch import AttentionWeights, Batch, Encoding, Layout
from xnmt_bench.nmt.blocks import AttentionBlock, Blocks
from xnmt_bench.nmt.foreign import Renumbering, made_from, number_inputs
from xnmt_bench.nmt.huggingface_attention import causal_mask, seen_mask
from xnmt_bench.nmt.huggingface_blocks import POST_NORM, attentions, take_apart
from xnmt_bench.nmt.huggingface_files import FAMILIES, files_of, read_folder
from xnmt_bench.nmt.huggingface_languages import (
    find_target_codes,
    read_target_code,
    set_languages,
    write_target_code,
)
from xnmt_bench.nmt.huggingface_text import (
    Frame,
    HubSubwords,
    add_markers,
    bare,
    find_frame,
    find_separator,
)
from xnmt_bench.nmt.output import linear_parts
from xnmt_bench.options import Text

MAJOR = transformers.__version__.partition(".")[0]  # tokenizers are not the same in all
TOLERANCE = 1e-4  # of the greatest logit, between a model's two paths


def open_huggingface(
    path: str,
    family: Text,
    source_language: str | None = None,
    target_language: str | None = None,
    prefix: str | None = None,
    clusters: int = 0,
    separator: str | None = None,
) -> HuggingFaceModel:
    """Open a model of the hub, or of a folder that `save_pretrained` wrote.

    Args:
        path: the folder, or the model's name on the hub.
        family: one of FAMILIES.
        source_language: the model's own code, where it reads many languages.
        target_language: the same of the target.
        prefix: a task prefix before every source; T5 needs one, or an empty one. Where a Marian
            writes many languages, it may hold the code of one, such as `>>fra<<`.
        clusters: so many clusters have markers; the model grows by those that it lacks.
        separator: the piece that closes each sentence before the current one, such as `<brk>`, of
            a model that was trained on concatenations (Fernandes et al. 2021); None for others.

    Raises:
        XnmtError: nothing is there, it is of another family, its vocabulary lacks the separator,
            or its two paths from ids and from embeddings are not the same function.
    """
    if family not in FAMILIES:
        raise XnmtError(f"unknown family {family!r}; choose one of {', '.join(FAMILIES)}")
    if family == "t5" and prefix is None:
        raise XnmtError(
            "T5 reads its task before each source: give nmt.reader.prefix, such as "
            '"translate English to German: ", or an empty one'
        )
    folder, tokenizer, model = read_folder(path, family)
    if clusters:
        _grow(model, add_markers(tokenizer, clusters))
    languages = set_languages(tokenizer, source_language, target_language)
    target_codes = find_target_codes(tokenizer)
    prefix = write_target_code(target_codes, prefix, target_language)
    frame = find_frame(tokenizer, model.config, prefix)
    between = None if separator is None else find_separator(tokenizer, separator)
    files = files_of(path, folder)
    weights = [f for f in files if f.suffix in (".safetensors", ".bin")]
    # Tokenizers have a fingerprint without the weights: encoded corpora do not depend on these.
    options = [frame.__dict__, MAJOR, *([f"{clusters} clusters"] if clusters else [])]
    options += [] if separator is None else [f"separator {separator}"]
    texts = made_from([f for f in files if f not in weights], options)
    pad, unk, eos = tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.eos_token_id
    source_size = len(model.get_encoder().get_input_embeddings().weight)
    # BOS is the separator; of a source without contexts nothing is ever BOS.
    source_ids = Renumbering(source_size, pad, unk, pad if between is None else between, eos)
    target_size = len(model.lm_head.weight)
    # What the model's own search never writes, such as Marian's padding, has no probability.
    bad_words = model.generation_config.bad_words_ids or ()
    never = [ids[0] for ids in bad_words if len(ids) == 1 and ids[0] < target_size]
    start = frame.before_target[-1]  # the last input before the first word plays BOS
    if start >= target_size:
        problem = f"its decoder starts with id {start}, but its ids end at {target_size - 1}"
        raise XnmtError(f"{path}: {problem}; correct decoder_start_token_id in config.json")
    if between is not None and start not in (pad, unk, eos, between):
        never.append(start)  # which else plays BOS, and which no search writes
    plays_bos = start if between is None else between
    target_ids = Renumbering(target_size, pad, unk, plays_bos, eos, never)
    target_code = read_target_code(prefix) if target_codes else None
    source = HubSubwords(tokenizer, "text", source_ids, texts, target_code)
    target = HubSubwords(tokenizer, "text_target", target_ids, texts)
    kind = HuggingFaceModel if between is None else ConcatenatedHuggingFaceModel
    opened = kind(model, source, target, frame)
    opened.tokenizer = tokenizer
    opened.task_pieces = tokenizer.convert_ids_to_tokens(bare(tokenizer, "text", prefix or ""))
    opened.fingerprint = made_from(weights, texts)
    opened.languages = languages
    opened.eval().requires_grad_(False)
    opened.verify()
    return opened


def _grow(model: PreTrainedModel, marker_ids: list[int]) -> None:
    """Give a model rows for new ids, at the mean of its words; it never writes them."""
    if not marker_ids:
        return
    module: Any = model  # its attributes differ from family to family
    words = len(module.get_input_embeddings().weight)
    verbosity = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()  # it announces rows that are set below
    model.resize_token_embeddings(max(words, *(i + 1 for i in marker_ids)), mean_resizing=False)
    transformers.utils.logging.set_verbosity(verbosity)
    with torch.no_grad():
        # One object where input and output share their weights.
        both = (module.get_input_embeddings().weight, module.lm_head.weight)
        weights = {id(weight): weight for weight in both}
        for weight in weights.values():
            weight[marker_ids] = weight[:words].mean(0)
        if (bias := getattr(module, "final_logits_bias", None)) is not None:
            bias[:, marker_ids] = bias[:, :words].mean()
    # The mechanism by which Marian never writes its padding.
    generation = module.generation_config
    generation.bad_words_ids = [*(generation.bad_words_ids or []), *([i] for i in marker_ids)]


class HuggingFaceModel(NMTModel):
    """An encoder-decoder of `transformers`, in the frame of its ids."""

    reads_separators = False
    one_stack = True
    hides_words = True
    tokenizer: PreTrainedTokenizerBase
    source_subwords: HubSubwords
    target_subwords: HubSubwords
    before_source: Tensor
    after_source: Tensor
    before_target: Tensor
    source_ids: Tensor
    target_ids: Tensor

    def __init__(
        self, model: PreTrainedModel, source: HubSubwords, target: HubSubwords, frame: Frame
    ) -> None:
        super().__init__()
        self.model, self.source_subwords, self.target_subwords = model, source, target
        # What the installed version calls the keys and values that the decoder keeps.
        arguments = inspect.signature(model.get_decoder().forward).parameters
        self.cache_argument = "cache" if "cache" in arguments else "past_key_values"
        # Of the others, positions are computed for any length.
        has_table = model.config.model_type in ("marian", "mbart")
        self._table_size = model.config.max_position_embeddings if has_table else None
        if self._table_size is not None:
            around_source = len(frame.before_source) + len(frame.after_source)
            self.longest_source = self._table_size - around_source
            self.longest_target = self._table_size - len(frame.before_target) + 1
        buffers = {"source_ids": source.ids.theirs_V, "target_ids": target.ids.theirs_V}
        # Buffers, so that they go to the model's device with it; no weights, so not kept.
        for name, ids in (frame.__dict__ | buffers).items():
            self.register_buffer(name, torch.as_tensor(ids, dtype=torch.long), persistent=False)

    def embed_source(self, ids_BS: Tensor) -> Tensor:
        """Return source embeddings (B, S, D), scaled as the encoder's first layer reads them."""
        return self._embed(self.model.get_encoder(), self.source_ids[ids_BS])

    def embed_target(self, ids_BT: Tensor) -> Tensor:
        """Return embeddings of decoder inputs (B, T, D), scaled likewise."""
        their_ids_BT = number_inputs(self.target_ids, ids_BT, self.before_target[-1])
        return self._embed(self.model.get_decoder(), their_ids_BT)

    @staticmethod
    def _embed(stack: nn.Module, their_ids: Tensor) -> Tensor:
        return stack.get_input_embeddings()(their_ids) * _scale(stack)  # type: ignore[operator]

    def encode(self, source_BSD: Tensor, layout: Layout) -> Encoding:
        """Encode source embeddings in their frame; `extra` holds the mask of the whole."""
        encoded, mask = self._encode(source_BSD, layout)
        return Encoding(encoded.last_hidden_state, layout, (mask,))

    def encoder_attention(self, source_BSD: Tensor, layout: Layout) -> Tensor:
        """Return the encoder's self-attention (B, L, H, S, S), less what goes to the frame."""
        encoded, _ = self._encode(source_BSD, layout, output_attentions=True)
        words = self._words(layout)
        weights = torch.stack(encoded.attentions, dim=1)[..., words, words]
        # What follows the source is in the padding of shorter rows.
        return weights * layout.mask_BS[:, None, None, None]

    @property
    def _framed(self) -> int:
        """How many inputs the decoder reads before those of a sentence, of which BOS is one."""
        return len(self.before_target) - 1

    def _words(self, layout: Layout) -> slice:
        """Return where the source's ids are among the encoder's states."""
        before = len(self.before_source)
        return slice(before, before + layout.source_BS.shape[1])

    def _encode(self, source_BSD: Tensor, layout: Layout, **options: Any) -> tuple[Any, Tensor]:
        """Run the encoder on the embeddings in their frame; also return the mask of the whole."""
        encoder = self.model.get_encoder()
        before, after = (
            self._embed(encoder, ids).expand(len(source_BSD), -1, -1)
            for ids in (self.before_source, self.after_source)
        )
        # Zeros make room; `after` is written over them at each row's own end.
        framed = torch.cat([before, source_BSD, torch.zeros_like(after)], dim=1)
        end_B1 = before.shape[1] + layout.mask_BS.sum(1, keepdim=True)
        places = torch.arange(framed.shape[1], device=end_B1.device)
        if after.shape[1]:  # right behind each row's EOS, and before its padding
            behind = end_B1 + places[: after.shape[1]]
            framed = framed.scatter(1, behind[..., None].expand_as(after), after)
        self._check_length("source", framed)
        mask = places < end_B1 + after.shape[1]
        if layout.hidden_BS is not None:
            mask[:, before.shape[1] :][:, : source_BSD.shape[1]] &= ~layout.hidden_BS
        mask = seen_mask(mask, framed.dtype)
        return encoder(inputs_embeds=framed, attention_mask=mask, **options), mask

    def decode(self, encoding: Encoding, input_BTD: Tensor) -> Tensor:
        """Decode a teacher-forced prefix: states (B, T, D)."""
        return self._decode(encoding, input_BTD).last_hidden_state[:, self._framed :]

    def attention(self, encoding: Encoding, input_BTD: Tensor) -> AttentionWeights:
        """Return cross-attention and decoder self-attention, less what goes to the frame."""
        decoded = self._decode(encoding, input_BTD, output_attentions=True)
        # Weights on the frame are dropped: it is the model's own and no word of the sentence.
        framed, words = self._framed, self._words(encoding.layout)
        cross = torch.stack(decoded.cross_attentions, dim=1)[..., framed:, words]
        prefix = torch.stack(decoded.attentions, dim=1)[..., framed:, framed:]
        # What follows the source is in the padding of shorter rows.
        cross = cross * encoding.mask_BS[:, None, None, None]
        return AttentionWeights(cross, prefix, decoded.last_hidden_state[:, framed:])

    def attention_blocks(self, batch: Batch) -> Blocks[AttentionBlock]:
        """Return what each attention block adds, its states those of the frame too."""
        kept = {"output_attentions": True, "output_hidden_states": True}
        encoded, mask = self._encode(self.embed_source(batch.source_BS), batch.layout, **kept)
        encoding = Encoding(encoded.last_hidden_state, batch.layout, (mask,))
        decoded = self._decode(encoding, self.embed_target(batch.input_BT), **kept)
        apart = partial(take_apart, post_norm=self.model.config.model_type in POST_NORM)
        encoder, decoder = [], []
        # Behind the states that each layer reads stand those of the last one.
        for n, [attention] in enumerate(attentions(self.model.get_encoder())):
            encoder.append(apart(attention, encoded.attentions[n], encoded.hidden_states[n], None))
        for n, (to_itself, to_source) in enumerate(attentions(self.model.get_decoder())):
            first = apart(to_itself, decoded.attentions[n], decoded.hidden_states[n], None)
            read_BQD, weights = first.output_BQD, decoded.cross_attentions[n]
            decoder.append((first, apart(to_source, weights, read_BQD, encoding.states_BSD)))
        words = self._words(encoding.layout)
        return Blocks(encoder, decoder, source=words, inputs=slice(self._framed, None))

    def _decode(self, encoding: Encoding, input_BTD: Tensor, read: int = 0, **options: Any) -> Any:
        """Run the decoder on the frame and the inputs.

        With keys of so many inputs that have been read, the frame's too, it goes on from these.
        """
        decoder = self.model.get_decoder()
        if not read:
            # The last of them comes as BOS with the inputs.
            before = self._embed(decoder, self.before_target[:-1])
            input_BTD = torch.cat([before.expand(len(input_BTD), -1, -1), input_BTD], dim=1)
            self._check_length("target", input_BTD)
        hidden_BT = encoding.layout.hidden_BT
        if hidden_BT is not None:
            # The frame stands before the inputs, also where the decoder has read it before.
            hidden_BT = F.pad(hidden_BT, (self._framed, 0), value=False)
        return decoder(
            # Marian's decoder scales embeddings that have been scaled for it.
            inputs_embeds=input_BTD / _scale(decoder),
            encoder_hidden_states=encoding.states_BSD,
            encoder_attention_mask=encoding.extra[0],
            attention_mask=causal_mask(input_BTD, read + input_BTD.shape[1], hidden_BT),
            **{"use_cache": False, **options},
        )

    def _check_length(self, side: str, embeddings_BTD: Tensor) -> None:
        length, most = embeddings_BTD.shape[1], self._table_size
        if most is not None and length > most:
            raise XnmtError(f"a {side} of {length} subwords; the model reads {most} at most")

    def reader(self, encoding: Encoding) -> Reader:
        """Keep the keys and values of what it has read."""
        return HuggingFaceReader(self, encoding)

    def prefix(self, encoding: Encoding) -> Prefix:
        """Keep the keys and values of what it has read, and of the source."""
        return HuggingFacePrefix(self, encoding)

    def logits(self, states: Tensor) -> Tensor:
        """Return unnormalised log-probabilities (..., V)."""
        # A copy, so that it may be changed in place.
        our_logits = self._their_logits(states).index_select(-1, self.target_ids)
        our_logits[..., self.target_subwords.ids.unpredictable] = -torch.inf
        return our_logits

    def logit_parts(self, states_RD: Tensor) -> Iterator[Tensor]:
        """Yield the logits of one part of V after another, (R, P)."""
        ids = self.target_subwords.ids
        if keeps_in_cache(states_RD.device):
            yield from linear_parts(*self._output(states_RD), ids.runs, ids.unpredictable)
        else:  # some runs are of a single id, for which a GPU would wait as for any other
            yield self.logits(states_RD)

    def _their_logits(self, states: Tensor) -> Tensor:
        # In one product, since adding to all of V costs as much as reading it.
        return F.linear(*self._output(states))

    def _output(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the output layer's input, weights and bias."""
        config = self.model.config
        # T5 scales where input and output embeddings are one; newer versions have an option for it.
        if config.model_type == "t5" and getattr(
            config, "scale_decoder_outputs", config.tie_word_embeddings
        ):
            states = states * config.d_model**-0.5
        bias = getattr(self.model, "final_logits_bias", None)
        return states, self.model.lm_head.weight, None if bias is None else bias[0]

    def save(self, folder: Path) -> None:
        """Write model and tokenizer as `transformers` reads them."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    @torch.no_grad()
    def verify(self) -> None:
        """Compare a few ids' logits with those of the model's own path from ids.

        Raises:
            XnmtError: they differ, so explained would be another function than what translates.
        """
        sides = (self.source_subwords, self.target_subwords)
        # Six ids from all over the vocabulary, behind the four special ones.
        x, y = (list(range(4, len(side), max(1, len(side) // 6)))[:6] for side in sides)
        if self.reads_separators:
            x, y = ([*ids[:2], SEPARATOR, *ids[3:]] for ids in (x, y))
        pairs = [(x, y), (x[:3], y[:4])]  # one of them padded
        device = self.before_target.device
        our_logits = self._their_logits(self.states(Batch.collate(pairs).to(device)))
        for row, (source, target) in zip(our_logits, pairs, strict=True):
            ids_S = torch.cat([self.before_source, self.source_ids[source], self.after_source])
            ids_T = torch.cat([self.before_target, self.target_ids[target[:-1]]])
            output = self.model(input_ids=ids_S[None], decoder_input_ids=ids_T[None])
            their_logits = output.logits[0, self._framed :]
            difference = (row[: len(target)] - their_logits).abs().max()
            # Asked this way round, since not a number is not close either.
            if not difference <= TOLERANCE * their_logits.abs().max():
                raise XnmtError(
                    f"{type(self.model).__name__}: the model gives other logits from embeddings "
                    "than from ids, so explanations would not be of what translates"
                )


class ConcatenatedHuggingFaceModel(HuggingFaceModel):
    """One that was trained on sentences behind those before them, each closed by a separator."""

    reads_separators = True


def _scale(stack: nn.Module) -> float:
    """Return the factor of a stack's embeddings, where its embedding layer does not scale them."""
    return float(getattr(stack, "embed_scale", 1.0))


class HuggingFacePrefix(Prefix):
    """Computes each input once, and the source's keys and values."""

    model: HuggingFaceModel

    def __init__(self, model: HuggingFaceModel, encoding: Encoding) -> None:
        super().__init__(model, encoding)
        self._kept = EncoderDecoderCache(DynamicCache(), DynamicCache())

    def read(self, input_BXD: Tensor) -> Tensor:
        """Read further inputs of every row: the state behind each, (B, X, D)."""
        kept = {self.model.cache_argument: self._kept, "use_cache": True}
        read = self.steps and self.model._framed + self.steps
        decoded = self.model._decode(self.encoding, input_BXD, read, **kept)
        self.steps += input_BXD.shape[1]
        return decoded.last_hidden_state[:, -input_BXD.shape[1] :]  # type: ignore[no-any-return]

    def _keep(self, forked: Self, steps: int, rows: Tensor) -> None:
        if not steps:
            return
        end, caches = self.model._framed + steps, []
        for name in ("self_attention_cache", "cross_attention_cache"):
            caches.append(cache := DynamicCache())
            # Layers are copied, since an update would copy the keys once more.
            for layer in map(copy, getattr(self._kept, name).layers):
                keys_values = (layer.keys, layer.values)
                if name == "self_attention_cache":  # keys of the source do not grow with the steps
                    keys_values = tuple(x[:, :, :end] for x in keys_values)
                layer.keys, layer.values = (x[rows] for x in keys_values)
                cache.layers.append(layer)
        forked._kept = EncoderDecoderCache(*caches)


class HuggingFaceReader(Reader):
    """Computes each input once. Rows read equal numbers of inputs."""

    reads_padding = False
    model: HuggingFaceModel

    def __init__(self, model: HuggingFaceModel, encoding: Encoding) -> None:
        super().__init__(model, encoding)
        self._prefix = HuggingFacePrefix(model, encoding)

    def read(self, ids_RT: Tensor) -> Tensor:
        """Read further inputs of every row; the state behind the last, (R, D)."""
        return self._prefix.read(self.model.embed_target(ids_RT))[:, -1]

    def select(self, rows: Tensor) -> None:
        """Go on with some of the rows, in a new order, some perhaps more than once."""
        super().select(rows)
        self._prefix.encoding = self.encoding
        self._prefix._kept.reorder_cache(rows)  # type: ignore[arg-type]
