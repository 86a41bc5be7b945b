from pathlib import Path

import pytest

import regard
from commands import invoke, run
from regard.models.heads import ClassificationHead, NoHead
from texts import encoder


def test_a_text_without_words_is_refused() -> None:
    for opened in (regard.load("en-es"), encoder(NoHead()), encoder(ClassificationHead(labels=("bad", "good")))):
        for text in ("", "   ", "\n\t"):
            with pytest.raises(ValueError, match="^the text is empty; give at least one word$"):
                opened.look(text)


def test_a_target_without_words_is_refused() -> None:
    with pytest.raises(ValueError, match="^the target is empty; give at least one word, or leave it out"):
        run("look", "We eat.", "--target", " ")


def test_several_sentences_are_said_to_be_shown_as_one() -> None:
    several = invoke("look", "I said. You came. They left.", "--target", "Dije.")
    assert several.stderr == (
        "the 3 sentences are shown as one, though regard translate splits them; for one, give it alone\n"
    )
    assert several.stdout.split()[:6] == ["I", "said.", "You", "came.", "They", "left."]
    assert not invoke("look", "I said nothing.", "--target", "Nada.").stderr


def test_an_unknown_format_is_refused_with_all_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"look.gif: unknown format; use .pdf, .png, .svg, .html$"):
        run("look", "We eat.", "-o", tmp_path / "look.gif")
