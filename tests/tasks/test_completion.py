import json
from itertools import accumulate, pairwise
from types import SimpleNamespace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from completers import TOKENIZERS, Parrot, boundless, completer, gpt2, parrot
from helpers import assert_same
from regard.serve.explorer import Explorer, Numbers
from regard.tasks.completion import Completer

COMPLETERS = {name: completer(name) for name in TOKENIZERS}
SLIDING = {name: completer(name, context=6) for name in TOKENIZERS}
names = st.sampled_from(sorted(TOKENIZERS))
prompts = st.sampled_from(["", "ROMEO:", "O", "light"])


@torch.no_grad()
def greedy(of: Completer, prompt: str, tokens: int, context: int) -> list[int]:
    """The most probable tokens; the whole text is encoded again for each."""
    (read,) = of.tokenizer.encode([prompt])
    read = read or [of.tokenizer.begin]
    written: list[int] = []
    begins = 0
    for _ in range(tokens):
        while len(read) + len(written) - begins > context:
            begins += (context + 1) // 2
        seen = [*read, *written][begins:]
        written.append(int(of.model(torch.tensor([seen]))[0, -1].argmax()))
        if written[-1] == of.tokenizer.end:
            break
    return written


@given(names, prompts)
@settings(max_examples=8)
def test_temperature_zero_is_greedy(name, prompt) -> None:
    of = COMPLETERS[name]
    (found,) = of.complete(prompt, tokens=20, temperature=0.0)
    assert list(found.tokens) == greedy(of, prompt, 20, 48)
    assert of.best(prompt, tokens=20, beam=1)[0].tokens == found.tokens


@given(names, prompts)
@settings(max_examples=8)
def test_a_sliding_model_sees_only_the_tokens_in_its_window(name, prompt) -> None:
    of = SLIDING[name]
    (found,) = of.complete(prompt, tokens=20, temperature=0.0, overflow="slide")
    assert list(found.tokens) == greedy(of, prompt, 20, 6)
    assert of.best(prompt, tokens=20, beam=1, overflow="slide")[0].tokens == found.tokens


@pytest.mark.parametrize("name", sorted(TOKENIZERS))
def test_a_model_without_a_limit_generates_any_number_of_tokens(name) -> None:
    of = boundless(name)
    (found,) = of.complete("ROMEO:", tokens=60, temperature=0.0)
    assert list(found.tokens) == greedy(of, "ROMEO:", 60, context=1000)
    assert of.best("ROMEO:", tokens=60, beam=1)[0].tokens == found.tokens
    (sliding,) = of.complete("ROMEO:", tokens=60, temperature=0.0, overflow="slide")
    assert sliding.tokens == found.tokens
    assert not of.slides("ROMEO:", 10**9)
    assert "".join(of.stream("ROMEO:", tokens=60, temperature=0.0)) == found.text


def test_a_model_without_a_limit_can_be_traced() -> None:
    of = boundless("characters")
    text = "light " * 40
    assert len(of.trace(text).streams["text"].tokens) > len(text)
    target = "yonder window " * 10
    assert len(of.trace(text, target).target.tokens) == len(text) + len(target)
    assert len(of.alternatives(text, 2)) == 2
    assert len(list(of.generate(text))) > 1


@given(names, prompts, st.integers(0, 1000), st.integers(0, 4), st.booleans())
@settings(max_examples=15)
def test_a_sample_does_not_depend_on_the_others(name, prompt, seed, sample, slides) -> None:
    of = (SLIDING if slides else COMPLETERS)[name]
    options = {"tokens": 12, "temperature": 1.5, "top_p": 0.9, "stop": ["e", "\n"], "repetition_penalty": 1.3}
    options["overflow"] = "slide" if slides else "error"
    together = of.complete(prompt, samples=5, seed=seed, **options)
    (alone,) = of.complete(prompt, seed=seed + sample, **options)
    assert together[sample].tokens == alone.tokens
    assert together[sample].seed == alone.seed
    assert together[sample].token_log_probabilities == pytest.approx(alone.token_log_probabilities)


