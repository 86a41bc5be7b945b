import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from regard.explain import figures
from regard.lab.experiment import Interval
from regard.training.task import Curve

FOUND = (("la", "casa"), ("the", "red", "house"), ((0.7, 0.2, 0.1), (0.0, 0.1, 0.9)))


def test_an_alignment_has_a_row_per_output_word_and_a_column_per_input_word() -> None:
    (axes,) = figures.matrix(*FOUND).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["the", "red", "house"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["la", "casa"]
    assert axes.images[0].get_array().tolist() == [list(row) for row in FOUND[2]]


def test_learning_curves_show_the_logged_values(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    entries = [{"step": 50, "loss": 3.0}, {"step": 60, "valid_loss": 2.5, "bleu": 7.0}, {"step": 100, "loss": 2.0}]
    log.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    curve = Curve(score="bleu", label="BLEU (greedy)")
    left, right = figures.learning_curves(log, [curve]).axes
    drawn = {line.get_label(): line.get_xydata().tolist() for line in (*left.lines, *right.lines)}
    assert drawn == {
        "training loss": [[50, 3.0], [100, 2.0]],
        "validation loss": [[60, 2.5]],
        "BLEU (greedy)": [[60, 7.0]],
    }


def test_learning_curves_of_several_objectives_have_separate_axes(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    entries = [
        {"step": 50, "loss": 7.5, "mlm_loss": 7.0, "nsp_loss": 0.5},
        {"step": 60, "valid_loss": 6.7, "valid_mlm_loss": 6.3, "valid_nsp_loss": 0.4},
        {"step": 60, "valid_mlm_accuracy": 0.2, "valid_nsp_accuracy": 0.7},
    ]
    log.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    curves = [
        Curve("mlm_loss", "valid_mlm_accuracy", "masked words predicted"),
        Curve("nsp_loss", "valid_nsp_accuracy", "next sentences recognised"),
    ]
    words, following, *scores = figures.learning_curves(log, curves).axes
    assert [line.get_ydata().tolist() for line in words.lines] == [[7.0], [6.3]]
    assert [line.get_ydata().tolist() for line in following.lines] == [[0.5], [0.4]]
    assert {axes.get_ylabel(): axes.lines[0].get_ydata().tolist() for axes in scores} == {
        "masked words predicted": [0.2],
        "next sentences recognised": [0.7],
    }


@pytest.mark.parametrize(("name", "begin"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("new/a.pdf", b"%PDF")])
def test_the_suffix_of_the_path_sets_the_format(tmp_path: Path, name, begin) -> None:
    figures.save(figures.matrix(*FOUND), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begin)


def test_an_empty_alignment_is_an_empty_figure(tmp_path: Path) -> None:
    figures.save(figures.matrix((), (), ()), tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"a.jpg: unknown format; use .pdf, .png, .svg"):
        figures.save(figures.matrix(*FOUND), tmp_path / "a.jpg")


def test_the_opacity_of_lines_shows_the_weights() -> None:
    (axes,) = figures.lines(*FOUND).axes
    strengths = {tuple(line.get_ydata()): line.get_alpha() for line in axes.lines}
    assert strengths == {(0, 0): 0.7, (0, 1): 0.2, (0, 2): 0.1, (1, 1): 0.1, (1, 2): 0.9}
    assert [text.get_text() for text in axes.texts] == ["la", "casa", "the", "red", "house"]


def test_a_figure_of_a_long_text_has_a_limited_size() -> None:
    words = ["word"] * 400
    weights = [[0.0] * 400] * 400
    for figure in (figures.matrix(words, words, weights), figures.lines(words, words, weights)):
        assert max(figure.get_size_inches()) < 35


def test_a_grid_has_a_row_per_attention_layer_and_a_column_per_head() -> None:
    maps = {"encoder": torch.rand(2, 3, 3), "cross": torch.rand(2, 4, 3)}
    axes = figures.grid(maps).axes
    assert [one.get_ylabel() for one in axes] == ["encoder", "", "cross", ""]
    assert [one.get_title() for one in axes] == ["head 0", "head 1", "", ""]
    assert axes[3].images[0].get_array().tolist() == maps["cross"][1].tolist()


def test_positions_are_shown_with_their_similarity() -> None:
    encoding = torch.randn(6, 4)
    left, right, _bar = figures.positions(encoding).axes
    assert left.images[0].get_array().tolist() == encoding.tolist()
    assert right.lines[0].get_ydata()[0] == pytest.approx(1)


def labels(axes) -> list:
    return list(axes.texts) or [*axes.get_xticklabels(), *axes.get_yticklabels()]


@pytest.mark.parametrize("draw", [figures.matrix, figures.lines])
@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.pdf"])
def test_a_dollar_sign_is_not_mathematics(tmp_path: Path, draw, name) -> None:
    words = ("Costs", "$5-$9", "price $\\frac$ up")
    figure = draw(words, words, [[0.1, 0.2, 0.7]] * 3)
    (axes,) = figure.axes
    assert [label.get_text() for label in labels(axes)] == [*words, *words]
    assert not any(label.get_parse_math() for label in labels(axes))
    figures.save(figure, tmp_path / name)


def test_control_characters_leave_an_svg_well_formed(tmp_path: Path) -> None:
    figure = figures.matrix(["a\x01b", "\n"], ["\x1b[0m", "\ud800"], [[0.5, 0.5]] * 2)
    figures.save(figure, tmp_path / "a.svg")
    assert ElementTree.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")
    assert [label.get_text() for label in labels(figure.axes[0])] == ["□[0m", "□", "a□b", "⏎"]


@pytest.fixture
def font_with_one_character(tmp_path: Path) -> Iterator[str]:
    """An installed font that has nothing but the character 我."""
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder([".notdef", "me"])
    font.setupCharacterMap({ord("我"): "me"})
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    pen.lineTo((0, 500))
    pen.lineTo((500, 500))
    pen.closePath()
    font.setupGlyf({".notdef": pen.glyph(), "me": pen.glyph()})
    font.setupHorizontalMetrics({".notdef": (600, 0), "me": (600, 0)})
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": "One Character", "styleName": "Regular", "psName": "One"})
    font.setupOS2()
    font.setupPost()
    font.save(tmp_path / "one.ttf")
    manager = figures.font_manager.fontManager
    manager.addfont(str(tmp_path / "one.ttf"))
    figures._installed.cache_clear()
    yield "One Character"
    manager.ttflist = [font for font in manager.ttflist if font.name != "One Character"]
    figures._installed.cache_clear()


def test_an_installed_font_is_chosen_for_characters_of_another_script(font_with_one_character, tmp_path: Path) -> None:
    assert figures.fonts("bread") == (["DejaVu Sans"], set())
    assert figures.fonts("bread 我") == (["DejaVu Sans", font_with_one_character], set())
    figure = figures.matrix(["我"], ["I"], [[1.0]])
    assert [label.get_text() for label in labels(figure.axes[0])] == ["I", "我"]
    figures.save(figure, tmp_path / "a.png")


def test_characters_without_a_font_are_shown_as_boxes_and_named_once(tmp_path: Path, caplog, monkeypatch) -> None:
    own = figures.font_manager.findfont("DejaVu Sans")
    monkeypatch.setattr(figures, "_installed", lambda: [("DejaVu Sans", own)])  # no other font
    figures._report.cache_clear()
    for _ in range(2):
        figure = figures.lines(["我们"], ["we"], [[1.0]])
        assert [label.get_text() for label in labels(figure.axes[0])] == ["□□", "we"]
        figures.save(figure, tmp_path / "a.png")  # a warning of matplotlib would be an error
    assert caplog.messages == [
        "no installed font has 我们, shown as □; install a font for this script, such as Noto Sans CJK for Chinese"
    ]


def test_a_dot_plot_shows_intervals_and_names_the_range_of_its_axis() -> None:
    found = {"last": Interval("last", 70.0, 69.0, 71.5), "first": Interval("first", 63.0, 62.0, 64.0)}
    (axes,) = figures.dots(found, "accuracy, %").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["last", "first"]
    dots = [line.get_xydata().tolist() for line in axes.lines]
    assert dots == [[[69, 0], [71.5, 0]], [[70, 0]], [[62, 1], [64, 1]], [[63, 1]]]
    low, high = axes.get_xlim()
    assert axes.get_xlabel() == f"accuracy, % (95 % intervals; axis from {low:.1f} to {high:.1f})"
    assert low < 62 < 71.5 < high


def test_curves_of_several_runs_have_a_panel_per_metric_and_a_line_per_run() -> None:
    runs = {
        "runs/a_$1$": {"loss": [(50, 3.0), (100, 2.0)], "valid_loss": [(60, 2.5)], "bleu": [(60, 7.0)]},
        "runs/b": {"loss": [(50, 4.0)], "valid_loss": [(60, 3.5), (70, 3.0)]},
    }
    figure = figures.compared_curves(runs, "step")
    drawn = {
        axes.get_title(): {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
        for axes in figure.axes
        if axes.axison
    }
    assert drawn == {
        "training loss": {"runs/a_$1$": [[50, 3.0], [100, 2.0]], "runs/b": [[50, 4.0]]},
        "valid loss": {"runs/a_$1$": [[60, 2.5]], "runs/b": [[60, 3.5], [70, 3.0]]},
        "bleu": {"runs/a_$1$": [[60, 7.0]]},
    }
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(runs)
    assert not any(text.get_parse_math() for text in legend.get_texts())
    assert len({line.get_linestyle() for line in figure.axes[0].lines}) == 2
