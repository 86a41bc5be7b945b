"""Folders from strangers are opened or refused in words: none hangs, takes all memory or shows a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hostile

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, str]:
    """The outcome of every case, by its name, in the order in which they ran."""
    place = tmp_path_factory.mktemp("hostile")
    path = os.pathsep.join([str(Path(hostile.__file__).parent), *sys.path])
    run = subprocess.run(
        [sys.executable, hostile.__file__, place],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    found = [json.loads(line) for line in run.stdout.splitlines()]
    result = {each["name"]: each["outcome"] for each in found}
    assert not run.returncode, f"ended after {list(result)[-1:]}: {run.returncode}, {run.stderr[-2000:]}"
    return result


def test_a_changed_folder_works_or_is_refused_in_words(outcomes) -> None:
    assert len(outcomes) == len(
        {case.name for case in hostile.CASES if case.base != "ct2" or "ct2: its config" in outcomes}
    )
    fine = ("works", "RegardError: ", "ConfigError: ")
    assert {name: found for name, found in outcomes.items() if not found.startswith(fine)} == {}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("translator: width = 1000000000", "width = 1000000000: must be at most 1000000"),
        ("translator: encoder_layers = 1000", "1,001 layers in the config, but only"),
        ("classifier: layers = 1000000000", "layers = 1000000000: must be at most 1000"),
        ("classifier: long words", "splits words longer than 1000"),
        ("classifier: very large weights", "the output of the model is NaN or infinite"),
        ("completer: very large weights", "the output of the model is NaN or infinite"),
        ("classifier: weights of NaN", "contains NaN or infinity"),
        ("classifier: weights of float64 beyond float32", "contains NaN or infinity"),
        ("completer: weights of int8", "is torch.int8, but the model computes with torch.float32"),
        ("completer: nested config", "config.json: damaged, nested too deeply"),
        ("translator: a normalizer that multiplies", "normalizer Replace has pattern"),
        ("translator: a normalizer that prepends", "normalizer Prepend has prepend"),
        ("translator: a long token", "a token has 200,000 characters"),
        ("translator: fewer embeddings", "model.vocab_size is 10, but the source tokenizer has 300"),
        ("translator: codecs = []", "codecs"),
        ("marian: vocab_size = 1000000000", "a vocabulary of 1,000,000,000 tokens"),
        ("marian: d_model = 1000000000", "width = 1000000000"),
        ("marian: vocab.json: a long piece", "a token has 200,000 characters"),
        ("marian: source.spm: a charsmap that multiplies", "replaces a character by 200,000 bytes"),
        ("marian: eos_token_id = 'x'", "eos_token_id = 'x'; its type must be int"),
        ("marian: weights of NaN", "contains NaN or infinity"),
        ("bert: a billion labels", "num_labels = 1000000000"),
        ("bert: model_type = [1]", "model_type = [1]; its type must be str"),
    ],
)
def test_the_reason_of_a_refusal_is_named(name, message, outcomes) -> None:
    assert message in outcomes[name]
