"""The whole Transformer, compared with Hugging Face's Marian with copied weights."""

import pytest
import torch
from torch import Tensor

from helpers import assert_same, padded, randomise
from regard.blocks.positions import Sinusoidal
from regard.interop.marian import LAYER, write_config
from regard.models.transformer import Transformer, TransformerConfig

transformers = pytest.importorskip("transformers")


def ours_and_marian(config: TransformerConfig, pad: int) -> tuple[Transformer, torch.nn.Module]:
    changes = {"max_position_embeddings": 32, "dropout": 0.0, "pad_token_id": pad, "eos_token_id": 1}
    marian_config = transformers.MarianConfig.from_dict(
        {**write_config(config), **changes, "decoder_start_token_id": pad}
    )
    marian = randomise(transformers.MarianMTModel(marian_config)).eval()
    positions = Sinusoidal(config.width, split=True)(torch.zeros(1, 32, config.width, dtype=torch.float64))
    for half in (marian.model.encoder, marian.model.decoder):
        # Marian's table has these numbers rounded to float32
        assert_same(half.embed_positions.weight, positions, tolerance=1e-6)
        half.embed_positions.weight.data = positions
    ours = config.build().double().eval()
    state: dict[str, Tensor] = {}
    for half_name in ("encoder", "decoder"):
        half = getattr(marian.model, half_name)
        state[{"encoder": "source", "decoder": "target"}[half_name] + "_embedding.weight"] = half.embed_tokens.weight
        for i, layer in enumerate(half.layers):
            for theirs, mine in LAYER.items():
                if half_name == "encoder" and theirs.startswith("encoder_attn"):
                    continue
                for kind, tensor in layer.get_submodule(theirs).named_parameters():
                    state[f"{half_name}.layers.{i}.{mine}.{kind}"] = tensor
    if not config.tied:
        state["output.weight"] = marian.lm_head.weight
    ours.load_state_dict(state)
    return ours, marian


@pytest.mark.parametrize(
    ("changes", "pad"),
    [
        ({}, 0),
        ({"encoder_layers": 3, "decoder_layers": 1, "heads": 4}, 0),
        ({"source_vocab_size": 17}, 10),
        ({"activation": "gelu", "width": 12, "heads": 3, "ff_width": 8}, 0),
    ],
    ids=["shared", "deep encoder", "two vocabularies", "gelu"],
)
def test_logits_equal_those_of_marian(changes, pad) -> None:
    shape = {"vocab_size": 13, "width": 8, "heads": 2, "ff_width": 16, "encoder_layers": 2, "decoder_layers": 2}
    config = TransformerConfig(**{**shape, **changes}, positions="sinusoidal_split", norm_placement="post", dropout=0.0)
    ours, marian = ours_and_marian(config, pad)
    source, is_padding = padded([6, 3, 1], vocab_size=10)
    target = torch.randint(1, 10, (3, 5))
    inputs = {"input_ids": source, "attention_mask": (~is_padding).long(), "decoder_input_ids": target}
    with torch.no_grad():
        assert_same(ours(source, target, is_padding), marian(**inputs).logits, tolerance=1e-9)
        assert_same(ours.float()(source, target, is_padding), marian.float()(**inputs).logits, tolerance=1e-4)
