"""ONNX: a BERT as a graph that ONNX Runtime, and much else, runs, with whatever head it has.

Two inputs, `tokens` and `segments` (int64, of any batch and length), give one output: `vectors` of all tokens without a
head, else `answers`. Padding is known by its token, which the graph compares tokens with.
"""

import warnings
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch
from torch import Tensor, nn

from regard.blocks.positions import Rotary
from regard.errors import RegardError

NEAR = 1e-4  # what rounding in float32 may change in an answer, relative to answers of size 1
SHAPES = (1, 1), (3, 5), (2, 24)  # batch and length of the texts that an export is checked with


def write(folder: Path, ours: Any) -> str:
    """Writes `model.onnx` and gives what was found in checking it, or raises `RegardError`."""
    model, config = ours.model, ours.model.config
    head = getattr(config, "head", None)
    if head is None:
        raise RegardError(f"models of kind '{config.kind}' are not exported to ONNX; encoders such as BERT are")
    if any(isinstance(module, Rotary) for module in model.modules()):
        raise RegardError(
            f"models of kind '{config.kind}' are not exported to ONNX: their rotary positions are complex numbers, "
            f"which its graphs do not have"
        )
    path, output = folder / "model.onnx", "vectors" if head.kind == "none" else "answers"
    answering, axes = _Answering(model, ours.tokenizer.pad).eval(), {0: "batch", 1: "length"}
    with warnings.catch_warnings():
        # of tracing, which takes conditions as they are for the example; what comes of it is checked below
        warnings.simplefilter("ignore")
        torch.onnx.export(
            answering,
            _sample(config, answering.pad, 2, 3),
            str(path),
            input_names=["tokens", "segments"],
            output_names=[output],
            dynamic_axes={"tokens": axes, "segments": axes, output: {0: "batch"} if answering.is_of_texts else axes},
            dynamo=False,  # the newer way needs one more package
        )
    onnx.checker.check_model(str(path))
    return _check(path, answering, config)


class _Answering(nn.Module):
    """What a model says; of a text as a whole, without a dimension for its one place.

    Args:
        pad: the token that fills up short texts.
    """

    def __init__(self, model: Any, pad: int) -> None:
        super().__init__()
        self.model, self.pad = model, pad
        self.is_of_texts = model.config.head.kind in ("classification", "regression")

    def forward(self, tokens_BT: Tensor, segments_BT: Tensor) -> Tensor:
        answers: Tensor = self.model(tokens_BT, segments_BT, tokens_BT == self.pad)
        return answers[:, 0] if self.is_of_texts else answers


@torch.no_grad()
def _check(path: Path, answering: _Answering, config: Any) -> str:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    worst = torch.zeros(())
    for batch, length in SHAPES:
        tokens_BT, segments_BT = _sample(config, answering.pad, batch, min(length, answering.model.limit or length))
        (found,) = session.run(None, {"tokens": tokens_BT.numpy(), "segments": segments_BT.numpy()})
        ours = answering(tokens_BT, segments_BT)
        worst = worst.maximum(((torch.from_numpy(found) - ours) / (1 + ours.abs())).abs().max())
    if not worst <= NEAR:
        raise RegardError(f"ONNX Runtime's answers are off by {worst:.2g}, more than {NEAR}; the export is refused")
    return f"answers within {worst:.2g}"


def _sample(config: Any, pad: int, batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Random texts, the last of which is half padding."""
    generator = torch.Generator().manual_seed(1)
    tokens_BT = torch.randint(config.vocab_size, (batch, length), generator=generator)
    segments_BT = torch.randint(config.segments, (batch, length), generator=generator)
    tokens_BT[-1, (length + 1) // 2 :] = pad
    return tokens_BT, segments_BT
