import pytest

from helpers import assert_same
from regard.explain.view import AttentionView, drawn
from traces import read


def test_one_head_of_one_layer_as_it_is() -> None:
    trace = read("transformer")
    view = AttentionView(trace, layer="decoder.layers.1.cross", head=1, words=False)
    assert (view.rows, view.columns) == (tuple("xyz."), tuple("abcd."))
    assert_same(view.weights, trace.weights("decoder.layers.1.cross")["decoder.layers.1.cross"][1])


def test_in_a_look_at_oneself_rows_are_what_stands_there() -> None:
    view = AttentionView(read("transformer"), layer="decoder.layers.0.attention", words=False)
    assert view.rows == view.columns == tuple(".xyz")
    words = AttentionView(read("transformer"), layer="encoder.layers.0.attention")
    assert words.rows == words.columns == ("ab", "c", "d")
    assert words.weights.shape == (3, 3)


def test_words_get_the_sum_of_their_tokens() -> None:
    trace = read("rnn")
    tokens, words = AttentionView(trace, words=False).weights, AttentionView(trace).weights
    assert_same(words[1], tokens[2][[0, 2, 3]] + tokens[2][[1, 4, 4]] * tokens.new_tensor([1, 0, 0]))
    assert_same(words[0], (tokens[:2].mean(0)[[0, 2, 3]] + tokens[:2].mean(0)[1] * tokens.new_tensor([1, 0, 0])))


def test_a_view_shows_itself() -> None:
    for kind in ("matrix", "lines", "grid", "positions"):
        assert AttentionView(read("transformer"), kind)._repr_png_().startswith(b"\x89PNG")
    text = str(AttentionView(read("transformer")))
    assert text.splitlines()[0].split() == ["ab", "c", "d"]
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["xy", "z"]


def test_letters_are_as_dark_as_the_weights() -> None:
    assert drawn(["x"], ["ab", "c", "d"], [[1.0, 0.0, 0.5]]) == "   ab  c  d\nx  ██     ▒"


def test_what_is_not_there_is_named() -> None:
    trace = read("transformer")
    with pytest.raises(ValueError, match="no view is called 'pie'; choose from matrix, lines, grid, positions"):
        AttentionView(trace, "pie")
    with pytest.raises(ValueError, match="no attention is at 'decoder'; this model has 'encoder.layers.0.attention'"):
        AttentionView(trace, layer="decoder")
    with pytest.raises(ValueError, match="decoder.layers.0.cross has heads 0 to 1, not 2"):
        AttentionView(trace, layer="decoder.layers.0.cross", head=2)
