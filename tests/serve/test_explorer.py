import json
from itertools import pairwise

import pytest
import torch

from captions import PICTURE, Captioner
from helpers import assert_same, randomise
from regard.blocks.capture import capture, intervene
from regard.codecs.subword import SubwordTokenizer
from regard.explain.importance import head_effects, rollout
from regard.explain.media import MEDIA
from regard.explain.trace import mean
from regard.models.conv_seq2seq import ConvSeq2SeqConfig
from regard.models.rnn_seq2seq import RnnSeq2SeqConfig
from regard.models.transformer import TransformerConfig
from regard.serve import explorer as module
from regard.serve.explorer import Explorer, Numbers
from regard.tasks.translation import Translator
from repeating import LoopedSubject

TEXTS = ["the child eats bread", "el niño come pan", "we", "stones and bread and children"]
TOKENIZER = SubwordTokenizer.train("bpe", 280, TEXTS)
MODELS = {
    "transformer": TransformerConfig(
        vocab_size=280, width=8, heads=2, ff_width=8, encoder_layers=1, decoder_layers=2, positions="learned"
    ),
    "rnn": RnnSeq2SeqConfig(vocab_size=280, width=8),
    "conv": ConvSeq2SeqConfig(vocab_size=280, width=8, encoder_layers=1, decoder_layers=1),
}
REQUEST = {"inputs": {"source": "the child"}, "target": "el niño"}


def make(name: str = "transformer") -> Explorer:
    torch.manual_seed(1)
    assert TOKENIZER.vocab_size == 280
    return Explorer(Translator(randomise(MODELS[name].build()), TOKENIZER, TOKENIZER), name)


@pytest.mark.parametrize("name", MODELS)
def test_every_request_is_answered_for_every_model_family(name) -> None:
    explorer = make(name)
    model = explorer.answer("model", {})
    for look in model["looks"]:
        assert isinstance(explorer.answer("attention", {**REQUEST, "path": look["path"]}), Numbers)
    for part in model["parts"]:
        assert explorer.answer("walk", {**REQUEST, "path": part["path"], "token": 0})["steps"]
    for verb in ("read", "heads", "what-if"):
        json.dumps(explorer.answer(verb, REQUEST), allow_nan=False)
    if name != "rnn":
        assert len(explorer.answer("positions", {"length": 5}).values) == 5
        assert explorer.answer("likeness", {"length": 5})["similarity"][0] == pytest.approx(1)


@pytest.mark.parametrize("stops", [2, 3])
def test_each_depth_of_a_repeated_layer_can_be_requested(stops) -> None:
    explorer = Explorer(LoopedSubject(), "looped")
    explorer.subject.model.stops, asked = stops, {"inputs": {"text": "abcd"}}
    model = explorer.answer("model", {})
    assert [look["path"] for look in model["looks"]] == [f"layer.attention@{depth}" for depth in range(3)]
    maps = explorer.subject.trace("").weights("*")
    assert len(maps) == stops
    for look in model["looks"]:
        weights = explorer.answer("attention", {**asked, "path": look["path"]}).values
        assert torch.equal(weights, maps.get(look["path"], torch.zeros(2, 5, 5)))
    for depth in range(stops):
        assert explorer.answer("walk", {**asked, "path": f"layer@{depth}", "token": 1, "head": 1})["steps"]
    found = explorer.answer("heads", asked)
    assert [early["path"] for early in found["early"]] == [f"layer@{depth}" for depth in range(stops)]
    assert all((effect != 0) == (path in maps) for path, effects in found["effects"].items() for effect in effects)
    changed = [
        explorer.answer("what-if", {**asked, "change": {"heads": {look["path"]: [0]}}})["changed"]["log_probability"]
        for look in model["looks"]
    ]
    assert len({*changed, explorer.answer("read", asked)["spoken"]["log_probability"]}) == stops + 1


def test_a_model_without_attention_has_a_walk() -> None:
    model = randomise(RnnSeq2SeqConfig(vocab_size=280, width=8, attention="none").build())
    explorer = Explorer(Translator(model, TOKENIZER, TOKENIZER), "squeezed")
    assert explorer.answer("model", {})["looks"] == []
    assert explorer.answer("read", REQUEST)["alignment"] is None
    found = explorer.answer("heads", REQUEST)
    assert [found[name] for name in ("effects", "rollouts", "early")] == [{}, [], []]
    assert explorer.answer("walk", {**REQUEST, "path": "decoder", "token": 1})["steps"]


def test_inputs_of_a_model_and_layouts_of_its_streams_are_described() -> None:
    explorer = make()
    model = explorer.answer("model", {})
    assert model["accepts"] == {"source": "text"}
    assert model["example"] == {"source": "We are eating bread."}
    source = explorer.answer("read", REQUEST)["streams"]["source"]
    assert source["medium"] == "text"
    assert source["layout"]["spelled"] == ("the", "child")
    assert len(source["layout"]["words"]) == len(source["pieces"])


