"""ViT and DeiT compared with Hugging Face's models, on random configs and at other image sizes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard import library
from regard.codecs.pixels import Pixels
from regard.models.vit import ImageClassificationHead, VitConfig

transformers = pytest.importorskip("transformers")
SIZES = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "patch_size": 4,
    "image_size": [12, 20], "num_labels": 3,
}  # fmt: skip
ARCHITECTURES = ("ViTForImageClassification", "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher")


def theirs(name: str, **changes: Any) -> Any:
    torch.manual_seed(1)
    config = getattr(transformers, "ViTConfig" if name.startswith("ViT") else "DeiTConfig")(**{**SIZES, **changes})
    model = getattr(transformers, name)(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def images(*size: int) -> torch.Tensor:
    return torch.randn(2, 3, *size, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_logits_equal_hugging_face_in_both_directions(tmp_path: Path, architecture: str, activation: str) -> None:
    one = theirs(architecture, hidden_act=activation)
    one.save_pretrained(tmp_path / "theirs")
    library.convert(f"hf:{tmp_path / 'theirs'}", str(tmp_path / "ours"))
    ours: Any = library.load(str(tmp_path / "ours"))
    x = images(12, 20)
    with torch.no_grad():
        expected = one.double()(x).logits
        # float64 rounding in two layers
        assert torch.allclose(ours.model.double()(x)[:, 0], expected, rtol=0, atol=1e-12)
        single = ours.model.float()(x.float())[:, 0]
        assert torch.allclose(single, one.float()(x.float()).logits, rtol=0, atol=2e-5)
    library.convert(str(tmp_path / "ours"), f"hf:{tmp_path / 'back'}")
    back = getattr(transformers, architecture).from_pretrained(tmp_path / "back").eval().double()
    with torch.no_grad():
        assert torch.equal(back(x).logits, expected)


@pytest.mark.parametrize("size", [(20, 12), (8, 32), (24, 40)])
def test_other_image_sizes_interpolate_positions_as_hugging_face_does(tmp_path: Path, size: tuple[int, int]) -> None:
    one = theirs("ViTForImageClassification", image_size=16)  # Hugging Face interpolates from square grids only
    one.save_pretrained(tmp_path / "theirs")
    ours: Any = library.load(f"hf:{tmp_path / 'theirs'}")
    x = images(*size)
    with torch.no_grad():
        expected = one.double()(x, interpolate_pos_encoding=True).logits
        assert torch.allclose(ours.model.double()(x)[:, 0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("resample", ["bilinear", "bicubic"])
def test_pixels_equal_those_of_the_exported_image_processor(tmp_path: Path, resample: Any) -> None:
    codec = Pixels(
        height=12, width=20, channels=3, mean=(0.4, 0.5, 0.6), spread=(0.2, 0.3, 0.25), fit="squash", resample=resample
    )
    config = VitConfig(
        image_size=(12, 20), patch=4, width=8, heads=2, ff_width=8, layers=1,
        head=ImageClassificationHead(labels=("a", "b")),
    )  # fmt: skip
    library.save(tmp_path / "ours", config, library.tensors(config.build()), {"image": codec}, "")
    library.convert(str(tmp_path / "ours"), f"hf:{tmp_path / 'hf'}")
    pixels = np.random.default_rng(1).integers(0, 256, (31, 17, 3), dtype=np.uint8)
    path = tmp_path / "photo.png"
    Image.fromarray(pixels).save(path)
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "hf", use_fast=False)
    expected = processor(Image.open(path), return_tensors="pt")["pixel_values"][0]
    ours = codec.normalized(torch.from_numpy(codec.pixels(path)))
    assert torch.allclose(ours, expected, rtol=0, atol=1e-6)
    assert library.read(f"hf:{tmp_path / 'hf'}").codecs["image"] == codec


@pytest.mark.parametrize(
    ("preset", "parameters"), [("base", 86_567_656), ("large", 304_326_632), ("huge", 632_045_800)]
)
def test_presets_have_the_parameters_of_the_paper(preset: str, parameters: int) -> None:
    labels = tuple(map(str, range(1000)))
    config = VitConfig.preset(preset, image_size=(224, 224), head={"kind": "classification", "labels": labels})
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in config.build().parameters()) == parameters
