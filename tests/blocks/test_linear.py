import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from helpers import assert_same
from regard.blocks import linear as module
from regard.blocks.linear import Linear, laid_out, linear

pytestmark = pytest.mark.usefixtures("restore_threads")


@given(st.integers(1, 9), st.integers(1, 5), st.integers(2, 9), st.booleans(), st.booleans(), st.integers(2, 3))
def test_every_code_path_equals_torch_linear(vectors, width, out, by_columns, has_bias, count) -> None:
    torch.set_num_threads(count)
    x, weight = torch.randn(1, vectors, width, dtype=torch.float64), torch.randn(out, width, dtype=torch.float64)
    bias = torch.randn(out, dtype=torch.float64) if has_bias else None
    laid = weight.t().contiguous().t() if by_columns else weight
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        for large in (1, 1000):
            patch.setattr(module, "LARGE", large)
            assert_same(linear(x, laid, bias), F.linear(x, weight, bias))
            assert_same(linear(x[0, 0], laid, bias), F.linear(x[0, 0], weight, bias))


def test_only_large_matrices_are_split_between_threads(monkeypatch) -> None:
    torch.set_num_threads(2)
    layer, shared = Linear(1024, 1024), []
    bmm = torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda *args: shared.append(1) or bmm(*args))
    with torch.no_grad():
        layer(torch.randn(module.FEW, 1024))
        assert len(shared) == 1
        layer(torch.randn(module.FEW + 1, 1024))
        layer(torch.randn(0, 1024))
        Linear(512, 512)(torch.randn(2, 512))
        torch.set_num_threads(1)
        layer(torch.randn(2, 1024))
    torch.set_num_threads(2)
    x = torch.randn(2, 1024, requires_grad=True)
    layer(x).sum().backward()  # in training, torch computes the gradient
    assert x.grad is not None
    assert len(shared) == 1


@given(st.integers(1, 5), st.integers(1, 5), st.booleans(), st.booleans())
def test_a_matrix_in_another_memory_layout_has_the_same_values(rows, columns, by_columns, is_large) -> None:
    weight = torch.randn(rows, columns).t().contiguous().t() if by_columns else torch.randn(rows, columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LARGE", 1 if is_large else 1000)
        laid = laid_out(weight)
    assert torch.equal(laid, weight)
    assert laid.data_ptr() != weight.data_ptr()
    assert laid.t().is_contiguous() if is_large and rows > columns else laid.is_contiguous()