@given(names, prompts, st.integers(0, 1000), st.sampled_from([0.0, 1.0, 3.0]))
@settings(max_examples=15)
def test_scores_are_log_probabilities_of_the_model(name, prompt, seed, temperature) -> None:
    of = COMPLETERS[name]
    (found,) = of.complete(prompt, tokens=9, seed=seed, temperature=temperature, repetition_penalty=2.0, top_k=3)
    assert len(found.tokens) == len(found.token_log_probabilities) == len(found.pieces)
    trace = of.trace(prompt, found.tokens)
    logs = trace.log_probabilities(trace.run())[0, -len(found.tokens) :]
    assert found.token_log_probabilities == pytest.approx(logs.tolist())


@given(
    names,
    prompts,
    st.integers(0, 10_000),
    st.lists(st.sampled_from(["e", "\n", "th", "the", "hea", "é", "�", "ne", "neR"]), max_size=3),
)
@settings(max_examples=20)
def test_stream_and_complete_give_the_same_text(name, prompt, seed, stop) -> None:
    of, options = COMPLETERS[name], {"tokens": 20, "temperature": 1.2, "seed": seed, "stop": stop}
    pieces = list(of.stream(prompt, **options))
    assert "".join(pieces) == of.complete(prompt, **options)[0].text
    assert all(pieces)


TALE = "the naïve 🦄 said: été!\n\nthe end, and so on"


@pytest.mark.parametrize("ends", [False, True])
def test_characters_are_held_back_until_they_are_complete(ends) -> None:
    of = parrot(TALE, ends=ends)
    tokens = len(of.tokenizer.encode([TALE])[0])
    pieces = list(of.stream("x", tokens=tokens + ends))
    assert "".join(pieces) == TALE
    assert "🦄" in pieces
    (found,) = of.complete("x", tokens=tokens + ends)
    assert found.text == TALE
    assert found.finish_reason == ("end" if ends else "length")
    assert (found.tokens[-1] == of.tokenizer.end) == ends
    # truncated within a character, the text ends in a replacement character
    truncated = TALE.encode().index("🦄".encode()) + 2
    count = next(
        i for i, raw in enumerate(accumulate(of.tokenizer.raw([t]) for t in found.tokens), 1) if len(raw) == truncated
    )
    assert "".join(of.stream("x", tokens=count)) == of.complete("x", tokens=count)[0].text == "the naïve �"


@given(st.lists(st.text(st.sampled_from("ab🦄é"), min_size=1, max_size=4), min_size=1, max_size=3), st.text("ab🦄é"))
@example(["aab"], "aaab")
@example(["abab", "ba"], "ababab")
def test_a_text_ends_before_the_first_stop_string(stop, text) -> None:
    of = parrot(f"{text}!{stop[0]}the")
    raws = [of.tokenizer.raw(of.model.tokens[:count]) for count in range(len(of.model.tokens))]
    written = next(raw for raw in raws if any(s.encode() in raw for s in stop))
    expected = written[: min(written.index(s.encode()) for s in stop if s.encode() in written)].decode()
    (found,) = of.complete("", tokens=500, temperature=0.0, stop=stop)
    assert found.text == expected
    assert found.finish_reason == "stop"
    assert of.tokenizer.raw(found.tokens) == written
    pieces = list(of.stream("", tokens=500, temperature=0.0, stop=stop))
    assert "".join(pieces) == expected
    assert not any("�" in piece for piece in pieces)


def test_one_stop_string_needs_no_list() -> None:
    assert parrot(TALE).complete("x", tokens=50, stop="\n\n")[0].text == "the naïve 🦄 said: été!"


@pytest.mark.parametrize("name", TOKENIZERS)
def test_an_empty_prompt_is_encoded_as_the_begin_token(name) -> None:
    of = COMPLETERS[name]
    (found,) = of.complete("", tokens=8, temperature=0.0)
    begin = torch.tensor([[of.tokenizer.begin]])
    assert found.tokens[0] == int(of.model(begin)[0, -1].argmax())
    assert of.count("") == 1


@pytest.mark.parametrize("name", TOKENIZERS)
@torch.no_grad()
def test_the_repetition_penalty_applies_to_the_prompt(name) -> None:
    of = COMPLETERS[name]
    (read,) = of.tokenizer.encode(["ROMEO:"])
    logits = of.model(torch.tensor([read]))[0, -1]
    assert logits[read].max() > 0
    assert int(logits.argmax()) not in read
    (found,) = of.complete("ROMEO:", tokens=1, temperature=0.0, repetition_penalty=0.01)  # repeating is rewarded
    assert found.tokens[0] == max(read, key=lambda token: float(logits[token]))


