import pytest
import torch
from torch import nn

from helpers import assert_same, randomise
from regard.blocks import masks
from regard.blocks.attention import Cache
from regard.blocks.dropout import Dropout
from regard.blocks.layers import DecoderLayer, EncoderLayer
from regard.blocks.norms import BatchNorm, LayerNorm


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("norm", [lambda: LayerNorm(8), lambda: BatchNorm(8, 16)], ids=["layer", "batch"])
def test_incremental_decoding_with_a_cache_equals_the_whole_sequence(placement, rotary, norm) -> None:
    encoder = randomise(EncoderLayer(8, 2, 12, norm, placement=placement, rotary=rotary)).eval()
    decoder = randomise(DecoderLayer(8, 2, 12, norm, placement=placement, rotary=rotary, memory_width=6)).eval()
    x, memory = torch.randn(2, 5, 8, dtype=torch.float64), torch.randn(2, 4, 6, dtype=torch.float64)
    causal = masks.causal(5, 5)
    with torch.no_grad():
        caches, remembered = (Cache(), Cache()), decoder.cross.remember(memory)
        encoded = torch.cat([encoder(token, cache=caches[0]) for token in x.split(1, dim=1)], dim=1)
        decoded = torch.cat([decoder(token, remembered, cache=caches[1]) for token in x.split(1, dim=1)], dim=1)
        assert_same(encoded, encoder(x, causal))
        assert_same(decoded, decoder(x, memory, causal))


def test_rotary_positions_apply_to_self_attention() -> None:
    for kind in (EncoderLayer, DecoderLayer):
        turned, plain = (kind(8, 2, 12, lambda: LayerNorm(8), rotary=rotary) for rotary in (True, False))
        plain.load_state_dict(turned.state_dict())
        inputs = [torch.randn(2, 5, 8)] * (2 if kind is DecoderLayer else 1)
        assert not torch.allclose(turned(*inputs), plain(*inputs))


def test_every_sublayer_has_dropout() -> None:
    for kind, count in ((EncoderLayer, 2), (DecoderLayer, 3)):
        layer = kind(8, 2, 12, lambda: LayerNorm(8), dropout=0.25)
        assert [m.rate for m in layer.modules() if isinstance(m, Dropout)] == [0.25] * count


def test_the_defaults_of_a_layer_are_post_norm_and_relu_as_in_the_paper() -> None:
    layers = (EncoderLayer(8, 2, 12, lambda: LayerNorm(8)), DecoderLayer(8, 2, 12, lambda: LayerNorm(8)))
    for layer in layers:
        assert layer.feedforward_residual.placement == "post"
        assert layer.feedforward.activation is nn.functional.relu


def test_layers_may_have_different_norms() -> None:
    layers = [
        EncoderLayer(8, 2, 12, lambda: LayerNorm(8), placement="pre"),
        EncoderLayer(8, 2, 12, lambda: BatchNorm(8, 16), placement="post"),
    ]
    x = torch.randn(3, 5, 8)
    for layer in layers:
        x = layer(x)
    assert x.shape == (3, 5, 8)
    assert layers[0].attention_residual.norm is not layers[0].feedforward_residual.norm
