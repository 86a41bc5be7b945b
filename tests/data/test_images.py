"""Folders and tables of images: what is read, held out, cached, skipped and reported."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard.codecs.pixels import Pixels
from regard.data import images as module
from regard.data.augment import AugmentConfig
from regard.data.images import ImageExample, ImagesConfig, LabelledImages, decode, hashes, split
from regard.errors import RegardError

CODEC = Pixels(height=4, width=6, channels=1, mean=(0.0,), spread=(1.0,))


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))


def picture(path: Path, value: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (6, 4), value).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(12):
        picture(tmp_path / "photos" / ("cat" if i % 3 else "dog") / f"{i}.png", i)
    picture(tmp_path / "photos" / "cat" / "more" / "deep.PNG", 200)
    (tmp_path / "photos" / "cat" / "notes.txt").write_text("no image")
    picture(tmp_path / "photos" / ".thumbnails" / "x.png")
    return tmp_path / "photos"


def config(path: Path, **changes: Any) -> ImagesConfig:
    return ImagesConfig(train=str(path), **changes)


def test_a_folder_per_class_names_the_labels(folder: Path) -> None:
    found = config(folder).read(str(folder), "data.train")
    assert len(found) == 13
    assert {example.label for example in found} == {"cat", "dog"}
    assert found[-1].path.name != "x.png"
    assert {each.label for each in found if each.path.name == "deep.PNG"} == {"cat"}


@pytest.mark.parametrize("name", ["table.tsv", "table.csv", "table.jsonl"])
def test_a_table_names_paths_relative_to_itself(folder: Path, name: str) -> None:
    rows = [("cat/1.png", "mammal"), ("dog/3.png", "other")]
    lines = {
        "table.tsv": ["path\tlabel", *("\t".join(row) for row in rows)],
        "table.csv": ["path,label", *(",".join(row) for row in rows)],
        "table.jsonl": [f'{{"path": "{path}", "label": "{label}"}}' for path, label in rows],
    }[name]
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    found = config(folder / name).read(str(folder / name), "data.train")
    assert found == [ImageExample(folder / path, label) for path, label in rows]


def test_wrong_places_are_reported(folder: Path, tmp_path: Path) -> None:
    picture(folder / "outside.png")
    with pytest.raises(RegardError, match=r"outside\.png: an image outside of the folders of the classes"):
        config(folder).read(str(folder), "data.train")
    (folder / "outside.png").unlink()
    (folder / "bird").mkdir()
    with pytest.raises(RegardError, match="bird: a class without images"):
        config(folder).read(str(folder), "data.train")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(RegardError, match="data.train = .*: contains no images"):
        config(empty).read(str(empty), "data.train")
    with pytest.raises(RegardError, match="data.train = 'nowhere': no such folder or file"):
        config(Path("nowhere")).read("nowhere", "data.train")
    (tmp_path / "a.tsv").write_text("path\tlabel\nmissing.png\tcat\n")
    with pytest.raises(RegardError, match=r"missing\.png does not exist; paths are relative"):
        config(tmp_path / "a.tsv").read(str(tmp_path / "a.tsv"), "data.train")


def test_a_tenth_is_held_out_and_every_class_keeps_an_image() -> None:
    examples = [ImageExample(Path(f"photos/{i}.png"), "many") for i in range(99)] + [ImageExample(Path("x.png"), "one")]
    train, valid = split(examples, 1000)
    assert len(valid) == 10
    assert not set(train) & set(valid)
    assert "one" in {example.label for example in train}
    assert split(list(reversed(examples)), 1000)[1] == list(reversed(valid))
    assert len(split(examples, 4)[1]) == 4
    with pytest.raises(RegardError, match="no image can be held out"):
        split([ImageExample(Path("a.png"), "a"), ImageExample(Path("b.png"), "b")], 10)


def test_images_are_decoded_once(folder: Path, monkeypatch) -> None:
    examples = config(folder).read(str(folder), "data.train")
    first, kept, skipped = decode(CODEC, examples, hashes(examples), config(folder))
    assert kept == list(range(13))
    assert not skipped
    monkeypatch.setattr(module, "_decoded", lambda *_: pytest.fail("decoded again"))
    again, _, _ = decode(CODEC, examples, hashes(examples), config(folder))
    assert torch.equal(first.fetch(range(13)), again.fetch(range(13)))
    # without the cache, images are decoded whenever they are needed
    direct, _, _ = decode(CODEC, examples, hashes(examples), config(folder, cache_gigabytes=0))
    assert direct.decoded is None
    assert torch.equal(direct.fetch([3, 1]), first.fetch([3, 1]))


def test_a_damaged_image_stops_or_is_skipped_and_named(folder: Path) -> None:
    (folder / "cat" / "1.png").write_bytes(b"no image")
    examples = config(folder).read(str(folder), "data.train")
    with pytest.raises(RegardError, match=r"1\.png: not an image.*set data.damaged=skip"):
        decode(CODEC, examples, hashes(examples), config(folder))
    found, kept, skipped = decode(CODEC, examples, hashes(examples), config(folder, damaged="skip"))
    assert len(found) == len(kept) == 12
    (reason,) = skipped
    assert "1.png: not an image" in reason


def test_augmentation_depends_on_seed_epoch_and_batch_only(folder: Path) -> None:
    examples = config(folder).read(str(folder), "data.train")
    found, *_ = decode(CODEC, examples, hashes(examples), config(folder))
    augment = AugmentConfig(crop=1, flip=True, mixup=0.5)

    def batch(seed: int, epoch: int, indices: list[int]) -> torch.Tensor:
        data = LabelledImages(found, np.zeros(13, np.int64), 6, augment, seed)
        return data.epoch(epoch).fetch(np.array(indices)).images_BCYX

    one = batch(1, 0, [5, 2, 7])
    assert torch.equal(one, batch(1, 0, [5, 2, 7]))
    for other in (batch(2, 0, [5, 2, 7]), batch(1, 1, [5, 2, 7])):
        assert not torch.equal(one, other)
    plain = LabelledImages(found, np.zeros(13, np.int64), 6).epoch(0).fetch(np.array([5, 2, 7]))
    assert torch.equal(plain.images_BCYX, CODEC.normalized(found.fetch([5, 2, 7])))
