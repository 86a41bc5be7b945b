import pytest
import torch

from helpers import assert_same
from regard.explain.characters import width
from regard.explain.view import AttentionView, drawn
from traces import read


def test_a_view_of_one_head_has_the_captured_weights() -> None:
    trace = read("transformer")
    view = AttentionView(trace, layer="decoder.layers.1.cross", head=1, words=False)
    assert (view.rows, view.columns) == (tuple("xyz."), tuple("abcd."))
    assert_same(view.weights, trace.weights("decoder.layers.1.cross")["decoder.layers.1.cross"][1])


def test_rows_of_self_attention_are_the_input_tokens() -> None:
    view = AttentionView(read("transformer"), layer="decoder.layers.0.attention", words=False)
    assert view.rows == view.columns == tuple(".xyz")
    words = AttentionView(read("transformer"), layer="encoder.layers.0.attention")
    assert words.rows == words.columns == ("ab", "c", "d")
    assert words.weights.shape == (3, 3)


def test_weights_of_words_are_summed_over_their_tokens() -> None:
    trace = read("rnn")
    tokens, words = AttentionView(trace, words=False).weights, AttentionView(trace).weights
    assert_same(words[1], tokens[2][[0, 2, 3]] + tokens[2][[1, 4, 4]] * tokens.new_tensor([1, 0, 0]))
    assert_same(words[0], (tokens[:2].mean(0)[[0, 2, 3]] + tokens[:2].mean(0)[1] * tokens.new_tensor([1, 0, 0])))


def test_a_view_has_a_repr_and_a_png() -> None:
    for kind in ("matrix", "lines", "grid", "positions"):
        assert AttentionView(read("transformer"), kind)._repr_png_().startswith(b"\x89PNG")
    text = str(AttentionView(read("transformer")))
    assert text.splitlines()[0].split() == ["ab", "c", "d"]
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["xy", "z"]


def test_the_shade_of_characters_shows_the_weights() -> None:
    assert drawn(["x"], ["ab", "c", "d"], [[1.0, 0.0, 0.5]]) == "   ab  c  d\nx  ██     ▒"


def test_wide_and_combining_characters_keep_columns_aligned() -> None:
    shown = drawn(["我们", "e\u0301", "\n"], ["吃", "x"], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).splitlines()
    assert shown == ["      吃  x", "我们  ██", "   e\u0301      █", "   ⏎  ██  █"]
    assert [width(text) for text in ("我们", "e\u0301", "⏎", "abc", "ｗ")] == [4, 1, 1, 3, 2]


def test_weights_after_an_overflow_are_an_error() -> None:
    trace = read("transformer, norm before")
    with torch.no_grad():
        trace.model.decoder.layers[0].feedforward.outer.weight.fill_(1e308)
    for show in (repr, AttentionView._repr_png_):
        for kind in ("matrix", "grid"):
            with pytest.raises(ValueError, match="the output of the model is NaN or infinite"):
                show(AttentionView(trace, kind, layer="decoder.layers.1.cross"))


def test_unknown_views_layers_and_heads_are_reported() -> None:
    trace = read("transformer")
    with pytest.raises(ValueError, match="unknown view 'pie'; choose from matrix, lines, grid, positions"):
        AttentionView(trace, "pie")
    with pytest.raises(ValueError, match="no attention layer 'decoder'; this model has 'encoder.layers.0.attention'"):
        AttentionView(trace, layer="decoder")
    with pytest.raises(ValueError, match="decoder.layers.0.cross has heads 0 to 1, not 2"):
        AttentionView(trace, layer="decoder.layers.0.cross", head=2)
