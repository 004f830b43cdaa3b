"""Language models of Hugging Face `transformers` that translate by a prompt.

One stack reads the prompt, the source, the text between the sentences, and the target. What stands
around the sentences is constant: it has no column, and no rule holds a word of it. The id before
the target plays BOS. No id closes the source, so its EOS is not read.

Rows of unlike lengths are padded in front. A sliding window counts slots, and then no slot of
padding is between two words.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import DynamicCache

from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, PAD, WORDS
from xnmt_bench.errors import XnmtError, refusal
from xnmt_bench.nmt.base import NMTModel, Prefix, Reader
from xnmt_bench.nmt.batch import AttentionWeights, Batch, Encoding, Layout
from xnmt_bench.nmt.foreign import made_from
from xnmt_bench.nmt.huggingface import MAJOR, TOLERANCE
from xnmt_bench.nmt.huggingface_files import CAUSAL_LM, WANTED, read_folder
from xnmt_bench.nmt.output import linear_parts
from xnmt_bench.nmt.prompted_text import (
    Appended,
    Examples,
    Prompt,
    PromptedSubwords,
    Template,
    read_examples,
)

ATTENTION = {"full_attention", "sliding_attention"}  # kinds of layers that are read here
SHORTEST = 8  # ids of a sentence, for which a prompt has to leave room


def open_causal_lm(
    path: str, template: str | None = None, examples: Examples | None = None
) -> CausalLM:
    """Open a language model of the hub, or of a folder that `save_pretrained` wrote.

    Args:
        path: the folder, or the model's name on the hub.
        template: text of one translation with `{source}` and `{target}`; what stands behind the
            target ends it, by default a line end.
        examples: translations that stand in front, each in the template: pairs of texts, or a file
            of lines with a tab between source and target.

    Raises:
        XnmtError: the path has no such model, the template does not fit it, or its two
            paths from ids and from embeddings are not the same function.
    """
    parts, pairs = Template.parse(template), read_examples(examples)
    folder, tokenizer, model = read_folder(path, CAUSAL_LM)
    prompt = Prompt.of(tokenizer, parts, pairs)
    files = sorted(f for pattern in WANTED for f in folder.glob(pattern))
    weights = [f for f in files if f.suffix in (".safetensors", ".bin")]
    # Tokenizers have a fingerprint without the weights: encoded corpora do not depend on these.
    texts = made_from([f for f in files if f not in weights], [prompt.__dict__, MAJOR])
    ids = Appended(tokenizer, len(model.get_output_embeddings().weight), prompt)
    source, target = (
        PromptedSubwords(tokenizer, anchor, ids, texts, side)
        for anchor, side in zip(prompt.anchors, ("source", "target"), strict=True)
    )
    opened = CausalLM(model, source, target, prompt)
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
    between: Tensor
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
        arguments = inspect.signature(_stack(model).forward).parameters
        self.cache_argument = "cache" if "cache" in arguments else "past_key_values"
        if lacking := {"inputs_embeds", "position_ids", self.cache_argument} - {*arguments}:
            raise XnmtError(f"{type(model).__name__} cannot be read: it takes no {min(lacking)}")
        if other := {*(getattr(model.config, "layer_types", None) or ())} - ATTENTION:
            raise XnmtError(f"{type(model).__name__} cannot be read: it has {min(other)} layers")
        if most := getattr(model.config, "max_position_embeddings", None):
            constant = len(prompt.before) + len(prompt.between)
            # Each side has half of what is left, so that both fit together.
            self.longest_source = self.longest_target = (most - constant) // 2
            if self.longest_source < SHORTEST:
                problem = f"the prompt has {constant} pieces, and the model reads {most}"
                raise XnmtError(f"{problem}: give fewer examples or a shorter template")
        tensors = {
            "before": torch.tensor(prompt.before, dtype=torch.long),
            "between": torch.tensor(prompt.between[:-1], dtype=torch.long),
            "their_ids": target.ids.theirs_V,
        }
        # Buffers, so that they go to the model's device with it; no weights, so not kept.
        for name, ids in tensors.items():
            self.register_buffer(name, ids, persistent=False)

    def embed_source(self, ids_BS: Tensor) -> Tensor:
        """Return source embeddings (B, S, D), as the stack takes them."""
        return self._embed(self.their_ids[ids_BS])

    def embed_target(self, ids_BT: Tensor) -> Tensor:
        """Return embeddings of decoder inputs (B, T, D), as the stack takes them."""
        return self._embed(self.their_ids[ids_BT])

    def _embed(self, their_ids: Tensor) -> Tensor:
        return self.model.get_input_embeddings()(their_ids)  # type: ignore[no-any-return, operator]

    def encode(self, source_BSD: Tensor, layout: Layout) -> Encoding:
        """Read prompt and source; `extra` holds slots, mask, and keys and values of each layer."""
        return self._encode(source_BSD, layout)[0]

    def _encode(
        self, source_BSD: Tensor, layout: Layout, **options: Any
    ) -> tuple[Encoding, tuple[Tensor, ...] | None]:
        """Return the encoding, and each layer's attention weights if the options ask for them.

        Shapes: P slots, of the padding, the prompt and the source.
        """
        rows, length = source_BSD.shape[:2]
        _refuse_longer("source", length - 1, self.longest_source)
        before, between = (
            self._embed(ids).expand(rows, -1, -1) for ids in (self.before, self.between)
        )
        mask_BS = layout.mask_BS
        # All but the last word of each row, which is EOS.
        words_BS = mask_BS & F.pad(mask_BS[:, 1:], (0, 1), value=False)
        seen_BS = words_BS if layout.hidden_BS is None else words_BS & ~layout.hidden_BS
        there_BP, seen_BP = (
            F.pad(side_BS, (before.shape[1], 0), value=True) for side_BS in (words_BS, seen_BS)
        )
        there_BP, seen_BP = (
            F.pad(side_BP, (0, between.shape[1]), value=True) for side_BP in (there_BP, seen_BP)
        )
        # Padding goes to the front, and all else keeps its order.
        order_BP = there_BP.long().argsort(dim=1, stable=True)
        framed_BPD = torch.cat([before, source_BSD, between], dim=1)
        framed_BPD = framed_BPD.gather(1, order_BP[..., None].expand_as(framed_BPD))
        seen_BP, there_BP = seen_BP.gather(1, order_BP), there_BP.gather(1, order_BP)
        output, kept = self._read(framed_BPD, seen_BP, there_BP.cumsum(1) - 1, (), **options)
        slots_BS = order_BP.argsort(dim=1)[:, before.shape[1] :][:, :length]
        states_BPD = output.last_hidden_state
        states_BSD = states_BPD.gather(1, slots_BS[..., None].expand(-1, -1, states_BPD.shape[2]))
        states_BSD = states_BSD * words_BS[..., None]  # EOS and padding are in front, and no states
        extra = (slots_BS, seen_BP, there_BP, *kept)
        return Encoding(states_BSD, layout, extra), output.attentions

    def _read(
        self,
        input_BXD: Tensor,
        seen_BK: Tensor,
        positions_BX: Tensor,
        kept: Sequence[Tensor],
        **options: Any,
    ) -> tuple[Any, tuple[Tensor, ...]]:
        """Run the stack on further inputs.

        Args:
            input_BXD: their embeddings.
            seen_BK: True for keys that states may attend to, those of the inputs too.
            positions_BX: of the inputs; below 0 in the padding.
            kept: keys and values (B, H, K, E) of each layer in turn, of what was read before.
            options: of the model.

        Returns:
            The stack's output, and what is kept now.
        """
        cache = DynamicCache()  # a new one, since reading changes it
        for number, (keys, values) in enumerate(zip(kept[::2], kept[1::2], strict=True)):
            cache.update(keys, values, number)
        output = _stack(self.model)(
            inputs_embeds=input_BXD,
            attention_mask=seen_BK.long(),
            position_ids=positions_BX.clamp(min=0),
            use_cache=True,
            **{self.cache_argument: cache},
            **options,
        )
        layers: list[Any] = cache.layers
        return output, tuple(x for layer in layers for x in (layer.keys, layer.values))

    def encoder_attention(self, source_BSD: Tensor, layout: Layout) -> Tensor:
        """Return attention within the source (B, L, H, S, S), less what goes to the prompt."""
        encoding, weights = self._encode(source_BSD, layout, output_attentions=True)
        assert weights is not None
        slots_BS, _, there_BP = encoding.extra[:3]
        weights_BLHSP = _take_slots(torch.stack(weights, dim=1), slots_BS, dim=3)
        # EOS and padding are in front, where nothing stands that they may attend to.
        weights_BLHSP = weights_BLHSP * there_BP.gather(1, slots_BS)[:, None, None, :, None]
        return _take_slots(weights_BLHSP, slots_BS, dim=4)

    def decode(self, encoding: Encoding, input_BTD: Tensor) -> Tensor:
        """Decode a teacher-forced prefix: states (B, T, D)."""
        return self.go_on(encoding, _kept(encoding), input_BTD)[0].last_hidden_state  # type: ignore[no-any-return]

    def go_on(
        self,
        encoding: Encoding,
        kept: Sequence[Tensor],
        input_BXD: Tensor,
        start: int = 0,
        **options: Any,
    ) -> tuple[Any, tuple[Tensor, ...]]:
        """Read decoder inputs from one on; see `_read`.

        Args:
            encoding: of the source.
            kept: keys and values of the encoding and of the inputs before.
            input_BXD: embeddings of the inputs.
            start: how many inputs were read before.
            options: of the model.
        """
        stop, (_, seen_BP, there_BP) = start + input_BXD.shape[1], encoding.extra[:3]
        _refuse_longer("target", stop, self.longest_target)
        hidden_BT = encoding.layout.hidden_BT
        seen_BT = seen_BP.new_ones(len(seen_BP), stop) if hidden_BT is None else ~hidden_BT
        steps = torch.arange(start, stop, device=seen_BP.device)
        positions_BX = there_BP.sum(1, keepdim=True) + steps
        return self._read(
            input_BXD, torch.cat([seen_BP, seen_BT], dim=1), positions_BX, kept, **options
        )

    def attention(self, encoding: Encoding, input_BTD: Tensor) -> AttentionWeights:
        """Return attention to source and prefix, less what goes to the prompt."""
        output, _ = self.go_on(encoding, _kept(encoding), input_BTD, output_attentions=True)
        slots_BS, seen_BP = encoding.extra[:2]
        weights_BLHTK = torch.stack(output.attentions, dim=1)
        cross = _take_slots(weights_BLHTK, slots_BS, dim=4)
        prefix = weights_BLHTK[..., seen_BP.shape[1] :]
        return AttentionWeights(cross, prefix, output.last_hidden_state)

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
        yield from map(self._cap, parts)

    def _their_logits(self, states: Tensor) -> Tensor:
        return self._cap(self.model.get_output_embeddings()(states))  # type: ignore[operator]

    def _cap(self, logits: Tensor) -> Tensor:
        """Return logits between the bounds that Gemma 2 has; impossible words stay so."""
        cap = getattr(self.model.config, "final_logit_softcapping", None)
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
        pairs = [([*ids, EOS], ids[::-1]), ([*ids[:3], EOS], ids[:4])]  # one of them padded
        device = self.their_ids.device
        try:
            our_logits = self._their_logits(self.states(Batch.collate(pairs).to(device)))
            their_logits = [self._forward(source[:-1], target) for source, target in pairs]
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
        start = self.their_ids[[BOS, *target[:-1]]]
        ids_1P = torch.cat([self.before, self.their_ids[source], self.between, start])[None]
        return self.model(input_ids=ids_1P).logits[0, -len(target) :]  # type: ignore[no-any-return]


def _stack(model: PreTrainedModel) -> Any:
    """Return what a language model has in front of its output layer."""
    # transformers 4.57 does not find that of Gemma 3, and gives the whole model.
    return model.model if model.base_model is model else model.base_model


def _kept(encoding: Encoding) -> tuple[Tensor, ...]:
    """Return the keys and values of an encoding."""
    return encoding.extra[3:]


def _take_slots(weights: Tensor, slots_BS: Tensor, dim: int) -> Tensor:
    """Return weights (B, L, H, X, Y) of the source's words in the place of slots."""
    shape = [1] * weights.dim()
    shape[0], shape[dim] = slots_BS.shape
    sizes = [*weights.shape]
    sizes[dim] = slots_BS.shape[1]
    return weights.gather(dim, slots_BS.view(shape).expand(sizes))