@pytest.mark.parametrize("name", TOKENIZERS)
def test_beam_search_returns_the_best_with_their_scores(name) -> None:
    of = COMPLETERS[name]
    found = of.best("ROMEO:", beam=6, n_best=3, tokens=5, length_penalty=0.5)
    assert len({completion.tokens for completion in found}) == 3
    ranks = [c.log_probability / len(c.tokens) ** 0.5 for c in found]
    assert ranks == sorted(ranks, reverse=True)
    for completion in found:
        assert completion.log_probability == pytest.approx(sum(completion.token_log_probabilities))
        assert completion.mean_log_probability == pytest.approx(completion.log_probability / len(completion.tokens))
        assert completion.seed is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": 99}, "6 prompt tokens and 99 tokens to generate exceed the context of 48; .* overflow to 'slide'"),
        ({"tokens": 44}, "6 prompt tokens and 44 tokens to generate"),
        ({"tokens": 0}, "the number of tokens to generate must be at least 1, got 0"),
        ({"overflow": "wrap"}, "overflow must be 'error' or 'slide', got 'wrap'"),
        ({"stop": ["x", ""]}, "a stop string is empty"),
        ({"top_p": 1.5}, "top-p must be above 0 and at most 1, got 1.5"),
        ({"top_p": 0.0}, "top-p must be above 0 and at most 1, got 0.0"),
        ({"temperature": -0.5}, "the temperature must be at least 0, got -0.5"),
    ],
)
def test_invalid_options_are_reported_before_anything_is_computed(options, message) -> None:
    of = completer("characters")
    of.model.start = None
    request = {"tokens": 20, "overflow": "error", **options}
    with pytest.raises(ValueError, match=message):
        of.complete("ROMEO:", **request)
    with pytest.raises(ValueError, match=message):
        next(of.stream("ROMEO:", **request))


def test_a_prompt_longer_than_the_context_is_an_error_or_slides() -> None:
    of = COMPLETERS["characters"]
    with pytest.raises(ValueError, match="100 prompt tokens and 1 token to generate exceed the context of 48"):
        of.complete("O" * 100, tokens=1, overflow="error")
    (found,) = of.complete("RO" * 50, tokens=3, temperature=0.0, overflow="slide")
    assert list(found.tokens) == greedy(of, "RO" * 50, 3, 48)
    for look in (of.trace, of.generate):
        with pytest.raises(ValueError, match="a text of 100 tokens exceeds the context of 48; shorten it"):
            look("O" * 100)


def test_the_last_token_need_not_fit_into_the_context() -> None:
    of = COMPLETERS["characters"]
    assert not of.slides("ROMEO:", 43)
    assert of.slides("ROMEO:", 44)
    (found,) = of.complete("ROMEO:", tokens=43, temperature=0.0)
    assert list(found.tokens) == greedy(of, "ROMEO:", 43, 48)
    assert len(of.trace("O" * 48).target.tokens) == 48


def test_a_tokenizer_of_another_model_is_an_error() -> None:
    with pytest.raises(ValueError, match="the tokenizer has 280 tokens, but the model has"):
        Completer(gpt2(TOKENIZERS["characters"]), TOKENIZERS["pairs"])
    with pytest.raises(ValueError, match="the model has 2,000; use the tokenizer"):
        Completer(Parrot(2000, [0]), TOKENIZERS["characters"])


