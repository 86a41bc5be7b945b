"""Gradient checkpointing: layers that run again in the backward pass give bit-identical gradients."""

from pathlib import Path

import pytest
import torch
from torch import nn

from regard.config import Config
from regard.models.bert import BertConfig
from regard.models.conv_seq2seq import ConvSeq2SeqConfig
from regard.models.gpt2 import Gpt2Config
from regard.models.transformer import TransformerConfig
from regard.training.recompute import recompute
from repeating import LoopedConfig
from runs import finish, weights

SHAPE = {"vocab_size": 11, "width": 8, "dropout": 0.3}
STACK = {**SHAPE, "heads": 2, "ff_width": 12, "layers": 2}
CONFIGS = {
    "transformer": TransformerConfig(**SHAPE, heads=2, ff_width=12),
    "rotary": TransformerConfig(**SHAPE, heads=2, ff_width=12, positions="rotary"),
    "batch norm": TransformerConfig(**SHAPE, heads=2, ff_width=12, norm="batch"),
    "convolutions": ConvSeq2SeqConfig(**SHAPE),
    "gpt2": Gpt2Config(**STACK),
    "bert": BertConfig(**STACK),
    "one layer three times": LoopedConfig(**SHAPE),
}


def trained(config: Config, again: bool) -> dict[str, torch.Tensor]:
    """The gradients and buffers of a model after two batches, and the next random numbers."""
    torch.manual_seed(1)
    model = config.build()
    if again:
        recompute(model)
    inputs = 1 if isinstance(config, Gpt2Config | LoopedConfig) else 2
    for _ in range(2):
        model(*(torch.randint(1, 2, (3, 5)) for _ in range(inputs))).sum().backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {**gradients, **dict(model.named_buffers()), "next": torch.rand(3)}


@pytest.mark.parametrize("name", CONFIGS)
def test_recomputation_gives_the_same_gradients_buffers_and_random_numbers(name) -> None:
    expected, got = (trained(CONFIGS[name], again) for again in (False, True))
    assert expected.keys() == got.keys()
    assert all(torch.equal(got[key], tensor) for key, tensor in expected.items())


def test_recomputed_layers_run_twice_and_store_fewer_activations() -> None:
    kept = {}
    for again in (False, True):
        layer, sizes, runs = nn.Sequential(nn.Linear(8, 800), nn.ReLU(), nn.Linear(800, 8)), [], []
        layer[1].register_forward_hook(lambda *_, runs=runs: runs.append(1))
        if again:
            recompute(nn.ModuleList([layer]))

        def keep(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            y = layer(torch.randn(50, 8, requires_grad=True))
        kept[again] = sum(sizes)
        y.sum().backward()
        assert len(runs) == 1 + again
    assert kept[True] < kept[False] / 10


class Listed(nn.Module):
    """One layer in three places of a list."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3))] * 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("kind", ["repeated", "listed three times"])
def test_a_layer_that_runs_three_times_is_recomputed_three_times(kind) -> None:
    gradients = []
    for again in (False, True):
        torch.manual_seed(1)
        if kind == "repeated":
            model, x, runs = LoopedConfig(**SHAPE).build(), torch.tensor([[1, 2, 3]]), []
            model.layer.feedforward.register_forward_hook(lambda *_, runs=runs: runs.append(1))
        else:
            model, x, runs = Listed(), torch.randn(2, 8), []
            model.layers[0][0].register_forward_hook(lambda *_, runs=runs: runs.append(1))
        if again:
            recompute(model)
        model(x).sum().backward()
        assert len(runs) == 3 + 3 * again
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_gradient_checkpointing_can_be_switched_on_resume_with_bit_identical_weights(
    uninterrupted: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    finish(run, "train.recompute=true")
    assert weights(run) == weights(uninterrupted)
    finish(run)
