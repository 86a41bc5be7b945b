"""Text embeddings: vectors from the layers of a BERT."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.codecs.wordpiece import END, WordPiece
from regard.data import sequences
from regard.data.batches import BATCH_TOKENS, in_batches
from regard.data.sequences import Encoded, TextBatch
from regard.decoding.finite import finite
from regard.errors import RegardError
from regard.explain.media.text import TextLayout, text_stream
from regard.explain.trace import Alternative, Inputs, PartialOutput, Stream, Trace, by_role
from regard.explain.view import Viewable
from regard.tasks.pipeline import Pipeline
from regard.tasks.texts import expect_texts
from regard.training.task import Task

Join = Literal["mean", "sum", "concatenate"]
Pool = Literal["mean", "cls", "max"]
EMPTY = text_stream((), (), TextLayout((), ()))


class Embedder(Viewable, Pipeline):
    """A BERT with any head, and its tokenizer."""

    def __init__(self, model: nn.Module, tokenizer: WordPiece) -> None:
        self.model: Any = model.eval()
        self.tokenizer = tokenizer
        self.device = next(model.parameters()).device

    def encode(self, texts: Sequence[str], seconds: Sequence[str | None] | None = None) -> list[Encoded]:
        """The tokens of each text, truncated to the maximum length of the model."""
        return sequences.encode(self.tokenizer, texts, seconds, max_length=self.model.limit)

    def batches(self, encoded: Sequence[Encoded], tokens: int) -> Iterator[tuple[list[int], TextBatch]]:
        """Batches of texts of similar length, with the indices of their texts."""
        for indices in in_batches([len(e.tokens) for e in encoded], tokens):
            yield indices, sequences.text_batch(self.tokenizer, [encoded[i] for i in indices]).to(self.device)

    @torch.no_grad()
    def embed(
        self,
        texts: str | Sequence[str],
        *,
        layers: Sequence[int] = (-1,),
        join: Join = "mean",
        pool: Pool = "mean",
        normalise: bool = False,
        batch_tokens: int = BATCH_TOKENS,
    ) -> Tensor:
        """A vector for each text; for a string, one vector. An empty text consists of its special tokens.

        Args:
            layers: the layers to use; 0 is the embedding layer, -1 the last layer.
            join: how to combine several layers.
            pool: the mean of all tokens (with special tokens), the vector of [CLS], or the maximum of each component.
            normalise: scale vectors to length 1, so that dot products are cosine similarities.
        """
        chosen = self._layers(layers)
        some = expect_texts(texts)
        encoded = self.encode(some)
        width = self.model.config.width * (len(chosen) if join == "concatenate" else 1)
        result_ND = torch.empty(len(some), width, dtype=next(self.model.parameters()).dtype)
        for indices, batch in self.batches(encoded, batch_tokens):
            x_BTD = self._vectors(batch, chosen, join)
            result_ND[indices] = finite(pooled(x_BTD, batch.is_padding_BT, pool)).cpu()
        found_ND = nn.functional.normalize(result_ND, dim=1) if normalise else result_ND
        return found_ND[0] if isinstance(texts, str) else found_ND

    def _vectors(self, batch: TextBatch, layers: Sequence[int], join: Join) -> Tensor:
        """A vector for each token. Other engines override this method."""
        return joined(self.model.states(*batch.inputs), layers, join)

    def _layers(self, layers: Sequence[int]) -> list[int]:
        count = self.model.config.layers + 1
        if not layers or any(not -count <= layer < count for layer in layers):
            raise RegardError(
                f"layers must be from 0 to {count - 1}, or from -1 to {-count} from the end; got {list(layers)}"
            )
        return [layer % count for layer in layers]

    # the interface for traces

    accepts: ClassVar[Mapping[str, str]] = {"text": "text"}

    def count(self, inputs: Inputs) -> int:
        """The number of tokens in a text, special tokens included."""
        return len(self.read(self._text(inputs)).tokens)

    def _text(self, inputs: Inputs) -> str:
        text: str = by_role(self.accepts, inputs)["text"]
        if not text.strip():
            raise RegardError("the text is empty; give at least one word")
        return text

    def read(self, text: str) -> Encoded:
        """The tokens of a text, in which `[SEP]` separates a pair and `[MASK]` masks a word."""
        one, is_pair, other = text.partition(END)
        seconds = [other] if is_pair else None
        return sequences.encode(self.tokenizer, [one], seconds, max_length=self.model.limit, parse_specials=True)[0]

    def inputs(self, encoded: Encoded) -> tuple[Tensor, ...]:
        """The arguments of the model for one text."""
        return sequences.text_batch(self.tokenizer, [encoded]).to(self.device).inputs

    def stream(self, tokens: Sequence[int], segments: Sequence[int] = ()) -> Stream:
        """Tokens with the words and text to display."""
        tokenizer, words = self.tokenizer, self.tokenizer.words(tokens)
        parts = {word: segment for word, segment in zip(words, segments, strict=False) if word >= 0}
        shown = tuple(parts.values()) if any(parts.values()) else ()
        return text_stream(tokens, tokenizer.pieces(tokens), TextLayout(tuple(words), tokenizer.spelled(tokens), shown))

    def trace(self, inputs: Inputs, _target: str | Sequence[int] | None = None) -> Trace:
        """The model applied to a text; there is no output."""
        encoded = self.read(self._text(inputs))
        streams = {"text": self.stream(encoded.tokens, encoded.segments), "nothing": EMPTY}
        return Trace(self.model, self.inputs(encoded), streams, "nothing", EMPTY, (), self.tokenizer.pieces)

    def alternatives(self, _inputs: Inputs, _count: int) -> Sequence[Alternative]:
        """None: an encoder generates no text."""
        return ()

    def generate(self, _inputs: Inputs) -> Iterator[PartialOutput]:
        """Nothing: an encoder generates no text."""
        return iter(())


class EmbeddingTask(Task):
    """Text embeddings, from a model that was trained for another task or converted."""

    name = "embedding"
    verbs = ("embed", "look", "explore")

    @classmethod
    def open(cls, model: nn.Module, codecs: Mapping[str, Any]) -> Embedder:
        """A pipeline that embeds texts."""
        return Embedder(model, codecs["text"])


def joined(states: Sequence[Tensor], layers: Sequence[int], join: Join) -> Tensor:
    """The vectors of several layers, combined into one for each token."""
    chosen = [states[layer] for layer in layers]
    if join == "concatenate":
        return torch.cat(chosen, dim=2)
    summed_BTD = torch.stack(chosen).sum(0)
    return summed_BTD / len(chosen) if join == "mean" else summed_BTD


def pooled(x_BTD: Tensor, is_padding_BT: Tensor | None, pool: Pool) -> Tensor:
    """The vectors of a text, pooled into one."""
    if pool == "cls":
        return x_BTD[:, 0]
    if is_padding_BT is None:
        return x_BTD.amax(1) if pool == "max" else x_BTD.mean(1)
    if pool == "max":
        return x_BTD.masked_fill(is_padding_BT[..., None], -torch.inf).amax(1)
    kept_BT1 = (~is_padding_BT)[..., None].to(x_BTD.dtype)
    return (x_BTD * kept_BT1).sum(1) / kept_BT1.sum(1)