@pytest.mark.parametrize("name", TOKENIZERS)
def test_unused_embedding_rows_are_never_generated(name) -> None:
    tokenizer, whole = TOKENIZERS[name], COMPLETERS[name]
    spare = gpt2(SimpleNamespace(vocab_size=tokenizer.vocab_size + 9)).to(torch.float64)
    with torch.no_grad():
        for key, tensor in spare.state_dict().items():
            tensor[: len(whole.model.state_dict()[key])] = whole.model.state_dict()[key]
        spare.tokens.weight[tokenizer.vocab_size :] = 50 * spare.norm.bias  # by far the most probable
    options = {"tokens": 12, "seed": 3, "samples": 2}
    expected = [found.tokens for found in whole.complete("ROMEO:", **options)]
    assert [found.tokens for found in Completer(spare, tokenizer).complete("ROMEO:", **options)] == expected


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_trace_predicts_the_next_token_at_each_position(name) -> None:
    of = COMPLETERS[name]
    (read,) = of.tokenizer.encode(["ROMEO:"])
    trace = of.trace("ROMEO:")
    whole = [*read, *of.best("ROMEO:", tokens=20)[0].tokens]
    assert trace.streams["text"].tokens == tuple(whole[:-1])
    assert trace.target.tokens == tuple(whole[1:])
    assert of.trace("ROMEO:", trace.answer).target == trace.target
    given = of.trace("ROMEO:", " true")
    (true,) = of.tokenizer.encode([" true"])
    assert given.streams["text"].tokens == (*read, *true)
    assert given.target.tokens == (*read, *true, int(given.run()[0, -1].argmax()))[1:]
    words = trace.streams["text"].layout.spelled
    assert_same(of.look("ROMEO:").weights.sum(1), torch.ones(len(words), dtype=torch.float64))


def test_a_stream_has_the_ends_of_its_tokens() -> None:
    of = COMPLETERS["pairs"]
    stream = of.trace("Oé", "!").streams["text"].layout
    assert stream.text == "Oé!"
    assert stream.ends == (1, None, 2, 3)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_generate_yields_a_growing_text(name) -> None:
    of = COMPLETERS[name]
    grown = [step.text for step in of.generate("ROMEO:")]
    assert grown[-1] == of.complete("ROMEO:", tokens=20, temperature=0.0)[0].text
    assert all(longer.startswith(shorter.rstrip("\ufffd")) for shorter, longer in pairwise(grown))


@pytest.mark.parametrize("name", TOKENIZERS)
def test_the_explorer_answers_every_request(name) -> None:
    explorer = Explorer(COMPLETERS[name], name, "ROMEO:")
    request = {"inputs": {"text": "ROMEO:"}}
    model, read = explorer.answer("model", {}), explorer.answer("read", request)
    assert model["writes"]
    pieces = read["streams"]["text"]["pieces"]
    best = COMPLETERS[name].alternatives("ROMEO:", 3)
    assert [found["text"] for found in read["alternatives"]] == [found.text for found in best]
    assert tuple(read["target"]["pieces"][-len(best[0].pieces) :]) == best[0].pieces
    for look in model["looks"]:
        answer = explorer.answer("attention", {**request, "path": look["path"]})
        assert isinstance(answer, Numbers)
        assert answer.values.shape == (2, len(pieces), len(pieces))
        assert not answer.values.triu(1).any()
    for part in model["parts"]:
        for token in (0, len(pieces) - 1):
            assert explorer.answer("walk", {**request, "path": part["path"], "token": token})["steps"], part
    for verb in ("read", "heads", "what-if"):
        json.dumps(explorer.answer(verb, request), allow_nan=False)
        json.dumps(explorer.answer(verb, {**request, "target": " true"}), allow_nan=False)
    same = explorer.answer("what-if", request)
    assert same["own"]["pieces"] == same["changed"]["pieces"]
    changed = explorer.answer(
        "what-if", {**request, "other": {"text": "JULIET:"}, "change": {"heads": {"layers.0.attention": [0]}}}
    )
    assert changed["given"]["probabilities"] != changed["original"]["probabilities"]
    assert explorer.answer("heads", request)["rollouts"] == [("text", "text")]
    assert len(explorer.answer("heads", request)["early"]) == 2
    rolled = explorer.answer("rollout", {**request, "asks": "text", "answers": "text"}).values
    assert_same(rolled.sum(1), torch.ones(len(pieces), dtype=torch.float64))
    assert len(explorer.answer("positions", {"length": 9}).values) == 9
    assert explorer.answer("likeness", {"length": 9})["similarity"]
    grown = list(explorer.generate("ROMEO:"))
    assert [step["text"] for step in grown] == [step.text for step in COMPLETERS[name].generate("ROMEO:")]
    for step in grown:
        assert len(step["weights"]) == len(step["seen"]["pieces"])
        assert sum(step["weights"]) == pytest.approx(1, abs=1e-4)
    json.dumps(explorer.answer("read", {"inputs": {"text": ""}}), allow_nan=False)
