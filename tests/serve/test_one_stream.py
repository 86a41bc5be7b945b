"""Models with one stream, such as BERT and GPT-2, work in the explorer without new code."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from helpers import assert_same, randomise
from regard.blocks import masks
from regard.blocks.capture import capture
from regard.blocks.embedding import TokenEmbedding
from regard.blocks.layers import EncoderLayer
from regard.blocks.norms import LayerNorm
from regard.blocks.positions import Positions, make_positions
from regard.explain.media.text import TextLayout, text_stream
from regard.explain.trace import PartialOutput, Trace
from regard.explain.view import AttentionView
from regard.serve.explorer import Explorer, Numbers

LETTERS = "abcdefghij"


@dataclass(frozen=True)
class Config:
    kind: str


class OneStream(nn.Module):
    """Predicts for each letter the letter itself or, if causal, the next one."""

    looks: ClassVar = {"layers.*.attention": ("text", "text")}
    parts: ClassVar = dict.fromkeys(("embedding", "positions", "layers.*"), "text")
    answering: ClassVar = "layers"

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.config, self.causal = Config("gpt" if causal else "bert"), causal
        self.embedding = TokenEmbedding(len(LETTERS), 8)
        positions = make_positions("learned", 8, 16)
        assert isinstance(positions, Positions)
        self.positions = positions
        self.layers = nn.ModuleList(EncoderLayer(8, 2, 8, norm=lambda: LayerNorm(8)) for _ in range(2))

    def forward(self, text_BT: Tensor) -> Tensor:
        x_BTD = self.positions(self.embedding(text_BT))
        length = text_BT.size(1)
        for layer in self.layers:
            x_BTD = layer(x_BTD, masks.causal(length, length) if self.causal else None)
        return self.answer(x_BTD)

    def answer(self, x_BTD: Tensor) -> Tensor:
        return self.embedding.logits(x_BTD)


class Reader:
    def __init__(self, model: OneStream) -> None:
        self.model = model.eval()

    accepts: ClassVar = {"text": "text"}

    def count(self, inputs: Mapping[str, str]) -> int:
        return len(inputs["text"])

    def trace(self, inputs: Mapping[str, str], target: str | Sequence[int] | None = None) -> Trace:
        tokens = [LETTERS.index(letter) for letter in inputs["text"]]
        answer = tokens if target is None else [LETTERS.index(x) if isinstance(x, str) else x for x in target]
        stream, spoken = (
            text_stream(x, pieces(x), TextLayout(tuple(range(len(x))), tuple(pieces(x)))) for x in (tokens, answer)
        )
        return Trace(self.model, (torch.tensor([tokens]),), {"text": stream}, "text", spoken, tuple(answer), pieces)

    def alternatives(self, _inputs: Mapping[str, str], _count: int) -> list:
        return []

    def generate(self, _inputs: Mapping[str, str]) -> Iterator[PartialOutput]:
        return iter(())


def pieces(tokens: Sequence[int]) -> list[str]:
    return [LETTERS[token] for token in tokens]


@pytest.mark.parametrize("causal", [False, True])
def test_every_request_is_answered(causal) -> None:
    torch.manual_seed(1)
    explorer = Explorer(Reader(randomise(OneStream(causal))), "mine")
    model = explorer.answer("model", {})
    asked = {"inputs": {"text": "abcde"}}
    assert [look["path"] for look in model["looks"]] == ["layers.0.attention", "layers.1.attention"]
    for look in model["looks"]:
        answer = explorer.answer("attention", {**asked, "path": look["path"]})
        assert isinstance(answer, Numbers)
        assert bool((answer.values.triu(1) == 0).all()) == causal
    for part in model["parts"]:
        for token in range(5):
            assert explorer.answer("walk", {**asked, "path": part["path"], "token": token})["steps"]
    for verb in ("read", "heads", "what-if"):
        json.dumps(explorer.answer(verb, asked), allow_nan=False)
    assert explorer.answer("what-if", {**asked, "other": {"text": "abc"}})["given"] is None
    assert explorer.answer("what-if", {**asked, "other": {"text": "edcba"}})["given"] is not None
    with pytest.raises(ValueError, match="the output has the wrong length"):
        explorer.answer("read", {**asked, "target": "ab"})
    assert explorer.answer("heads", asked)["rollouts"] == [("text", "text")]
    rolled = explorer.answer("rollout", {**asked, "asks": "text", "answers": "text"}).values
    assert_same(rolled.sum(1), torch.ones(5, dtype=torch.float64))
    assert len(explorer.answer("positions", {"length": 9}).values) == 9


def test_the_view_of_one_stream_is_the_mean_over_all_layers_and_heads() -> None:
    trace = Reader(randomise(OneStream(True))).trace({"text": "abc"})
    view = AttentionView(trace)
    assert view.rows == view.columns == ("a", "b", "c")
    with capture(trace.model) as maps:
        trace.run()
    assert_same(view.weights, torch.stack([weights[0].mean(0) for weights in maps.values()]).mean(0))
