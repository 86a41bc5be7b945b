"""Images as pixels: formats, orientation, transparency, depth, and files that are no images."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard.codecs.interface import CodecExamples
from regard.codecs.pixels import Pixels, PixelsConfig
from regard.errors import RegardError

NEUTRAL: dict[str, Any] = {"height": 6, "width": 4, "channels": 3, "mean": (0.0,) * 3, "spread": (1.0,) * 3}
RNG = np.random.default_rng(1)


def photo(height: int = 6, width: int = 4) -> np.ndarray:
    return RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)


def saved(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.tiff", "a.gif", "a.webp"])
def test_formats_are_decoded_with_colours_in_the_first_dimension(tmp_path: Path, name: str) -> None:
    pixels = np.zeros((6, 4, 3), np.uint8)
    pixels[:3, :, 0] = 255  # red above
    pixels[3:, :, 2] = 255  # blue below
    path = saved(tmp_path / name, Image.fromarray(pixels), **({"lossless": True} if name.endswith("webp") else {}))
    found = Pixels(**NEUTRAL).pixels(path)
    assert found.shape == (3, 6, 4)
    assert np.array_equal(found, pixels.transpose(2, 0, 1))
    assert np.array_equal(found, Pixels(**NEUTRAL).pixels(path.read_bytes()))


def test_a_jpeg_is_decoded_up_to_its_compression(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.jpg", Image.new("RGB", (4, 6), (10, 120, 250)), quality=95)
    assert np.abs(Pixels(**NEUTRAL).pixels(path)[:, 0, 0] - np.array([10, 120, 250])).max() <= 3


def test_an_image_is_turned_upright_by_its_orientation(tmp_path: Path) -> None:
    pixels = photo(4, 6)
    exif = Image.Exif()
    exif[274] = 6  # the camera was turned by 90°
    path = saved(tmp_path / "a.png", Image.fromarray(pixels), exif=exif)
    expected = np.rot90(pixels, -1).transpose(2, 0, 1)
    assert np.array_equal(Pixels(**NEUTRAL).pixels(path), expected)


def test_transparency_becomes_white_and_grey_becomes_colour(tmp_path: Path) -> None:
    clear = Image.new("RGBA", (4, 6), (255, 0, 0, 0))
    assert (Pixels(**NEUTRAL).pixels(saved(tmp_path / "a.png", clear)) == 255).all()
    palette = Image.fromarray(photo()).quantize(8)
    assert np.array_equal(
        Pixels(**NEUTRAL).pixels(saved(tmp_path / "b.png", palette)),
        np.asarray(palette.convert("RGB")).transpose(2, 0, 1),
    )
    grey = Image.new("L", (4, 6), 77)
    assert (Pixels(**NEUTRAL).pixels(saved(tmp_path / "c.png", grey)) == 77).all()
    cmyk = Image.new("CMYK", (4, 6), (0, 0, 0, 255))
    assert (Pixels(**NEUTRAL).pixels(saved(tmp_path / "d.tiff", cmyk)) == 0).all()


def test_sixteen_bits_are_scaled_not_clipped(tmp_path: Path) -> None:
    deep = np.linspace(0, 65535, 24).reshape(6, 4).astype(np.uint16)
    path = saved(tmp_path / "a.png", Image.fromarray(deep))
    codec = Pixels(**{**NEUTRAL, "channels": 1, "mean": (0.0,), "spread": (1.0,)})
    assert np.array_equal(codec.pixels(path)[0], np.round(deep / 65535 * 255))


def test_the_first_frame_of_an_animation_is_used(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (4, 6), colour) for colour in ("black", "white")]
    path = saved(tmp_path / "a.gif", frames[0], save_all=True, append_images=frames[1:])
    assert (Pixels(**NEUTRAL).pixels(path) == 0).all()


@pytest.mark.parametrize(("fit", "black"), [("crop", 0), ("pad", 2 * 4), ("squash", 0)])
def test_another_shape_is_cropped_padded_or_squashed(tmp_path: Path, fit: Any, black: int) -> None:
    path = saved(tmp_path / "a.png", Image.new("RGB", (40, 40), "white"))
    found = Pixels(**{**NEUTRAL, "fit": fit}).pixels(path)
    assert int((found[0] == 0).sum()) == black


def test_mean_and_spread_are_measured_on_the_training_images(tmp_path: Path) -> None:
    arrays = [photo() for _ in range(5)]
    paths = [saved(tmp_path / f"{i}.png", Image.fromarray(x)) for i, x in enumerate(arrays)]
    codec = PixelsConfig(size=(6, 4)).learn(CodecExamples(lambda: paths), lambda _: None)
    values = np.stack(arrays) / 255
    assert codec.mean == pytest.approx(values.mean((0, 1, 2)), abs=1e-6)
    assert codec.spread == pytest.approx(values.std((0, 1, 2)), abs=1e-6)
    normalized = torch.stack([codec.normalized(torch.from_numpy(codec.pixels(path))) for path in paths])
    assert normalized.mean((0, 2, 3)).abs().max() < 1e-4
    assert torch.equal(
        codec.restored(normalized), torch.stack([torch.from_numpy(codec.pixels(path)) for path in paths])
    )
    codec.save(tmp_path / "image.json")
    assert Pixels.load(tmp_path / "image.json") == codec


def png(width: int, height: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("1", (width, height)).save(buffer, "PNG")
    return buffer.getvalue()


def random_png() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(photo(60, 60)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"this is text", "not an image that can be read"),
        (b"", "not an image that can be read"),
        (random_png()[:-2000], "damaged or truncated"),
        (png(20_000, 20_000), "has more than 89,478,485 pixels, the limit"),
        (png(10_000, 10_000), "has more than 89,478,485 pixels, the limit"),
    ],
    ids=["text", "empty", "truncated", "bomb", "too large"],
)
def test_a_file_that_is_no_image_is_reported_with_its_path(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "photo.png"
    path.write_bytes(content)
    with pytest.raises(RegardError, match=rf"photo\.png: {message}"):
        Pixels(**NEUTRAL).pixels(path)


def test_missing_files_and_folders_are_reported(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.png", tmp_path):
        with pytest.raises(RegardError, match=str(path)):
            Pixels(**NEUTRAL).pixels(path)


def test_numbers_must_fit_the_channels() -> None:
    with pytest.raises(RegardError, match="mean: has 3 numbers for 1 channels"):
        Pixels(**{**NEUTRAL, "channels": 1, "spread": (1.0,)})
    with pytest.raises(RegardError, match="spread.*must be above 0"):
        Pixels(**{**NEUTRAL, "spread": (1.0, 0.0, 1.0)})