def test_each_input_has_a_role_and_can_be_replaced_separately(monkeypatch) -> None:
    monkeypatch.setitem(MEDIA, "picture", PICTURE)
    explorer = Explorer(Captioner(), "captions", {"image": "5566", "text": "7"})
    model = explorer.answer("model", {})
    assert model["accepts"] == {"image": "picture", "text": "text"}
    assert model["example"] == {"image": "5566", "text": "7"}
    inputs = {"image": "3456", "text": "78"}
    read = explorer.answer("read", {"inputs": inputs})
    assert read["streams"]["source"]["medium"] == "picture"
    assert read["streams"]["source"]["layout"] == {"rows": 2, "columns": 2}
    assert read["alignment"]["columns"] == ("row 0", "row 1")
    assert (read["alignment"]["asks"], read["alignment"]["answers"]) == ("target", "source")
    other = explorer.answer("what-if", {"inputs": inputs, "other": {"image": "6543"}})
    expected = explorer.answer("read", {"inputs": {"image": "6543", "text": "78"}})["spoken"]
    assert other["changed"] == expected != other["original"]
    with pytest.raises(ValueError, match="'text' is missing, 'sound' is unknown"):
        explorer.answer("read", {"inputs": {"image": "3456", "sound": "7"}})


def test_the_default_example_is_that_of_each_medium(monkeypatch) -> None:
    monkeypatch.setitem(MEDIA, "picture", PICTURE)
    assert Explorer(Captioner(), "captions").example == {"image": "3456", "text": "We are eating bread."}


def test_attention_weights_equal_the_captured_weights() -> None:
    explorer = make()
    answer = explorer.answer("attention", {**REQUEST, "path": "decoder.layers.1.cross"})
    trace = explorer.subject.trace(REQUEST["inputs"], REQUEST["target"])
    with capture(trace.model) as maps:
        trace.run()
    assert_same(answer.values, maps["decoder.layers.1.cross"][0])
    assert_same(answer.values.sum(-1), torch.ones(answer.values.shape[:2], dtype=torch.float64))


def test_without_a_target_the_output_of_the_model_is_shown() -> None:
    explorer = make()
    answer = explorer.answer("read", {"inputs": {"source": "we"}})
    own = explorer.subject.translate(["we"], n_best=3)[0]
    assert answer["target"]["pieces"][:-1] == tuple(TOKENIZER.pieces(own[0].tokens))
    assert [found["text"] for found in answer["alternatives"]] == [found.text for found in own]
    assert answer["spoken"]["probabilities"] == pytest.approx(
        explorer.subject.trace("we", own[0].tokens).log_probabilities(
            explorer.subject.trace("we", own[0].tokens).run()
        )[0].exp().tolist(),
        rel=1e-5,
    )  # fmt: skip


