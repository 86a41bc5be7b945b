"""Private functions of torch, compared with public ones."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from regard.blocks import torch_private
from regard.blocks.torch_private import (
    CPU_ATTENTION,
    CPU_ATTENTION_BACKWARD,
    has_forward_hooks,
    softmax_backward,
    without_dispatch_modes,
)


def test_the_softmax_gradient_equals_autograd() -> None:
    scores = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
    weights, upstream = scores.softmax(-1), torch.randn(3, 4, 5, dtype=torch.float64)
    (expected,) = torch.autograd.grad(weights, scores, upstream)
    torch.testing.assert_close(softmax_backward(upstream, weights.detach()), expected)


def test_cpu_attention_and_its_gradients_equal_scaled_dot_product_attention() -> None:
    shapes = (2, 3, 7, 8), (2, 3, 5, 8), (2, 3, 5, 8)
    inputs = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    upstream = torch.randn(2, 3, 7, 8, dtype=torch.float64)
    expected = F.scaled_dot_product_attention(*inputs)
    gradients = torch.autograd.grad(expected, inputs, upstream)
    with torch.no_grad():
        found, log_sum = CPU_ATTENTION(*inputs)
        own_gradients = CPU_ATTENTION_BACKWARD(upstream, *inputs, found, log_sum, 0.0, False)
    torch.testing.assert_close([found, *own_gradients], [expected.detach(), *gradients])


def test_scaled_dot_product_attention_runs_the_private_cpu_operations() -> None:
    x = torch.randn(2, 3, 7, 8, requires_grad=True)
    formulas = {CPU_ATTENTION: lambda *_, **__: 1, CPU_ATTENTION_BACKWARD: lambda *_, **__: 1}
    with FlopCounterMode(display=False, custom_mapping=formulas) as counter:
        F.scaled_dot_product_attention(x, x, x).sum().backward()
    assert counter.get_flop_counts()["Global"] == {CPU_ATTENTION: 1, CPU_ATTENTION_BACKWARD: 1}


def test_operations_without_dispatch_modes_are_not_counted() -> None:
    a, b = torch.randn(2, 4, 4, dtype=torch.float64)
    with FlopCounterMode(display=False) as counter:
        first = a @ b
        with without_dispatch_modes():
            second = a @ b
        third = a @ b
    assert counter.get_total_flops() == 2 * 2 * 4**3
    assert torch.equal(first, second)
    assert torch.equal(first, third)


@pytest.mark.parametrize("register", [nn.Module.register_forward_hook, nn.Module.register_forward_pre_hook])
def test_forward_hooks_are_detected_until_removed(register) -> None:
    module = nn.Linear(2, 2)
    assert not has_forward_hooks(module)
    handle = register(module, lambda *_: None)
    assert has_forward_hooks(module)
    handle.remove()
    assert not has_forward_hooks(module)


def test_no_other_file_uses_private_names_of_torch() -> None:
    file = Path(torch_private.__file__)
    private = re.compile(
        r"\b(torch|aten|F|nn|dist)(\.\w+)*\._[a-zA-Z]|\._(forward|backward)_(pre_)?hooks|torch\S* import _"
    )
    users = [path.name for path in file.parents[1].rglob("*.py") if private.search(path.read_text("utf-8"))]
    assert users == [file.name]
