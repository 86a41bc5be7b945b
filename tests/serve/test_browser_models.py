"""Models other than translators in the explorer, in a real browser."""

import re
from collections.abc import Iterator

import pytest

from browser import expect, needs_chromium, open_view, ready, serving
from captions import PICTURE, Captioner
from completers import completer
from regard.explain.media import MEDIA
from regard.models.heads import PretrainingHead
from regard.serve.explorer import Explorer
from repeating import LoopedSubject
from texts import encoder

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def mask_filler() -> Iterator[str]:
    yield from serving(Explorer(encoder(PretrainingHead()), "words", "the [MASK] dog ran"))


def test_masked_words_are_predicted_while_typing(page, mask_filler) -> None:
    page.goto(mask_filler)
    ready(page, "translate")
    expect(page.get_by_role("tab", name="Read and inspect")).to_be_visible()
    target = page.locator("section", has_text="Prediction").locator("p.words")
    expect(target).to_have_text(re.compile(r"^the (?!\[MASK\]).+ dog ran$"))
    box = page.get_by_label("Text")
    box.fill("")
    box.press_sequentially("good [MASK] ", delay=20)
    expect(target).to_have_text(re.compile(r"^good (?!\[MASK\])\S+$"))
    box.press_sequentially("food", delay=20)  # the space that was typed is still there
    expect(target).to_have_text(re.compile(r"^good (?!\[MASK\])\S+ food$"))


def test_two_sentences_have_two_colours(page, mask_filler) -> None:
    open_view(page, mask_filler, "translate", text="the brown dog [SEP] good food")
    second = page.locator("[lang=x-source] .word.second")
    expect(second).to_have_text(["good", "food"])
    first = page.locator("[lang=x-source] .word").first
    colours = [word.evaluate("word => getComputedStyle(word).color") for word in (first, second.first)]
    assert colours[0] != colours[1]
    for view in ("heads", "walk", "whatif", "positions", "matter"):
        open_view(page, mask_filler, view, text="the brown dog [SEP] good food")


@pytest.fixture(scope="module")
def bard() -> Iterator[str]:
    yield from serving(Explorer(completer("characters"), "bard", "ROMEO:"))


def test_a_text_continues_from_another_token(page, bard) -> None:
    page.goto(bard)
    ready(page, "translate")
    expect(page.get_by_role("tab", name="Continue and inspect")).to_be_visible()
    table = page.locator("section", has_text="Token probabilities").locator("tbody")
    expect(table.get_by_role("row")).to_have_count(len("ROMEO:") - 1 + 20)
    last_read = table.get_by_role("row").nth(len("ROMEO:") - 1)
    others = last_read.get_by_role("button")
    expect(others).to_have_count(5)
    other = others.nth(2)
    piece = other.inner_text().rpartition(" ")[0].rpartition(" ")[0]
    other.click()
    box = page.get_by_label("Text")
    expect(box).to_have_value(re.compile(f"^ROMEO:{'.' if piece in '·⏎' else re.escape(piece)}$", re.DOTALL))
    ready(page, "translate")
    expect(table.get_by_role("row")).to_have_count(len("ROMEO:") + 20)
    page.go_back()
    expect(box).to_have_value("ROMEO:")


def test_attention_is_shown_during_generation(page, bard) -> None:
    page.route("**/api/read", lambda _route: None)  # never answered, so that the partial output stays
    page.goto(bard)
    lines = page.locator("section", has_text="The output so far").locator("p.words")
    words = lines.first.locator(".word")
    expect(words).to_have_count(len("ROMEO:") + 20 - 1)
    expect(lines.last).to_have_text(re.compile(r"^.{20}$", re.DOTALL))
    weights = words.evaluate_all("words => words.map((word) => +word.style.getPropertyValue('--weight'))")
    assert sum(weights) == pytest.approx(1, abs=1e-3)


@pytest.fixture(scope="module")
def pairs() -> Iterator[str]:
    yield from serving(Explorer(completer("pairs"), "pairs", "Oé!"))


def test_a_text_continues_after_a_character_of_several_tokens(page, pairs) -> None:
    page.goto(pairs)
    ready(page, "translate")
    rows = page.locator("section", has_text="Token probabilities").locator("tbody").get_by_role("row")
    expect(rows.nth(1).get_by_role("button")).to_have_count(0)  # within é
    rows.nth(3).get_by_role("button").first.click()
    expect(page.get_by_label("Text")).to_have_value(re.compile("^Oé!.", re.DOTALL))