CHANGES = {
    "heads": ({"heads": {"decoder.layers.0.cross": [1]}}, {"drop_heads": {"decoder.layers.0.cross": [1]}}),
    "mask": ({"mask": ["decoder.layers.*.attention"]}, {"drop_mask": "decoder.layers.*.attention"}),
    "scaling": ({"scaling": ["encoder.layers.0.attention"]}, {"drop_scaling": "encoder.layers.0.attention"}),
    "positions": ({"positions": ["encoder.positions"]}, {"drop_positions": "encoder.positions"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_what_if_equals_the_intervention_in_python(name) -> None:
    explorer = make()
    change, arguments = CHANGES[name]
    answer = explorer.answer("what-if", {**REQUEST, "change": change})
    trace = explorer.subject.trace("the child", "el niño")
    plain = trace.log_probabilities(trace.run())[0].exp()
    with intervene(explorer.subject.model, **arguments):
        changed = trace.log_probabilities(trace.run())[0].exp()
        own = explorer.subject.translate(["the child"])[0][0]
    assert answer["original"]["probabilities"] == pytest.approx(plain.tolist(), rel=1e-5)
    assert answer["given"]["probabilities"] == pytest.approx(changed.tolist(), rel=1e-5)
    assert answer["changed"]["pieces"][:-1] == tuple(TOKENIZER.pieces(own.tokens))
    assert not torch.allclose(plain, changed)


def test_a_given_target_is_distinguished_from_the_output_of_the_model() -> None:
    explorer = make()
    answer = explorer.answer("what-if", {**REQUEST, "change": {}})
    assert answer["own"] == answer["changed"]
    assert answer["original"] == answer["given"]
    assert answer["original"]["pieces"] != answer["own"]["pieces"]


def test_what_if_accepts_another_text() -> None:
    explorer = make()
    answer = explorer.answer("what-if", {**REQUEST, "other": {"source": "we"}})
    given = explorer.subject.trace("we", "el niño")
    expected = float(given.log_probabilities(given.run()).sum())
    assert answer["given"]["log_probability"] == pytest.approx(expected, rel=1e-5)


def test_head_effects_and_rollouts_equal_those_in_python() -> None:
    explorer = make()
    answer = explorer.answer("heads", REQUEST)
    for path, effects in head_effects(explorer.subject.trace("the child", "el niño")).items():
        assert answer["effects"][path] == pytest.approx(effects.tolist(), rel=1e-5)
    assert [layer["path"] for layer in answer["early"]] == ["decoder.layers.0", "decoder.layers.1"]
    assert answer["rollouts"] == [("source", "source"), ("target", "target"), ("target", "source")]
    for (asks, answers), weights in rollout(explorer.subject.trace("the child", "el niño")).items():
        flow = explorer.answer("rollout", {**REQUEST, "asks": asks, "answers": answers})
        assert_same(flow.values, weights)


def test_masked_scores_are_null() -> None:
    steps = make().answer("walk", {**REQUEST, "path": "decoder.layers.0", "token": 0})["steps"]
    (masked,) = [step for step in steps if step["name"] == "mask"]
    assert masked["values"][1:] == [None] * (len(masked["values"]) - 1)
    assert masked["code"]["file"] == "regard/blocks/attend.py"


def test_generation_yields_growing_text_with_attention() -> None:
    explorer = make()
    grown = list(explorer.generate("the child"))
    texts = [step["text"] for step in grown]
    assert all(longer.startswith(shorter) for shorter, longer in pairwise(texts))
    greedy = explorer.subject.translate(["the child"], beam=1)[0][0]
    assert (texts or [""])[-1] == greedy.text
    trace = explorer.subject.trace("the child", greedy.tokens)
    weights = mean(trace.weights("decoder.layers.*.cross").values())
    for row, step in zip(weights, grown, strict=False):
        assert step["seen"]["pieces"] == trace.streams["source"].pieces
        assert step["weights"] == pytest.approx(row.tolist(), abs=1e-5)


def test_an_output_that_no_model_ran_for_has_no_attention(monkeypatch) -> None:
    monkeypatch.setitem(MEDIA, "picture", PICTURE)
    (step,) = Explorer(Captioner(), "captions").generate({"image": "3456", "text": "78"})
    assert (step["text"], step["weights"]) == ("78", [0, 0, 0, 0])


def test_only_source_files_of_regard_can_be_read() -> None:
    explorer = make()
    lines = explorer.answer("code", {"file": "regard/blocks/attend.py"})["lines"]
    assert any("softmax" in line for line in lines)
    for file in ("/etc/passwd", "regard/../../pyproject.toml", "regard/assets/en-es/config.json", "blocks/attend.py"):
        with pytest.raises(ValueError, match="is not a source file of Regard$"):
            explorer.answer("code", {"file": file})


@pytest.mark.parametrize(
    ("verb", "arguments", "message"),
    [
        ("nothing", {}, "unknown verb 'nothing'; valid: model, read"),
        ("read", {}, "inputs: Field required"),
        ("read", {"inputs": {"source": "x"}, "more": 1}, "more: Extra inputs are not permitted"),
        ("read", {"inputs": {"source": "x" * 5000}}, "inputs.source: String should have at most 4000 characters"),
        ("read", {"inputs": {"source": ""}}, "the text is empty"),
        ("attention", {**REQUEST, "path": "x"}, "no attention layer 'x'"),
        ("attention", {**REQUEST, "path": "*"}, r"no attention layer '\*'"),
        ("walk", {**REQUEST, "path": "decoder.layers.0", "token": 99}, "token 99 is out of range"),
        ("walk", {**REQUEST, "path": "decoder.layers.0", "token": -1}, "token: Input should be greater than"),
        ("what-if", {**REQUEST, "change": {"heads": {"x": [0]}}}, "no attention matches 'x'"),
        ("what-if", {**REQUEST, "change": {"heads": {"*": [7]}}}, "heads should be indices from 0 to 1"),
        ("rollout", {**REQUEST, "asks": "source", "answers": "target"}, "'source' does not attend to 'target'"),
        ("positions", {"length": 100_000}, "length: Input should be less than or equal to 512"),
    ],
)
def test_invalid_requests_are_reported(verb, arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        make().answer(verb, arguments)


def test_too_long_a_text_is_refused_before_translation(monkeypatch) -> None:
    monkeypatch.setattr(module, "MAX_TOKENS", 5)
    explorer = make()
    monkeypatch.setattr(explorer.subject, "translate", None)  # a translation would fail
    for verb, arguments in (
        ("read", {"inputs": {"source": "x y z a b c d"}}),
        ("what-if", {"inputs": {"source": "we"}, "target": "we", "other": {"source": "x y z a b c d"}}),
    ):
        with pytest.raises(ValueError, match="the text is too long: .* tokens, the limit is 5"):
            explorer.answer(verb, arguments)


def test_a_text_of_the_maximum_length_is_accepted(monkeypatch) -> None:
    explorer = make()
    monkeypatch.setattr(module, "MAX_TOKENS", explorer.subject.count("the child"))
    assert explorer.answer("read", {"inputs": {"source": "the child"}, "target": "we"})["target"]
