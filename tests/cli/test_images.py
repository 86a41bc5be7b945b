"""Image classification on the command line."""

import json
from pathlib import Path

import pytest

import small
from commands import run as command
from regard import library
from regard.systems import system


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("images")
    vit = system("vit")
    (task,) = vit.tasks
    small.start(small.small_recipe(vit, task, task.data[0], path)).train()
    return path


def test_files_are_classified_with_labels_and_probabilities(folder: Path) -> None:
    images = folder / "data" / "images"
    paths = [str(images / "light" / "0.png"), str(images / "dark" / "1.png")]
    lines = command("classify", "--model", folder / "run", *paths).splitlines()
    assert [line.split("\t")[2] for line in lines] == paths
    found = [json.loads(line) for line in command("classify", "--model", folder / "run", "--json", *paths).splitlines()]
    for path, each, line in zip(paths, found, lines, strict=True):
        assert each["image"] == path
        assert line.split("\t")[:2] == [each["label"], f"{each['value']:.3f}"]
        assert sum(each["probabilities"].values()) == pytest.approx(1)
    assert command("classify", "--model", folder / "run", stdin="".join(f"{path}\n" for path in paths)) == "\n".join(
        [*lines, ""]
    )


def test_wrong_files_and_options_are_reported(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"missing\.png: no such file"):
        command("classify", "--model", folder / "run", "missing.png")
    with pytest.raises(ValueError, match="--second is for pairs of texts; this model classifies images"):
        command("classify", "--model", folder / "run", "a.png", "--second", "b")


def test_a_classifier_is_evaluated_on_a_folder(folder: Path) -> None:
    images, run = folder / "data" / "images", folder / "run"
    found = json.loads(command("evaluate", run, "--data", images, "--json"))
    assert found["count"] == 24
    assert sum(map(sum, found["confusion"])) == 24
    hits = sum(row[i] for i, row in enumerate(found["confusion"]))
    assert found["accuracy"] == pytest.approx(100 * hits / 24)
    assert {name: each["count"] for name, each in found["classes"].items()} == {"dark": 12, "light": 12}
    assert command("evaluate", run, "--data", images).startswith(f"accuracy  {found['accuracy']:.2f}")
    (images / "other").mkdir()
    (images / "other" / "x.png").write_bytes((images / "dark" / "1.png").read_bytes())
    with pytest.raises(ValueError, match="the model does not know the class 'other'; it knows dark, light"):
        command("evaluate", run, "--data", images)


def test_look_draws_the_attention_to_each_patch(folder: Path) -> None:
    path, run = folder / "data" / "images" / "dark" / "1.png", folder / "run"
    view = library.load(str(run)).look(str(path))  # type: ignore[attr-defined]
    # 12 × 8 pixels in patches of 4 × 4
    assert view.patches.shape == (3, 2)
    assert 0 < float(view.patches.sum()) <= 1
    (one,) = [look.path for look in view.trace.looks][:1]
    weights = view.trace.weights(one)[one]
    chosen = library.load(str(run)).look(str(path), layer=one, head=1)  # type: ignore[attr-defined]
    assert chosen.patches.flatten().tolist() == pytest.approx(weights[1][0, 1:].tolist(), rel=1e-5)
    assert len(command("look", "--model", run, path).splitlines()) >= 3
    command("look", "--model", run, path, "-o", folder / "x.png")
    assert (folder / "x.png").stat().st_size > 1000
