"""`--engine ct2` beside `--engine torch`: the same flags, the same format; and `convert` to other engines."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from commands import run
from regard import library
from regard.models.bert import BertConfig
from regard.models.heads import ClassificationHead
from texts import TEXTS, TOKENIZER

pytest.importorskip("ctranslate2")
SENTENCES = ["We are eating bread.", "where is the station", "", "The red house is big. The child is sleeping."]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "bert"
    torch.manual_seed(1)
    head = ClassificationHead(labels=("bad", "good"))
    # untrained weights, which 8-bit quantization changes little
    fresh = BertConfig(vocab_size=TOKENIZER.vocab_size, width=64, heads=2, ff_width=128, layers=1, head=head).build()
    library.save(folder, fresh.config, library.tensors(fresh), {"text": TOKENIZER}, "")
    return folder


@pytest.mark.parametrize("flags", [[], ["--beam", 1], ["--align"], ["--length-penalty", 0.6]])
def test_the_bundled_model_translates_the_same_with_both_engines(flags) -> None:
    one, other = (run("translate", *flags, "--engine", engine, *SENTENCES) for engine in ("torch", "ct2"))
    assert one == other
    assert len(one.splitlines()) == len(SENTENCES)


def test_translations_start_with_the_prefix() -> None:
    out = run("translate", "--engine", "ct2", "--prefix", "Una casa", "A red house. The child is sleeping.")
    assert out == "Una casa roja. El niño está durmiendo.\n"
    assert out == run("translate", "--prefix", "Una casa", "A red house. The child is sleeping.")


def test_json_has_the_same_keys_and_similar_scores() -> None:
    flags = ["--json", "--n-best", 2, "--align", *SENTENCES]
    for lines in zip(*(run("translate", "--engine", e, *flags).splitlines() for e in ("torch", "ct2")), strict=True):
        one, other = (json.loads(line) for line in lines)
        assert one.keys() == other.keys()
        for mine, fast in zip(one["sentences"], other["sentences"], strict=True):
            assert [each.keys() for each in mine["translations"]] == [each.keys() for each in fast["translations"]]
            best, found = mine["translations"][0], fast["translations"][0]
            assert found["text"] == best["text"]
            assert found["mean_log_probability"] == pytest.approx(best["mean_log_probability"], abs=0.05)  # 8 bits
            assert [word["text"] for word in found["words"]] == [word["text"] for word in best["words"]]
            assert [word.keys() for word in found["words"]] == [word.keys() for word in best["words"]]


def test_the_engines_scores_equal_the_sums_over_tokens() -> None:
    fast = library.load_fast("en-es")
    for length_penalty in (0.0, 1.0, 2.0):
        found = [
            fast.translate(SENTENCES[:2], beam=4, n_best=3, length_penalty=length_penalty, scores=scores)
            for scores in (True, False)
        ]
        for plain, quick in zip(*found, strict=True):
            assert [each.tokens for each in plain] == [each.tokens for each in quick]
            # in 8 bits, results depend slightly on the other tokens of the batch
            logs = [[each.log_probability for each in some] for some in (plain, quick)]
            assert logs[0] == pytest.approx(logs[1], rel=0.1)


def test_vectors_have_the_same_format_and_direction_with_both_engines(model: Path, tmp_path: Path) -> None:
    for engine in ("torch", "ct2"):
        out = run("embed", "-m", model, "-o", tmp_path / f"{engine}.npy", "--engine", engine, stdin="\n".join(TEXTS))
        assert out == f"{tmp_path / engine}.npy: {len(TEXTS)} vectors of width 64\n"
    one, other = (np.load(tmp_path / f"{engine}.npy") for engine in ("torch", "ct2"))
    assert one.dtype == other.dtype
    cosines = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
    assert cosines.min() >= 0.99
    with pytest.raises(ValueError, match="CTranslate2 returns only the last layer"):
        run("embed", "-m", model, "--layers", "0", "--engine", "ct2", stdin="bread\n")


def test_convert_reports_the_result_of_its_check(model: Path, tmp_path: Path) -> None:
    out = run("convert", model, f"ct2:{tmp_path / 'fast'}", "--quantize", "int8")
    assert out.startswith(f"ct2:{tmp_path / 'fast'}: converted from {model}; checked: cosine at least 0.99")
    vectors = run("embed", "-m", f"ct2:{tmp_path / 'fast'}", stdin="bread\n")
    assert vectors == run("embed", "-m", model, "--engine", "ct2", stdin="bread\n")
    with pytest.raises(ValueError, match="is a model for embedding, not for `regard classify`; try `regard embed`"):
        run("classify", "-m", f"ct2:{tmp_path / 'fast'}", "bread")


def test_a_model_of_another_task_is_reported(model: Path) -> None:
    message = "is a model for classification, not for `regard translate`; try `regard classify`"
    with pytest.raises(ValueError, match=message):
        run("translate", "-m", model, "--engine", "ct2", "bread")
