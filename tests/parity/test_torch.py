"""Regard's blocks, compared with torch's with copied weights."""

import pytest
import torch
from torch import Tensor, nn

from helpers import assert_same, randomise
from regard.blocks import masks
from regard.blocks.attention import MultiHeadAttention
from regard.blocks.layers import DecoderLayer, EncoderLayer
from regard.blocks.norms import LayerNorm

WIDTH, HEADS, FF_WIDTH = 8, 2, 12
LENGTHS = torch.tensor([5, 3, 4])
IS_PADDING = torch.arange(5) >= LENGTHS[:, None]
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    if theirs.in_proj_weight is not None:
        weights = theirs.in_proj_weight.chunk(3)
    else:
        weights = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    for linear, weight, bias in zip(
        (ours.query, ours.key, ours.value), weights, theirs.in_proj_bias.chunk(3), strict=True
    ):
        linear.load_state_dict({"weight": weight, "bias": bias})
    ours.out.load_state_dict(theirs.out_proj.state_dict())


def copy_layer(ours: EncoderLayer | DecoderLayer, theirs: nn.Module) -> None:
    copy_attention(ours.attention, theirs.self_attn)
    norms = [ours.attention_residual.norm, ours.feedforward_residual.norm]
    if isinstance(ours, DecoderLayer):
        copy_attention(ours.cross, theirs.multihead_attn)
        norms.insert(1, ours.cross_residual.norm)
    ours.feedforward.inner.load_state_dict(theirs.linear1.state_dict())
    ours.feedforward.outer.load_state_dict(theirs.linear2.state_dict())
    for i, norm in enumerate(norms, start=1):
        norm.load_state_dict(getattr(theirs, f"norm{i}").state_dict())


def assert_agree(got: Tensor, expected: Tensor, inputs: tuple[Tensor, ...]) -> None:
    """Compares values and gradients."""
    assert_same(got, expected)
    direction = torch.randn_like(expected)
    for ours, theirs in zip(
        torch.autograd.grad(got, inputs, direction), torch.autograd.grad(expected, inputs, direction), strict=True
    ):
        assert_same(ours, theirs)


@DTYPES
def test_self_attention_equals_torch(dtype) -> None:
    theirs = randomise(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)).to(dtype)
    ours = MultiHeadAttention(WIDTH, HEADS).to(dtype)
    copy_attention(ours, theirs)
    x = torch.randn(3, 5, WIDTH, dtype=dtype, requires_grad=True)
    allowed = masks.padding(IS_PADDING) & masks.causal(5, 5)
    expected = theirs(x, x, x, key_padding_mask=IS_PADDING, attn_mask=~masks.causal(5, 5)[0, 0], need_weights=False)[0]
    assert_agree(ours(x, allowed=allowed), expected, (x,))


@DTYPES
def test_attention_to_a_memory_of_another_width_equals_torch(dtype) -> None:
    theirs = randomise(nn.MultiheadAttention(WIDTH, HEADS, kdim=6, vdim=6, batch_first=True)).to(dtype)
    ours = MultiHeadAttention(WIDTH, HEADS, memory_width=6).to(dtype)
    copy_attention(ours, theirs)
    x = torch.randn(3, 4, WIDTH, dtype=dtype, requires_grad=True)
    memory = torch.randn(3, 5, 6, dtype=dtype, requires_grad=True)
    expected = theirs(x, memory, memory, key_padding_mask=IS_PADDING, need_weights=False)[0]
    assert_agree(ours(x, memory, masks.padding(IS_PADDING)), expected, (x, memory))


@DTYPES
@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer_equals_torch(dtype, placement, activation) -> None:
    theirs = nn.TransformerEncoderLayer(
        WIDTH, HEADS, FF_WIDTH, dropout=0.0, activation=activation, batch_first=True, norm_first=placement == "pre"
    )
    randomise(theirs).to(dtype)
    ours = EncoderLayer(
        WIDTH, HEADS, FF_WIDTH, lambda: LayerNorm(WIDTH), placement=placement, activation=activation
    ).to(dtype)
    copy_layer(ours, theirs)
    x = torch.randn(3, 5, WIDTH, dtype=dtype, requires_grad=True)
    assert_agree(ours(x, masks.padding(IS_PADDING)), theirs(x, src_key_padding_mask=IS_PADDING), (x,))


@DTYPES
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_decoder_layer_equals_torch(dtype, placement) -> None:
    theirs = nn.TransformerDecoderLayer(
        WIDTH, HEADS, FF_WIDTH, dropout=0.0, batch_first=True, norm_first=placement == "pre"
    )
    randomise(theirs).to(dtype)
    ours = DecoderLayer(WIDTH, HEADS, FF_WIDTH, lambda: LayerNorm(WIDTH), placement=placement).to(dtype)
    copy_layer(ours, theirs)
    x = torch.randn(3, 4, WIDTH, dtype=dtype, requires_grad=True)
    memory = torch.randn(3, 5, WIDTH, dtype=dtype, requires_grad=True)
    expected = theirs(x, memory, tgt_mask=~masks.causal(4, 4)[0, 0], memory_key_padding_mask=IS_PADDING)
    assert_agree(ours(x, memory, masks.causal(4, 4), masks.padding(IS_PADDING)), expected, (x, memory))
