"""The explorer in a real browser, with the bundled model."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard
from browser import BREAD, expect, needs_chromium, open_view, ready, serving
from regard.serve import page as saved_page
from regard.serve.explorer import Explorer

pytestmark = needs_chromium
REQUEST = {"inputs": {"source": BREAD}}


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    return Explorer(regard.load("en-es"), "en-es")


@pytest.fixture(scope="module")
def address(explorer) -> Iterator[str]:
    yield from serving(explorer)


def test_the_attention_of_each_word_of_a_typed_sentence_is_shown(page, address) -> None:
    page.goto(address)
    ready(page, "translate")
    page.get_by_label("Text").fill("I see a red house.")
    page.get_by_role("button", name="Look", exact=True).click()
    expect(page.get_by_role("button", name="casa", exact=True)).to_be_visible()
    page.get_by_role("button", name="casa", exact=True).hover()
    expect(page.locator(".note").first).to_have_text(re.compile(r"^“casa” attends to “house\.” \d+ %"))
    weights = page.locator("span.word").evaluate_all(
        "all => all.map(word => [word.textContent, Number(word.style.getPropertyValue('--weight'))])"
    )
    assert max(weights, key=lambda pair: pair[1])[0] == "house."
    assert "source=I+see+a+red+house." in page.url


def test_an_old_url_without_roles_still_shows_its_text(page, address) -> None:
    page.goto(f"{address}#view=heads&text=We+eat.")
    ready(page, "heads")
    expect(page.get_by_label("Text")).to_have_value("We eat.")
    page.locator("select[name=head]").select_option("1")
    ready(page, "heads")
    assert "source=We+eat." in page.url
    assert "text=" not in page.url


def test_another_translation_can_be_chosen_or_given(page, address) -> None:
    open_view(page, address, "translate")
    page.get_by_role("button", name="Nosotros estamos comiendo pan.").click()
    expect(page.get_by_role("button", name="Nosotros", exact=True)).to_be_visible()
    page.get_by_label("Output").fill("Comemos pan.")
    page.get_by_role("button", name="Look", exact=True).click()
    expect(page.get_by_role("button", name="Comemos", exact=True)).to_be_visible()
    assert "target=Comemos+pan." in page.url


def test_layer_and_head_can_be_switched(page, address) -> None:
    open_view(page, address, "heads")
    page.locator("select[name=path]").select_option("encoder.layers.2.attention")
    expect(page.get_by_role("heading", name="encoder.layers.2.attention, head 0")).to_be_visible()
    page.get_by_role("button", name="decoder.layers.0.cross, head 2", exact=True).click()
    expect(page.get_by_role("heading", name="decoder.layers.0.cross, head 2")).to_be_visible()
    assert "path=decoder.layers.0.cross&head=2" in page.url


def test_matrix_and_lines_show_the_attention_weights_of_the_model(page, address, explorer) -> None:
    open_view(page, address, "heads", path="decoder.layers.0.cross", head="3")
    trace = explorer.subject.trace(BREAD, explorer.subject.translate([BREAD])[0][0].tokens)
    weights = trace.weights("decoder.layers.0.cross")["decoder.layers.0.cross"][3]
    box = page.locator(".matrix")
    box.focus()
    for row in range(len(weights)):
        page.keyboard.press("ArrowRight" if row == 0 else "ArrowDown")
        target = trace.target.pieces[row]
        expect(box).to_have_attribute("aria-label", re.compile(rf"^{re.escape(target)} → We: "))
        shown = float(box.get_attribute("aria-label").rpartition(" ")[2])
        assert shown == pytest.approx(float(weights[row, 0]), abs=6e-4, rel=0.06)
    most = trace.streams["source"].pieces[int(weights[3].argmax())]
    expect(page.locator(".lines [data-row='3']")).to_have_attribute(
        "aria-label", re.compile(f"^pan attends to {most} ")
    )


def test_the_walk_leads_from_the_model_to_a_single_dot_product_and_back(page, address, explorer) -> None:
    open_view(page, address, "walk")
    page.get_by_role("button", name="decoder.layers.0 DecoderLayer").click()
    page.locator("select[name=token]").select_option("3")
    page.locator("select[name=head]").select_option("1")
    ready(page, "walk")
    names = [text.split(". ", 1)[1] for text in page.locator(".steps h3").all_inner_texts()]
    assert names[:4] == ["norm", "query", "rotated query", "rotated keys"]
    assert names[-1] == "add"
    expect(page.get_by_label("Breadcrumb")).to_contain_text("“iendo → pan”")
    page.locator(".steps li", has_text="dot products").first.get_by_role("button", name=re.compile("^com")).click()
    heading = page.get_by_role("heading", name="q · k for “com” =")
    expect(heading).to_be_visible()
    tokens = explorer.subject.translate([BREAD])[0][0].tokens
    asked = {**REQUEST, "path": "decoder.layers.0", "token": 3, "head": 1}
    (dots, *_) = [step for step in explorer.answer("walk", asked)["steps"] if step["name"] == "dot products"]
    key = [*explorer.subject.trace(BREAD, tokens).streams["target"].pieces].index("com")
    assert float(heading.inner_text().rpartition(" ")[2]) == pytest.approx(dots["values"][key], abs=2e-3)
    page.get_by_role("button", name="decoder.layers.0", exact=True).click()
    expect(heading).to_have_count(0)
    expect(page.locator("select[name=token]")).to_have_value("3")


def test_the_walk_goes_on_to_the_word_and_its_probability(page, address, explorer) -> None:
    open_view(page, address, "walk", part="decoder.norm", token="3")
    page.get_by_role("button", name="next →").click()
    expect(page.locator("select[name=part]")).to_have_value("output")
    trace = explorer.subject.trace(BREAD, explorer.subject.translate([BREAD])[0][0].tokens)
    probability = trace.token_probabilities(trace.run())[3].probability
    softmax = page.locator(".steps li", has=page.get_by_role("heading", name="softmax"))
    expect(softmax.locator(".cell").first).to_have_text(re.compile(rf"^pan\s*{100 * probability:.0f} %$"))
    expect(page.locator("main > .note")).to_contain_text(f"“pan” has probability {100 * probability:.0f} %")
    page.get_by_role("button", name="← previous").click()
    expect(page.locator("select[name=part]")).to_have_value("decoder.norm")


def test_one_token_of_the_output_can_be_chosen(page, address, explorer) -> None:
    for view, message in (("matter", "Effect of each head"), ("whatif", "log p of the original output")):
        open_view(page, address, view)
        page.locator("select[name=output]").select_option("3")
        ready(page, view)
        assert "output=3" in page.url
        expect(page.get_by_text(message)).to_be_visible()
    expect(page.locator("section", has_text="The original output after the change").locator("tbody tr")).to_have_count(
        1
    )
    page.goto("about:blank")
    open_view(page, address, "matter", output="3")
    effect = explorer.answer("heads", {**REQUEST, "token": 3})["effects"]["decoder.layers.1.cross"][3]
    expect(page.get_by_role("button", name=f"decoder.layers.1.cross, head 3: {effect:.3f}")).to_be_visible()


def test_a_step_links_to_its_line_of_code(page, address) -> None:
    open_view(page, address, "walk", part="encoder.layers.0")
    page.locator("button.code", has_text="blocks/attend.py").first.click()
    expect(page.locator("dialog .line.chosen")).to_contain_text("scores_BHTS = query_BHTK @ key_BHSK.mT * scale")


def test_what_if_shows_the_effect_of_a_dropped_head_or_a_changed_word(page, address, explorer) -> None:
    open_view(page, address, "whatif")
    page.get_by_label("decoder.layers.0.cross, head 2").uncheck()
    change = {"heads": {"decoder.layers.0.cross": [2]}}
    answer = explorer.answer("what-if", {**REQUEST, "change": change})
    after = answer["given"]["log_probability"]
    expect(page.get_by_text("log p of the original output")).to_contain_text(f"{after:.3f} after the change")
    page.get_by_label("Change the input").fill("We are eating apples.")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("section", has_text="After the change").last).to_contain_text("man")
    page.get_by_role("button", name="Reset").click()
    expect(page.get_by_text("log p of the original output")).to_contain_text("(0.000)")


def test_positions_of_another_kind_are_shown_beside_those_of_the_model(page, address) -> None:
    open_view(page, address, "positions")
    expect(page.get_by_role("heading", name="Positional encoding of this model: rotary")).to_be_visible()
    page.locator("select[name=kind]").select_option("fourier")
    expect(page.locator(".curve")).to_have_count(2)


def test_important_heads_link_to_their_matrices(page, address, explorer) -> None:
    open_view(page, address, "matter")
    effects = explorer.answer("heads", REQUEST)["effects"]
    path = "decoder.layers.1.cross"
    page.get_by_role("button", name=f"{path}, head 3: {effects[path][3]:.3f}").click()
    expect(page.get_by_role("heading", name=f"{path}, head 3")).to_be_visible()
    page.go_back()
    ready(page, "matter")
    expect(page.locator(".early tbody tr")).to_have_count(2)


def test_a_view_is_restored_from_its_url(page, address) -> None:
    open_view(page, address, "heads", path="encoder.layers.1.attention", head="2", words="1", row="1")
    expect(page.get_by_role("heading", name="encoder.layers.1.attention, head 2")).to_be_visible()
    expect(page.locator("select[name=words]")).to_have_value("1")
    expect(page.locator(".lines .chosen")).to_have_text("are")
    page.reload()
    ready(page, "heads")
    expect(page.locator(".lines .chosen")).to_have_text("are")


def test_a_saved_view_opens_without_the_server(page, address, browser, tmp_path: Path) -> None:
    open_view(page, address, "heads", path="decoder.layers.1.cross", head="3")
    page.locator("select[name=head]").select_option("1")
    ready(page, "heads")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save this view").click()
    path = tmp_path / "view.html"
    download.value.save_as(path)
    context = browser.new_context(offline=True)
    alone = context.new_page()
    asked = []
    alone.on("request", lambda request: asked.append(request.url))
    alone.goto(path.as_uri())
    ready(alone, "heads")
    expect(alone.get_by_role("heading", name="decoder.layers.1.cross, head 1")).to_be_visible()
    alone.locator("select[name=head]").select_option("2")
    expect(alone.get_by_role("heading", name="decoder.layers.1.cross, head 2")).to_be_visible()
    alone.get_by_role("tab", name="Walk through").click()
    alone.get_by_role("button", name="encoder.layers.0 EncoderLayer").click()
    expect(alone.get_by_role("status")).to_contain_text("The saved page does not contain this view; run regard explore")
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    context.close()


def test_a_page_made_by_the_command_shows_the_sentence(page, explorer, tmp_path: Path) -> None:
    path = tmp_path / "look.html"
    path.write_text(saved_page.of_sentence(explorer, {"view": "translate", "source": BREAD}), "utf-8")
    page.goto(path.as_uri())
    ready(page, "translate")
    expect(page.get_by_role("button", name="comiendo", exact=True)).to_be_visible()
    page.get_by_role("tab", name="Which heads matter").click()
    ready(page, "matter")
    expect(page.get_by_role("heading", name="Effect of each head on this output")).to_be_visible()


def test_arrow_keys_move_between_tabs(page, address) -> None:
    open_view(page, address, "translate")
    page.get_by_role("tab", name="Translate and align").focus()
    page.keyboard.press("ArrowRight")
    ready(page, "heads")
    expect(page.get_by_role("tab", name="Heads", exact=True)).to_be_focused()
    page.keyboard.press("ArrowLeft")
    ready(page, "translate")


def test_a_new_sentence_gets_a_new_output(page, address) -> None:
    open_view(page, address, "translate", target="Comemos pan.")
    page.get_by_label("Text").fill("I see a red house.")
    page.get_by_role("button", name="Look", exact=True).click()
    expect(page.get_by_role("button", name="casa", exact=True)).to_be_visible()
    assert "target" not in page.url


def test_changes_in_quick_succession_are_all_applied(page, address) -> None:
    open_view(page, address, "whatif")
    page.evaluate("document.querySelectorAll('.switches input').forEach((box, i) => i < 2 && box.click())")
    ready(page, "whatif")
    expect(page.locator(".switches input:not(:checked)")).to_have_count(2)


def test_the_back_button_zooms_out(page, address) -> None:
    open_view(page, address, "walk", part="decoder.layers.0", token="3")
    key = page.locator(".steps li", has_text="dot products").first.get_by_role("button", name=re.compile("^com"))
    key.click()
    expect(page.get_by_role("heading", name="q · k for")).to_be_visible()
    key.click()  # opening the same place again adds no entry to the history
    ready(page, "walk")
    page.go_back()
    expect(page.get_by_role("heading", name="q · k for")).to_have_count(0)
    expect(page.locator("select[name=part]")).to_have_value("decoder.layers.0")


def test_a_view_with_an_error_can_be_reset(page, address) -> None:
    page.goto(f"{address}#view=whatif&text=We+eat.&mask=nowhere")
    expect(page.get_by_role("status")).to_contain_text("no attention matches 'nowhere'")
    page.get_by_role("button", name="Reset this view").click()
    ready(page, "whatif")
    expect(page.get_by_role("heading", name="Interventions")).to_be_visible()


def test_typed_text_survives_another_change(page, address) -> None:
    open_view(page, address, "whatif")
    page.get_by_label("Change the input").fill("We are eating apples.")
    page.get_by_label("decoder.layers.0.cross, head 2").uncheck()
    expect(page.get_by_text("log p of the original output")).not_to_contain_text("(0.000)")
    expect(page.get_by_label("Change the input")).to_have_value("We are eating apples.")


def test_keyboard_focus_is_kept(page, address) -> None:
    open_view(page, address, "walk")
    page.get_by_role("button", name="decoder.layers.0 DecoderLayer").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".steps")
    assert page.evaluate("document.getElementById('main').contains(document.activeElement)")
    open_view(page, address, "heads")
    page.locator(".matrix").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "Enter", "ArrowDown"):
        page.keyboard.press(key)
        ready(page, "heads")
    expect(page.locator(".matrix")).to_have_attribute("aria-label", re.compile("^pan →"))


def test_an_error_is_visible(page, address) -> None:
    open_view(page, address, "heads")
    page.evaluate("scrollTo(0, 0)")
    page.get_by_label("Text").fill("")
    page.get_by_role("button", name="Look", exact=True).click()
    expect(page.get_by_role("status")).to_be_in_viewport()
    expect(page.get_by_role("status")).to_contain_text("the text is empty")


def test_the_skip_link_leaves_the_view_as_it_is(page, address) -> None:
    open_view(page, address, "heads", head="2")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    assert "view=heads" in page.url


def test_errors_are_shown_on_the_page(page, address) -> None:
    page.goto(f"{address}#view=heads&text=")
    expect(page.get_by_role("status")).to_have_text("the text is empty; give at least one word")


@pytest.mark.parametrize("view", ["translate", "heads", "walk", "whatif", "positions", "matter"])
def test_settings_that_are_no_numbers_are_ignored(page, address, view) -> None:
    names = ["word", "row", "token", "step", "key", "head", "flow", "length", "output"]
    for value in ("x", "-1"):
        part, off = {"part": "decoder.layers.0"}, {"off": f"decoder.layers.0.cross:{value}"}
        open_view(page, address, view, **dict.fromkeys(names, value), **part, **off)
        expect(page.locator("#status")).to_have_text("")
        page.evaluate("""
            const events = ["pointerenter", "focus", "blur", "pointerleave"].map((name) => new Event(name));
            for (const node of document.querySelectorAll("main button, main svg [role=button], main .matrix"))
                events.forEach((event) => node.dispatchEvent(event));
        """)
        expect(page.locator("main > *").first).to_be_visible()


def test_an_unknown_view_shows_the_first_one(page, address) -> None:
    page.goto(f"{address}#view=constructor")
    ready(page, "translate")
    expect(page.locator("#status")).to_have_text("")


@pytest.mark.parametrize("view", ["translate", "heads", "walk", "whatif", "positions", "matter"])
def test_views_fit_the_width_of_a_phone(page, address, view) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    open_view(page, address, view, part="decoder.layers.0")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_only_visible_tokens_of_a_long_text_are_drawn(page, address) -> None:
    open_view(page, address, "heads", text="we are " * 240, target="pan y " * 100, path="encoder.layers.0.attention")
    box = page.locator(".matrix")
    size = box.evaluate("box => [box.scrollWidth, box.clientWidth, box.querySelector('canvas').clientWidth]")
    assert size[0] > 3000
    assert size[2] <= size[1]
    box.evaluate("box => box.scrollTo(2000, 2000)")
    page.wait_for_timeout(100)
    place = box.bounding_box()
    page.mouse.move(place["x"] + 300, place["y"] + 300)
    expect(box).to_have_attribute("aria-label", re.compile("→"))
