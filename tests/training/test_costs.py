"""Auxiliary losses (costs) that a model adds to the loss of its task are trained on."""

from pathlib import Path

import pytest
import torch

from regard import library
from regard.blocks.costs import add_cost, collect
from regard.models.transformer import Transformer
from regard.training.loop import Training
from runs import start

CHANGES = ["model.dropout=0.0", "train.weight_decay=0.0", "train.clip_norm=1e9"]


def ponder(monkeypatch) -> None:
    """Makes a Transformer add a cost: the squared norm of its last hidden states."""
    original = Transformer.hidden

    def hidden(self: Transformer, *inputs: torch.Tensor) -> torch.Tensor:
        x_BTD = original(self, *inputs)
        add_cost("ponder", 0.3 * x_BTD.square().sum())
        return x_BTD

    monkeypatch.setattr(Transformer, "hidden", hidden)


def gradients(training: Training, batches: list) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """The metrics of a step, and its gradients."""
    taken: dict[str, torch.Tensor] = {}

    def keep(*_: object) -> None:
        taken.update({name: p.grad.clone() for name, p in training.parameters.items()})

    training.optimizer.register_step_pre_hook(keep)
    return training.step(batches, rate=1e-3).means(), taken


def test_a_cost_is_trained_on_and_logged(tmp_path: Path, monkeypatch) -> None:
    plain, costly = (start(tmp_path / name, *CHANGES) for name in ("plain", "costly"))
    batches = [next(plain.batches) for _ in range(2)]
    tokens = sum(plain.task.units(batch)["tokens"] for batch in batches)
    without, old = gradients(plain, batches)
    ponder(monkeypatch)
    with collect() as costs:
        losses = [costly.task.loss(costly.model, batch)["tokens"].loss for batch in batches]
    total = (sum(losses) + costs.sums()["ponder"]) / tokens
    expected = torch.autograd.grad(total, costly.parameters.values())
    found, new = gradients(costly, batches)
    for (name, got), wanted in zip(new.items(), expected, strict=True):
        assert torch.allclose(got, wanted, atol=1e-6), name
    assert any(not torch.allclose(new[name], old[name], atol=1e-3) for name in old)
    assert found["loss"] == pytest.approx(without["loss"], rel=1e-6)
    assert found["ponder"] == pytest.approx(costs.sums()["ponder"].item() / tokens, rel=1e-5)
    assert "ponder" not in without


def test_a_placeholder_example_has_no_cost(tmp_path: Path, monkeypatch) -> None:
    ponder(monkeypatch)
    training = start(tmp_path / "run", *CHANGES)
    for name, value in (("rank", 3), ("world", 4), ("sum_", lambda _tensors: None)):
        monkeypatch.setattr(training.group, name, value)
    batch = next(training.batches).share(0, 10**6)
    before = {name: tensor.clone() for name, tensor in library.tensors(training.model).items()}
    assert training.step([batch], rate=1e-3).means()["ponder"] == 0
    assert all(torch.equal(before[name], tensor) for name, tensor in library.tensors(training.model).items())
    monkeypatch.setattr(training.group, "rank", 0)
    assert training.step([batch], rate=1e-3).means()["ponder"] > 0