def _refuse_longer(side: str, length: int, most: int | None) -> None:
    """Raise an XnmtError for a sentence that the model has no positions for."""
    if most is not None and length > most:
        raise XnmtError(f"a {side} of {length} subwords; the model reads {most} at most")


class CausalPrefix(Prefix):
    """Computes each input once."""

    model: CausalLM

    def __init__(self, model: CausalLM, encoding: Encoding) -> None:
        super().__init__(model, encoding)
        self.kept = _kept(encoding)

    def read(self, input_BXD: Tensor) -> Tensor:
        """Read further inputs of every row: the state behind each, (B, X, D)."""
        output, self.kept = self.model.go_on(self.encoding, self.kept, input_BXD, self.steps)
        self.steps += input_BXD.shape[1]
        return output.last_hidden_state  # type: ignore[no-any-return]

    def _keep(self, forked: Self, steps: int, rows: Tensor) -> None:
        if steps:
            end = self.encoding.extra[1].shape[1] + steps
            forked.kept = tuple(x[rows, :, :end] for x in self.kept)


class CausalReader(Reader):
    """Computes each input once. Rows read equal numbers of inputs: these models have no context."""

    model: CausalLM

    def __init__(self, model: CausalLM, encoding: Encoding) -> None:
        super().__init__(model, encoding)
        self._prefix = CausalPrefix(model, encoding)

    def read(self, ids_RT: Tensor) -> Tensor:
        """Read further inputs of every row; the state behind the last, (R, D)."""
        assert (ids_RT != PAD).all()
        return self._prefix.read(self.model.embed_target(ids_RT))[:, -1]

    def select(self, rows: Tensor) -> None:
        """Go on with some of the rows, in a new order, some perhaps more than once."""
        self._prefix = self._prefix.fork(self._prefix.steps, rows)
        self.encoding = self._prefix.encoding
