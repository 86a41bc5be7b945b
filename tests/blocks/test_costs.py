import threading

import pytest
import torch
from torch import Tensor, nn

from helpers import assert_same
from regard.blocks.costs import add_cost, collect
from regard.training.recompute import recompute


class Layer(nn.Module):
    """Changes x and adds the squared change as a cost."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3, dtype=torch.float64))

    def forward(self, x_BD: Tensor) -> Tensor:
        change_BD = (x_BD @ self.weight).tanh()
        add_cost("change", change_BD.square().sum())
        return x_BD + change_BD


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.ModuleList([Layer(), Layer()])

    def forward(self, x_BD: Tensor) -> Tensor:
        for layer in self.layers:
            x_BD = layer(x_BD)
        return x_BD


def test_costs_of_the_same_name_are_summed_and_have_gradients() -> None:
    model, x = Model(), torch.randn(2, 3, dtype=torch.float64)
    with collect() as costs:
        loss = model(x).sum()
    first = (x @ model.layers[0].weight).tanh()
    second = ((x + first) @ model.layers[1].weight).tanh()
    assert_same(costs.sums()["change"], first.square().sum() + second.square().sum())
    (plain,) = torch.autograd.grad(loss, [model.layers[0].weight], retain_graph=True)
    (changed,) = torch.autograd.grad(loss + costs.sums()["change"], [model.layers[0].weight])
    assert not torch.allclose(plain, changed)


def test_costs_outside_collect_are_discarded() -> None:
    model, x = Model(), torch.randn(2, 3, dtype=torch.float64)
    with collect() as costs:
        pass
    model(x)
    assert costs.sums() == {}
    with collect() as outer:
        model(x)
        with collect() as inner:
            model(x)
    assert_same(outer.sums()["change"], inner.sums()["change"])


def test_an_error_ends_the_collection() -> None:
    with pytest.raises(KeyError), collect() as costs:
        raise KeyError
    add_cost("change", torch.ones(()))
    assert costs.sums() == {}


def test_costs_of_another_thread_are_not_collected() -> None:
    with collect() as costs:
        thread = threading.Thread(target=add_cost, args=("change", torch.ones(())))
        thread.start()
        thread.join()
    assert costs.sums() == {}


def test_recomputed_layers_add_their_costs_once() -> None:
    gradients, found = [], []
    for again in (False, True):
        model = Model()
        if again:
            recompute(model)
        x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
        with collect() as costs:
            loss = model(x).sum()
        (loss + costs.sums()["change"]).backward()
        gradients.append([layer.weight.grad for layer in model.layers])
        found.append(costs.sums()["change"])
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)
    assert torch.equal(found[0], found[1])