def test_trailing_white_space_belongs_to_a_text_to_continue(page, bard) -> None:
    open_view(page, bard, "translate", text="O")
    box = page.get_by_label("Text")
    box.fill("ROMEO:\nO ")
    box.press("Enter")
    ready(page, "translate")
    assert "text=ROMEO%3A%0AO+" in page.url
    box.press("End")
    box.press("Shift+Enter")
    expect(box).to_have_value("ROMEO:\nO \n")


@pytest.mark.parametrize("view", ["heads", "walk", "whatif", "positions", "matter"])
def test_every_view_shows_a_language_model(page, bard, view) -> None:
    open_view(page, bard, view, text="ROMEO:\nO ")
    expect(page.locator("#status")).to_have_text("")
    expect(page.locator("main section").first).to_be_visible()


@pytest.fixture(scope="module")
def looped() -> Iterator[str]:
    subject = LoopedSubject()
    subject.model.stops = 2  # of 3 times
    yield from serving(Explorer(subject, "looped"))


def test_a_layer_that_runs_several_times_is_shown_at_each_depth(page, looped) -> None:
    for view in ("translate", "heads", "whatif", "positions", "matter"):
        open_view(page, looped, view)
        expect(page.locator("#status")).to_have_text("")
    open_view(page, looped, "walk")
    parts = ("tokens", "layer@0", "layer@1", "layer@2", "norm")
    expect(page.locator("ol.stack button")).to_have_text([re.compile(f"^{part}") for part in parts])
    page.get_by_role("button", name="layer@1").click()
    expect(page.get_by_label("Head").locator("option")).to_have_count(2)
    softmax = page.locator("ol.steps > li", has=page.get_by_role("heading", name="softmax"))
    expect(softmax.locator(".key")).to_have_text(["a", "b", "c", "d", "."])


@pytest.fixture(scope="module")
def captions() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MEDIA, "picture", PICTURE)
        yield from serving(Explorer(Captioner(), "captions", {"image": "3456", "text": "78"}))


def test_each_input_has_a_field_and_its_role_in_the_address(page, captions) -> None:
    page.goto(captions)
    ready(page, "translate")
    expect(page.get_by_label("Image")).to_have_value("3456")
    expect(page.locator("#sentence").get_by_label("Text")).to_have_value("78")
    page.get_by_label("Image").fill("445566")
    page.get_by_role("button", name="Look", exact=True).click()
    expect(page.locator("[lang=x-source] .word")).to_have_text(["row 0", "row 1", "row 2"])
    assert "image=445566" in page.url
    assert "text=78" in page.url
    open_view(page, captions, "whatif", image="3456", text="78")
    page.get_by_label("Change the input (image)").fill("6543")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("log p of the original output")).not_to_contain_text("(0.000)")
    assert "other.image=6543" in page.url
    page.get_by_role("button", name="Reset").click()
    expect(page.get_by_text("log p of the original output")).to_contain_text("(0.000)")
    assert "other" not in page.url
    open_view(page, captions, "whatif", image="3456", text="78", **{"other.image": "6543"})
    page.locator("#sentence").get_by_label("Image").fill("445566")
    page.get_by_role("button", name="Look", exact=True).click()
    ready(page, "whatif")
    assert "image=445566" in page.url
    assert "other" not in page.url  # it belonged to the old inputs


def test_an_unknown_medium_is_shown_as_its_tokens(page, captions) -> None:
    open_view(page, captions, "heads", image="3456", text="78", path="encoder.layers.0.attention", words="1")
    rows = page.locator(".lines [data-row]").evaluate_all("rows => rows.map((row) => row.textContent)")
    assert rows == [" 3", " 4", " 5", " 6"]
    expect(page.locator("select[name=words]")).to_have_count(0)
    open_view(page, captions, "heads", image="3456", text="78", path="decoder.layers.0.cross", words="1")
    expect(page.locator("select[name=words]")).to_have_value("1")  # the caption has words
    expect(page.locator(".lines [data-row]")).to_have_text(["7", "8", "2"])
    for view in ("translate", "walk", "positions", "matter"):
        open_view(page, captions, view, image="3456", text="78", part="decoder.layers.0")
        expect(page.locator("#status")).to_have_text("")
