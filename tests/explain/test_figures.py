import json
from pathlib import Path

import pytest

from regard.explain import figures
from regard.explain.alignment import Alignment

FOUND = Alignment(("the", "red", "house"), ("la", "casa"), ((0.7, 0.2, 0.1), (0.0, 0.1, 0.9)))


def test_an_alignment_has_a_row_for_each_word_written_and_a_column_for_each_word_read() -> None:
    (axes,) = figures.alignment(FOUND).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["the", "red", "house"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["la", "casa"]
    assert axes.images[0].get_array().tolist() == [list(row) for row in FOUND.weights]


def test_curves_show_what_was_logged(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    entries = [{"step": 50, "loss": 3.0}, {"step": 60, "valid_loss": 2.5, "bleu": 7.0}, {"step": 100, "loss": 2.0}]
    log.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    left, right = figures.learning_curves(log).axes
    drawn = {line.get_label(): line.get_xydata().tolist() for line in (*left.lines, *right.lines)}
    assert drawn == {
        "loss in training": [[50, 3.0], [100, 2.0]],
        "loss in validation": [[60, 2.5]],
        "BLEU (greedy)": [[60, 7.0]],
    }


@pytest.mark.parametrize(("name", "begin"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("new/a.pdf", b"%PDF")])
def test_the_end_of_the_name_is_the_format(tmp_path: Path, name, begin) -> None:
    figures.save(figures.alignment(FOUND), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begin)


def test_nothing_to_align_is_an_empty_picture(tmp_path: Path) -> None:
    figures.save(figures.alignment(Alignment((), (), ())), tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"a.jpg: no such format for a picture; let it end in .pdf, .png, .svg"):
        figures.save(figures.alignment(FOUND), tmp_path / "a.jpg")
