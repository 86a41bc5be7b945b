"""Export of a BERT with any head to ONNX, a graph that ONNX Runtime and other engines run.

The inputs are `tokens` and `segments` (int64, of any batch size and length). The output is `answers` or, without a
head, `vectors`: the hidden states of all tokens. The graph finds padding by comparing tokens with the padding token.
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

TOLERANCE = 1e-4  # maximum difference due to rounding in float32, relative to 1 + |output|
SHAPES = (1, 1), (3, 5), (2, 24)  # batch size and length of the inputs that an export is checked with


def write(folder: Path, ours: Any) -> str:
    """Writes and checks `model.onnx`; returns a summary of the check, or raises `RegardError`."""
    model, config = ours.model, ours.model.config
    head = getattr(config, "head", None)
    if head is None:
        raise RegardError(f"models of kind '{config.kind}' cannot be exported to ONNX; export an encoder such as BERT")
    if any(isinstance(module, Rotary) for module in model.modules()):
        raise RegardError(
            f"models of kind '{config.kind}' cannot be exported to ONNX: their rotary positions use complex numbers, "
            f"which ONNX does not support"
        )
    path, output = folder / "model.onnx", "vectors" if head.kind == "none" else "answers"
    wrapped, axes = _Outputs(model, ours.tokenizer.pad).eval(), {0: "batch", 1: "length"}
    with warnings.catch_warnings():
        # tracing warns that conditions are fixed to those of the example; the graph is checked below
        warnings.simplefilter("ignore")
        torch.onnx.export(
            wrapped,
            _sample(config, wrapped.pad, 2, 3),
            str(path),
            input_names=["tokens", "segments"],
            output_names=[output],
            dynamic_axes={"tokens": axes, "segments": axes, output: {0: "batch"} if wrapped.is_per_text else axes},
            dynamo=False,  # the newer exporter needs another package
        )
    onnx.checker.check_model(str(path))
    return _check(path, wrapped, config)


class _Outputs(nn.Module):
    """A model that masks padding itself; the output for a whole text has no length dimension.

    Args:
        pad: the padding token.
    """

    def __init__(self, model: Any, pad: int) -> None:
        super().__init__()
        self.model, self.pad = model, pad
        self.is_per_text = model.config.head.kind in ("classification", "regression")

    def forward(self, tokens_BT: Tensor, segments_BT: Tensor) -> Tensor:
        outputs: Tensor = self.model(tokens_BT, segments_BT, tokens_BT == self.pad)
        return outputs[:, 0] if self.is_per_text else outputs


@torch.no_grad()
def _check(path: Path, wrapped: _Outputs, config: Any) -> str:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    worst = torch.zeros(())
    for batch, length in SHAPES:
        tokens_BT, segments_BT = _sample(config, wrapped.pad, batch, min(length, wrapped.model.limit or length))
        (output,) = session.run(None, {"tokens": tokens_BT.numpy(), "segments": segments_BT.numpy()})
        expected = wrapped(tokens_BT, segments_BT)
        worst = worst.maximum(((torch.from_numpy(output) - expected) / (1 + expected.abs())).abs().max())
    if not worst <= TOLERANCE:
        raise RegardError(
            f"ONNX Runtime's outputs differ from torch's by {worst:.2g}, more than {TOLERANCE}; the export is refused"
        )
    return f"outputs differ by up to {worst:.2g}"


def _sample(config: Any, pad: int, batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Random texts; half of the last one is padding."""
    generator = torch.Generator().manual_seed(1)
    tokens_BT = torch.randint(config.vocab_size, (batch, length), generator=generator)
    segments_BT = torch.randint(config.segments, (batch, length), generator=generator)
    tokens_BT[-1, (length + 1) // 2 :] = pad
    return tokens_BT, segments_BT
