"""Language models of Hugging Face `transformers` that translate by a prompt.

One stack reads the prompt, the source, the text between the sentences, and the target. What stands
around the sentences is constant: it has no column, and no rule holds a word of it. The id before
the target plays BOS. No id closes the source, so its EOS is not read.

The beginning of the prompt is the same for all sentences. It is read once for a batch, in one row,
and all rows attend to its keys and values. Padding stands behind the source. Masks count positions,
so that neither padding nor a window of attention moves a word. A word that no state attends to is
left out, unless its state is needed.

Shapes: as in `nmt.base`; P ids of that beginning, F behind them and before the target, of source
and template, X inputs that are read, K keys, E of a head.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from xnmt_bench.corpora.passage import Context
from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, SEPARATOR, WORDS
from xnmt_bench.errors import XnmtError, refusal
from xnmt_bench.nmt.base import NMTModel, Prefix, Reader
from xnmt_bench.nmt.batch import AttentionWeights, Batch, Encoding, Layout
from xnmt_bench.nmt.blocks import AttentionBlock, Blocks
from xnmt_bench.nmt.foreign import made_from, number_inputs
from xnmt_bench.nmt.huggingface import MAJOR, TOLERANCE
from xnmt_bench.nmt.huggingface_blocks import Passes, causal_layers, take_layer_apart
from xnmt_bench.nmt.huggingface_files import CAUSAL_LM, files_of, read_folder
from xnmt_bench.nmt.huggingface_text import find_separator
from xnmt_bench.nmt.keys_values import (
    CausalPrefix,
    CausalReader,
    JoinedCache,
    KeysValues,
    attention_masks,
    find_windows,
    join_keys,
    join_sides,
)
from xnmt_bench.nmt.output import linear_parts
from xnmt_bench.nmt.prompted_text import (
    Appended,
    Columns,
    Examples,
    Prompt,
    PromptedSubwords,
    Template,
    read_examples,
)

SHORTEST = 8  # ids of a sentence, for which a prompt has to leave room


def open_causal_lm(
    path: str,
    template: str | None = None,
    examples: Examples | None = None,
    columns: Columns = "source",
    chat: bool = False,
    separator: str | None = None,
) -> CausalLM:
    """Open a language model of the hub, of a folder as `save_pretrained` writes, or of a file.

    Args:
        path: the folder, the model's name on the hub, or a file that ends in `.gguf`.
        template: text of one translation with `{source}` and `{target}`; what stands behind the
            target ends it, by default a line end. With `chat` the user's message, with `{source}`.
        examples: translations that stand in front, each in the template: pairs of texts, or a file
            of lines with a tab between source and target.
        columns: words that are explained besides the prefix: of the `source` alone, or of the
            `examples` too, which are then sentences before it.
        chat: the template is a message, and the tokenizer's chat template stands around it.
        separator: the piece that closes each sentence before the current one, on either side, of
            a model that reads a context; None for others.

    Raises:
        XnmtError: the path has no such model, the template or the separator does not fit it, or its
            two paths from ids and from embeddings are not the same function.
    """
    parts, pairs = None if chat else Template.parse(template), read_examples(examples)
    folder, tokenizer, model = read_folder(path, CAUSAL_LM)
    parts = parts or Template.of_chat(tokenizer, template, bool(pairs))
    prompt = Prompt.of(tokenizer, parts, pairs, columns)
    between = None if separator is None else _find_separator(tokenizer, separator, prompt)
    files = files_of(path, folder)
    weights = [f for f in files if f.suffix in (".safetensors", ".bin", ".gguf")]
    # Tokenizers have a fingerprint without the weights: encoded corpora do not depend on these. A
    # GGUF file holds both.
    of_text = [f for f in files if f not in weights] or files
    options = [prompt.__dict__, MAJOR, *([] if separator is None else [f"separator {separator}"])]
    texts = made_from(of_text, options)
    ids = Appended(tokenizer, len(model.get_output_embeddings().weight), prompt, between)
    source, target = (
        PromptedSubwords(tokenizer, anchor, ids, texts, side)
        for anchor, side in zip(prompt.anchors, ("source", "target"), strict=True)
    )
    source.show(prompt.sentences)
    kind = CausalLM if between is None else ConcatenatedCausalLM
    opened = kind(model, source, target, prompt)
    opened.tokenizer = tokenizer
    opened.fingerprint = made_from(weights, texts)
    opened.eval().requires_grad_(False)
    opened.verify(path)
    return opened


class CausalLM(NMTModel):
    """A language model with eager attention, in its prompt."""

    reads_separators = False
    joint_attention = True
    hides_words = True
    tokenizer: PreTrainedTokenizerBase
    source_subwords: PromptedSubwords
    target_subwords: PromptedSubwords
    before: Tensor
    shown: Tensor
    shown_places: Tensor
    shown_slots: Tensor
    between: Tensor
    start: Tensor
    their_ids: Tensor

    def __init__(
        self,
        model: PreTrainedModel,
        source: PromptedSubwords,
        target: PromptedSubwords,
        prompt: Prompt,
    ) -> None:
        super().__init__()
        self.model, self.source_subwords, self.target_subwords = model, source, target
        # What the installed version calls the keys and values that are kept.
        arguments = inspect.signature(stack_of(model).forward).parameters
        self.cache_argument = "cache" if "cache" in arguments else "past_key_values"
        if lacking := {"inputs_embeds", "position_ids", self.cache_argument} - {*arguments}:
            raise XnmtError(f"{type(model).__name__} cannot be read: it takes no {min(lacking)}")
        # Where only embeddings are given, Gemma 3n leaves it out. Gemma 4 looks for the id whose
        # embedding is equal, and finds no id of a changed one.
        if getattr(model.config.get_text_config(), "hidden_size_per_layer_input", None):
            problem = "each layer reads a second embedding of every id"
            raise XnmtError(f"{type(model).__name__} cannot be read: {problem}")
        self.windows = find_windows(model)
        if most := _count_positions(model):
            constant = len(prompt.before) + len(prompt.shown) + len(prompt.between)
            # Each side has half of what is left, so that both fit together.
            self.longest_target = (most - constant) // 2
            # The examples' sources are ids of the source too.
            self.longest_source = self.longest_target + len(prompt.shown_slots)
            if self.longest_target < SHORTEST:
                problem = f"the prompt has {constant} pieces, and the model reads {most}"
                raise XnmtError(f"{problem}: give fewer examples or a shorter template")
        buffers = {
            "before": prompt.before,
            "shown": prompt.shown,
            "shown_places": prompt.shown_places,
            "shown_slots": prompt.shown_slots,
            "between": prompt.between[:-1],
            "start": prompt.between[-1:],
            "their_ids": target.ids.theirs_V,
        }
        # Buffers, so that they go to the model's device with it; no weights, so not kept.
        for name, numbers in buffers.items():
            tensor = torch.as_tensor(numbers, dtype=torch.long)
            self.register_buffer(name, tensor, persistent=False)

    def embed_source(self, ids_BS: Tensor) -> Tensor:
        """Return source embeddings (B, S, D), as the stack takes them."""
        return self._embed(self.their_ids[ids_BS])

    def embed_target(self, ids_BT: Tensor) -> Tensor:
        """Return embeddings of decoder inputs (B, T, D), as the stack takes them."""
        return self._embed(number_inputs(self.their_ids, ids_BT, self.start))

    def _embed(self, their_ids: Tensor) -> Tensor:
        return self.model.get_input_embeddings()(their_ids)  # type: ignore[no-any-return, operator]

    def encode(self, source_BSD: Tensor, layout: Layout) -> Encoding:
        """Read the source in its prompt; `extra` is of the rows, `shared` of the prompt."""
        return self._encode(source_BSD, layout)[0]

    def _encode(
        self, source_BSD: Tensor, layout: Layout, **options: Any
    ) -> tuple[Encoding, tuple[Tensor, ...] | None]:
        """Return the encoding, and each layer's attention weights if the options ask for them."""
        prompt, length = self._read_prompt(), source_BSD.shape[1]
        framed_BFD, seen_BF, position_BF = self._place_in_prompt(source_BSD, layout)
        # With weights of attention all places are read, so that each has its column.
        needed_BF = None if options or layout.hidden_BS is None else seen_BF
        output, read = self._read(framed_BFD, seen_BF, position_BF, prompt, needed_BF, **options)
        words_BS1 = self._words(layout)[..., None]
        states_BSD = output.last_hidden_state[:, self._slots(length)] * words_BS1
        shared = tuple(x for part in prompt for x in part.tensors)
        return Encoding(states_BSD, layout, read.tensors, shared), output.attentions

    def encode_again(
        self, encoding: Encoding, rows: Tensor, start: int, source_BSD: Tensor, layout: Layout
    ) -> Encoding:
        """Read the source from a place on; its keys and values before that are kept."""
        shown = len(self.shown_slots)
        if start < shown:  # a word of an example, behind which nearly all is
            return self.encode(source_BSD, layout)
        slot = len(self.shown) + start - shown
        behind = [x[:, slot:] for x in self._place_in_prompt(source_BSD, layout)]
        *prompt, source = _parts(encoding)
        source = source.select(rows, slot)
        output, read = self._read(behind[0], behind[1], behind[2], [*prompt, source])
        # The last place, which is EOS or padding, has no state.
        words = source_BSD.shape[1] - 1 - start
        new_BXD = F.pad(output.last_hidden_state[:, :words], (0, 0, 0, 1))
        new_BXD = new_BXD * self._words(layout)[:, start:, None]
        states_BSD = torch.cat([encoding.states_BSD[rows, :start], new_BXD], dim=1)
        extra = KeysValues.join([source, read], len(source_BSD)).tensors
        return Encoding(states_BSD, layout, extra, encoding.shared)

    def _place_in_prompt(self, source_BSD: Tensor, layout: Layout) -> tuple[Tensor, Tensor, Tensor]:
        """Return what is read behind the beginning of the prompt.

        Returns:
            Embeddings (B, F, D), which of them states may attend to, and their positions, (B, F).
        """
        length = source_BSD.shape[1]
        _refuse_longer("source", length - 1, self.longest_source)
        places_F, ids_F = self._frame(length)
        is_source_F, place_F = places_F >= 0, places_F.clamp(min=0)
        framed_BFD = torch.where(
            is_source_F[:, None], source_BSD[:, place_F], self._embed(ids_F)[None]
        )
        there_BF = self._words(layout)[:, place_F] | ~is_source_F
        seen_BF = there_BF
        if layout.hidden_BS is not None:
            seen_BF = there_BF & ~(layout.hidden_BS[:, place_F] & is_source_F)
        position_BF = (len(self.before) - 1 + there_BF.cumsum(1)).clamp(min=0)
        return framed_BFD, seen_BF, position_BF

    def _read_prompt(self) -> list[KeysValues]:
        """Read the beginning of the prompt, in one row; nothing where there is none."""
        if not len(self.before):
            return []
        position_1P = torch.arange(len(self.before), device=self.before.device)[None]
        seen_1P = torch.ones_like(position_1P, dtype=torch.bool)
        return [self._read(self._embed(self.before[None]), seen_1P, position_1P, ())[1]]

    def _frame(self, length: int) -> tuple[Tensor, Tensor]:
        """Return for each of F slots the place among so many source ids, or -1, and a constant id.

        The last place is EOS or padding in every row, so that it has no slot.
        """
        shown = len(self.shown_slots)
        source_X = torch.arange(shown, length - 1, device=self.shown.device)
        places_F = torch.cat([self.shown_places, source_X, torch.full_like(self.between, -1)])
        return places_F, torch.cat([self.shown, torch.zeros_like(source_X), self.between])

    def _slots(self, length: int) -> Tensor:
        """Return the slot of each of so many source places, (S,); -1 where no row has a word."""
        words = length - 1 - len(self.shown_slots)
        source_X = torch.arange(words, device=self.shown.device) + len(self.shown)
        return F.pad(torch.cat([self.shown_slots, source_X]), (0, 1), value=-1)

    def _words(self, layout: Layout) -> Tensor:
        """Return True for source places that hold words, (B, S): neither EOS nor separators."""
        # All but the last of each row, which is EOS.
        words_BS = F.pad(layout.mask_BS[:, 1:], (0, 1), value=False)
        separators = F.pad(self.shown_slots < 0, (0, words_BS.shape[1] - len(self.shown_slots)))
        return words_BS & ~separators

    def _read(
        self,
        input_BXD: Tensor,
        seen_BX: Tensor,
        position_BX: Tensor,
        earlier: Sequence[KeysValues],
        needed_BX: Tensor | None = None,
        **options: Any,
    ) -> tuple[Any, KeysValues]:
        """Run the stack on further inputs.

        Args:
            input_BXD: their embeddings.
            seen_BX: True for inputs that states may attend to.
            position_BX: of the inputs.
            earlier: what was read before, part by part.
            needed_BX: True for inputs that are read; the states of the others are 0. None for all.
            options: of the model.

        Returns:
            The stack's output, and what is read now.
        """
        if needed_BX is not None:
            # The needed inputs of each row, and others where a row needs fewer, or none.
            most = max(int(needed_BX.sum(1).max()), 1)
            index_BN = (~needed_BX).int().argsort(dim=1, stable=True)[:, :most]
            index_BND = index_BN[..., None].expand(-1, -1, input_BXD.shape[-1])
            seen_BN, position_BN = (seen_BX & needed_BX).gather(1, index_BN), position_BX
            output, read = self._read(
                input_BXD.gather(1, index_BND), seen_BN, position_BN.gather(1, index_BN), earlier
            )
            states_BND = output.last_hidden_state * needed_BX.gather(1, index_BN)[..., None]
            output.last_hidden_state = torch.zeros_like(input_BXD).scatter(1, index_BND, states_BND)
            return output, read
        cache, inputs = JoinedCache(earlier), KeysValues(seen_BX, position_BX, ())
        seen_BK, position_BK = join_sides([*earlier, inputs], len(input_BXD))
        output = stack_of(self.model)(
            inputs_embeds=input_BXD,
            attention_mask=attention_masks(
                self.windows, seen_BK, position_BK, position_BX, input_BXD.dtype
            ),
            position_ids=position_BX,
            use_cache=True,
            **{self.cache_argument: cache},
            **options,
        )
        return output, KeysValues(seen_BX, position_BX, tuple(cache.keys_values))

    def encoder_attention(self, source_BSD: Tensor, layout: Layout) -> Tensor:
        """Return attention within the source (B, L, H, S, S), less what goes to the prompt."""
        _, weights = self._encode(source_BSD, layout, output_attentions=True)
        assert weights is not None
        slots_S, words_BS = self._slots(source_BSD.shape[1]), self._words(layout)
        within_BLHSS = torch.stack(weights, dim=1)[..., slots_S, :][..., len(self.before) + slots_S]
        return within_BLHSS * (words_BS[:, None] & words_BS[..., None])[:, None, None]

    def decode(self, encoding: Encoding, input_BTD: Tensor) -> Tensor:
        """Decode a teacher-forced prefix: states (B, T, D)."""
        return self.go_on(encoding, input_BTD)[0].last_hidden_state  # type: ignore[no-any-return]

    def decode_steps(
        self, encoding: Encoding, input_BTD: Tensor, row_N: Tensor, step_N: Tensor
    ) -> Tensor:
        """Return the states behind some steps, (N, D); see `NMTModel.decode_steps`."""
        layout = encoding.layout
        if layout.hidden_BT is None:
            return super().decode_steps(encoding, input_BTD, row_N, step_N)
        needed_BT = (layout.input_BT > 0) & ~layout.hidden_BT
        needed_BT[row_N, step_N] = True
        output, _ = self.go_on(encoding, input_BTD, needed_BX=needed_BT)
        return output.last_hidden_state[row_N, step_N]  # type: ignore[no-any-return]

    def go_on(
        self,
        encoding: Encoding,
        input_BXD: Tensor,
        inputs: KeysValues | None = None,
        **options: Any,
    ) -> tuple[Any, KeysValues]:
        """Read decoder inputs from one on; see `_read`.

        Args:
            encoding: of the source.
            input_BXD: embeddings of the inputs.
            inputs: those that were read before.
            options: of `_read` and of the model.
        """
        parts = _parts(encoding) + ([inputs] if inputs else [])
        start = inputs.seen_BK.shape[1] if inputs else 0
        stop, hidden_BT = start + input_BXD.shape[1], encoding.layout.hidden_BT
        _refuse_longer("target", stop, self.longest_target)
        steps = torch.arange(start, stop, device=input_BXD.device)
        position_BX = self._end(encoding.layout) + steps
        seen_BX = torch.ones_like(position_BX, dtype=torch.bool)
        if hidden_BT is not None:
            seen_BX = ~hidden_BT[:, start:]
        return self._read(input_BXD, seen_BX, position_BX, parts, **options)

    def _end(self, layout: Layout) -> Tensor:
        """Return the position of each row's first decoder input, (B, 1)."""
        constant = len(self.before) + len(self.shown) + len(self.between)
        # Of an example's words `shown` holds the places too.
        return self._words(layout)[:, len(self.shown_slots) :].sum(1, keepdim=True) + constant

    def attention(self, encoding: Encoding, input_BTD: Tensor) -> AttentionWeights:
        """Return attention to source and prefix, less what goes to the prompt."""
        assert encoding.layout.hidden_BS is None  # whose keys would have no columns of their own
        output, _ = self.go_on(encoding, input_BTD, output_attentions=True)
        weights_BLHTK, words_BS = torch.stack(output.attentions, 1), self._words(encoding.layout)
        slots_S = len(self.before) + self._slots(words_BS.shape[1])
        cross_BLHTS = weights_BLHTK[..., slots_S] * words_BS[:, None, None, None]
        prefix_BLHTT = weights_BLHTK[..., -input_BTD.shape[1] :]
        return AttentionWeights(cross_BLHTS, prefix_BLHTT, output.last_hidden_state)

    def attention_layers(self, batch: Batch) -> Blocks[Tensor]:
        """Return attention weights over all that is read, each layer's as one block."""
        return self._read_all(batch)[0]

    def attention_blocks(self, batch: Batch) -> Blocks[AttentionBlock]:
        """Return what each attention block adds, of all that is read in one sequence.

        The beginning of the prompt has no rows, since no word reaches it.

        Raises:
            NotApplicable: the family's blocks cannot be taken apart.
        """
        layers, passes = causal_layers(stack_of(self.model)), Passes()
        modules = [module for parts in layers for module in (parts.layer, parts.feed_forward)]
        with passes.record(modules):
            weights, read = self._read_all(batch)
        values = [
            join_keys([part.keys_values[2 * n + 1] for part in read], len(batch.source_BS))
            for n in range(len(layers))
        ]
        blocks = [
            (take_layer_apart(parts, passes, weights_BHQK, values_BGKE),)
            for parts, (weights_BHQK,), values_BGKE in zip(
                layers, weights.decoder, values, strict=True
            )
        ]
        return Blocks([], blocks, weights.source, weights.inputs)

    def _read_all(self, batch: Batch) -> tuple[Blocks[Tensor], list[KeysValues]]:
        """Read source and inputs: each layer's attention weights, and what was read."""
        source_BSD, steps = self.embed_source(batch.source_BS), batch.input_BT.shape[1]
        encoding, of_source = self._encode(source_BSD, batch.layout, output_attentions=True)
        input_BTD = self.embed_target(batch.input_BT)
        output, inputs = self.go_on(encoding, input_BTD, output_attentions=True)
        assert of_source is not None
        # No source word sees an input.
        blocks = [
            (torch.cat([F.pad(source_BHFK, (0, steps)), inputs_BHTK], dim=2),)
            for source_BHFK, inputs_BHTK in zip(of_source, output.attentions, strict=True)
        ]
        slots_S = self._slots(source_BSD.shape[1])
        source_S = torch.where(slots_S < 0, -1, len(self.before) + slots_S)
        return Blocks([], blocks, source_S, slice(-steps, None)), [*_parts(encoding), inputs]

    def reader(self, encoding: Encoding) -> Reader:
        """Keep the keys and values of what it has read."""
        return CausalReader(self, encoding)

    def prefix(self, encoding: Encoding) -> Prefix:
        """Keep the keys and values of what it has read."""
        return CausalPrefix(self, encoding)

    def logits(self, states: Tensor) -> Tensor:
        """Return unnormalised log-probabilities (..., V) of states (..., D)."""
        our_logits = self._their_logits(states).index_select(-1, self.their_ids)  # a copy
        our_logits[..., self.target_subwords.ids.unpredictable] = -torch.inf
        return our_logits

    def logit_parts(self, states_RD: Tensor) -> Iterator[Tensor]:
        """Yield the logits of one part of V after another, (R, P)."""
        output, ids = self.model.get_output_embeddings(), self.target_subwords.ids
        bias = getattr(output, "bias", None)
        parts = linear_parts(states_RD, output.weight, bias, ids.runs, ids.unpredictable)
        yield from map(self._scale_and_bound, parts)

    def _their_logits(self, states: Tensor) -> Tensor:
        return self._scale_and_bound(self.model.get_output_embeddings()(states))  # type: ignore[operator]

    def _scale_and_bound(self, logits: Tensor) -> Tensor:
        """Return logits as the model's own path gives them; impossible words stay so.

        Cohere and Granite scale what the output layer gives, and Gemma 2 bounds it.
        """
        config = self.model.config.get_text_config()
        scale = (getattr(config, "logit_scale", None) or 1.0) / (
            getattr(config, "logits_scaling", None) or 1.0
        )
        logits = logits if scale == 1.0 else logits * scale
        cap = getattr(config, "final_logit_softcapping", None)
        if cap is None:
            return logits
        return (cap * (logits / cap).tanh()).masked_fill(logits == -torch.inf, -torch.inf)

    @torch.no_grad()
    def verify(self, path: str) -> None:
        """Compare a few ids' logits with those of the model's own path from ids.

        Raises:
            XnmtError: they differ, so explained would be another function than what translates.
        """
        vocabulary = len(self.target_subwords)
        # Six ids from all over the vocabulary, behind the four special ones.
        ids = list(range(WORDS, vocabulary, max(1, vocabulary // 6)))[:6]
        if self.reads_separators:
            ids[2] = SEPARATOR
        shown = [i for sentence in self.source_subwords.in_front for i in (*sentence.ids, BOS)]
        # One of them is padded.
        pairs = [([*shown, *ids, EOS], ids[::-1]), ([*shown, *ids[:3], EOS], ids[:4])]
        device = self.their_ids.device
        try:
            our_logits = self._their_logits(self.states(Batch.collate(pairs).to(device)))
            their_logits = [self._forward(*pair) for pair in pairs]
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
            name = type(self.model).__name__
            raise XnmtError(f"{path}: {name} cannot be read: {refusal(error)}") from error
        for row_TV, theirs_TV in zip(our_logits, their_logits, strict=True):
            difference = (row_TV[: len(theirs_TV)] - theirs_TV).abs().max()
            # Asked this way round, since not a number is not close either.
            if not difference <= TOLERANCE * theirs_TV.abs().max():
                raise XnmtError(
                    f"{path}: {type(self.model).__name__} gives other logits from embeddings than "
                    "from ids, so explanations would not be of what translates"
                )

    def _forward(self, source: Sequence[int], target: Sequence[int]) -> Tensor:
        """Return the model's own logits (T, V) of a target, from ids."""
        places_F, ids_F = self._frame(len(source))
        theirs_S = self.their_ids[source]
        ids_F = torch.where(places_F >= 0, theirs_S[places_F.clamp(min=0)], ids_F)
        ids_1P = torch.cat([self.before, ids_F, self.start, self.their_ids[target[:-1]]])[None]
        return self.model(input_ids=ids_1P).logits[0, -len(target) :]  # type: ignore[no-any-return]


class ConcatenatedCausalLM(CausalLM):
    """One that reads sentences behind those before them, each closed by a separator."""

    reads_separators = True

    @classmethod
    def refuses(cls, context: Context) -> str | None:
        """Return why it cannot read such a context: no id closes the source in front of others."""
        return "reads no following sentence" if context.following else super().refuses(context)


def _find_separator(tokenizer: PreTrainedTokenizerBase, separator: str, prompt: Prompt) -> int:
    """Return the id of a separator.

    Raises:
        XnmtError: the vocabulary lacks it, it ends a target, or examples stand before the source.
    """
    separator_id = find_separator(tokenizer, separator)
    if separator_id == prompt.stop:
        raise XnmtError(f"nmt.reader.separator={separator} ends a target in the template")
    if prompt.shown:
        problem = "the sentences before the source are examples there, and no context"
        raise XnmtError(f"nmt.reader.separator and columns='examples': {problem}")
    return separator_id


def stack_of(model: PreTrainedModel) -> Any:
    """Return what a language model has in front of its output layer."""
    # transformers 4.57 does not find that of Gemma 3, and gives the whole model.
    return model.model if model.base_model is model else model.base_model


def _count_positions(model: PreTrainedModel) -> int | None:
    """Return how many positions it reads; None for any number.

    Rotations of Phi 3 with a long context change for the whole batch where one sentence is longer
    than `original_max_position_embeddings`. A sentence's numbers would depend on its batch there.
    """
    config = model.config.get_text_config()
    most, first = (
        getattr(config, name, None)
        for name in ("max_position_embeddings", "original_max_position_embeddings")
    )
    rotations = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    if isinstance(rotations, dict) and rotations.get("rope_type") == "longrope":
        first = rotations.get("original_max_position_embeddings") or first
        return int(first) if first else most
    return most


def _parts(encoding: Encoding) -> list[KeysValues]:
    """Return what was read before the inputs: the prompt in one row, and the source."""
    return [KeysValues.of(x) for x in (encoding.shared, encoding.extra) if x]


def _refuse_longer(side: str, length: int, most: int | None) -> None:
    """Raise an XnmtError for a sentence that the model has no positions for."""
    if most is not None and length > most:
        raise XnmtError(f"a {side} of {length} subwords; the model reads {most} at most")
