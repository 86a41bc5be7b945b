import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

import commands
import regard
from completers import TOKENIZERS, gpt2
from regard import library
from regard.cli.main import app


@pytest.fixture(scope="module", params=TOKENIZERS)
def model(request, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models") / request.param
    made = gpt2(TOKENIZERS[request.param]).float()
    library.save(folder, made.config, library.tensors(made), {"text": TOKENIZERS[request.param]}, "")
    return folder


run = partial(commands.run, "complete")


def test_a_text_is_continued(model: Path) -> None:
    expected = regard.load(str(model)).complete("ROMEO:", tokens=20, temperature=0.5, top_k=5)[0].text
    arguments = ("--model", model, "--max-tokens", 20, "--temperature", 0.5, "--top-k", 5)
    assert run(*arguments, "ROMEO:") == expected + "\n"
    assert run(*arguments, stdin="ROMEO:\n") == expected + "\n"
    assert run(*arguments, "--samples", 1, "ROMEO:") == expected + "\n"


def test_samples_are_headed_by_their_seeds(model: Path) -> None:
    found = regard.load(str(model)).complete("ROMEO:", samples=3, tokens=9, seed=5, min_p=0.01, repetition_penalty=1.2)
    shared = ("--model", model, "ROMEO:", "--max-tokens", 9, "--min-p", 0.01, "--repetition-penalty", 1.2)
    shown = run(*shared, "--samples", 3, "--seed", 5)
    assert shown == "".join(f"--- seed {5 + i}\n{completion.text}\n" for i, completion in enumerate(found))
    assert run(*shared, "--seed", 6) == found[1].text + "\n"


def test_several_texts_are_continued_as_each_alone(model: Path, tmp_path: Path) -> None:
    shared = ("--model", model, "--max-tokens", 9)
    for options in ((), ("--samples", 2), ("--beam", 2, "--n-best", 2)):
        romeo, nurse = (run(*shared, *options, prompt) for prompt in ("ROMEO:", "NURSE:\nAnon"))
        assert run(*shared, *options, "ROMEO:", "NURSE:\nAnon") == f"=== ROMEO:\n{romeo}=== NURSE: Anon\n{nurse}"
    lines = [json.loads(line) for line in run(*shared, "--json", "ROMEO:", "NURSE:").splitlines()]
    assert [line["prompt"] for line in lines] == ["ROMEO:", "NURSE:"]
    (tmp_path / "prompt").write_text("ROMEO:\nBut\n")
    assert run(*shared, "--file", tmp_path / "prompt") == run(*shared, "ROMEO:\nBut")


def test_json_has_the_probability_of_each_token(model: Path) -> None:
    shared = ("--model", model, "ROMEO:", "--max-tokens", 9, "--json")
    lines = [json.loads(line) for line in run(*shared, "--samples", 2, "--top-p", 0.9).splitlines()]
    for line, completion in zip(
        lines, regard.load(str(model)).complete("ROMEO:", samples=2, tokens=9, top_p=0.9), strict=True
    ):
        assert line["prompt"] == "ROMEO:"
        assert (line["text"], line["seed"], line["finish_reason"]) == (
            completion.text,
            completion.seed,
            completion.finish_reason,
        )
        assert [token["token"] for token in line["tokens"]] == list(completion.tokens)
        assert [token["piece"] for token in line["tokens"]] == list(completion.pieces)
        assert line["log_probability"] == pytest.approx(completion.log_probability, abs=1e-4)
        assert line["mean_log_probability"] == pytest.approx(completion.mean_log_probability, abs=1e-5)
        assert [token["log_probability"] for token in line["tokens"]] == pytest.approx(
            completion.token_log_probabilities, abs=1e-5
        )
    best = [json.loads(line) for line in run(*shared, "--beam", 3, "--n-best", 2).splitlines()]
    expected = regard.load(str(model)).best("ROMEO:", tokens=9, beam=3, n_best=2)
    assert [line["text"] for line in best] == [completion.text for completion in expected]
    assert best[0]["seed"] is None


def test_escapes_in_stop_strings_are_decoded(model: Path) -> None:
    shared = ("--model", model, "ROMEO:", "--max-tokens", 40, "--temperature", 3, "--json")
    for stop, meant in ((r"\n", "\n"), ("\n", "\n"), ("e", "e")):
        texts = [json.loads(line) for line in run(*shared, "--samples", 20, "--stop", stop).splitlines()]
        assert not any(meant in text["text"] for text in texts)
        assert any(text["finish_reason"] == "stop" for text in texts)


def test_a_text_that_is_too_long_is_an_error_or_slides(model: Path) -> None:
    with pytest.raises(ValueError, match="200 tokens to generate exceed the context of 48; .*'slide'"):
        run("--model", model, "ROMEO:", "--overflow", "error")
    slid = CliRunner().invoke(app, ["complete", "--model", str(model), "ROMEO:"])
    assert "the context holds 48 tokens" in slid.stderr
    fits = CliRunner().invoke(app, ["complete", "--model", str(model), "ROMEO:", "--max-tokens", "20"])
    assert (slid.exit_code, fits.exit_code, fits.stderr) == (0, 0, "")
    assert run("--model", model, "", "--max-tokens", 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--top-p", 0], "top-p must be above 0 and at most 1, got 0.0"),
        (["--top-p", 1.5], "top-p must be above 0 and at most 1, got 1.5"),
        (["--temperature", -1], "the temperature must be at least 0, got -1.0"),
        (["--stop", ""], "a stop string is empty"),
        (["--n-best", 2], "--n-best needs --beam; add --beam or remove this option"),
        (["--beam", 2, "--top-k", 4], "--top-k applies only to sampling; remove it or --beam"),
    ],
)
def test_wrong_options_are_reported(model: Path, arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        run("--model", model, "ROMEO:", "--max-tokens", 5, *arguments)


def test_a_language_model_makes_no_vectors(model: Path) -> None:
    with pytest.raises(ValueError, match="is a model for completion, not for `regard embed`; try `regard complete`"):
        commands.run("embed", "--model", model, "ROMEO:")


def test_other_models_do_not_continue_texts() -> None:
    message = "en-es is a model for translation, not for `regard complete`; try `regard translate`"
    with pytest.raises(ValueError, match=message):
        run("--model", "en-es", "ROMEO:")


def test_attention_is_shown(model: Path) -> None:
    result = CliRunner().invoke(app, ["look", "--model", str(model), "ROMEO: soft", "--tokens"])
    assert result.exit_code == 0, result.output
    trace = regard.load(str(model)).trace("ROMEO: soft")
    assert "soft" in "".join(trace.streams["text"].pieces)
    assert len(result.stdout.splitlines()) > 3
