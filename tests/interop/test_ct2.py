"""Models in CTranslate2, compared with the same models in torch."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from completers import TOKENIZERS, gpt2
from helpers import assert_same, random_model
from regard import library
from regard.codecs.subword import SubwordTokenizer
from regard.models.gpt2 import Gpt2Config
from regard.models.heads import ClassificationHead, NoHead
from regard.models.rnn_seq2seq import RnnSeq2SeqConfig
from regard.models.transformer import TransformerConfig
from texts import TEXTS, TOKENIZER, bert

ctranslate2 = pytest.importorskip("ctranslate2")

SENTENCES = ["the child eats bread", "we", "stones and bread and children", "", "El niño come pan."]
JOINT = SubwordTokenizer.train("bpe", 280, SENTENCES)
OWN = SubwordTokenizer.train("bpe", 270, SENTENCES[:1])
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "post": {"norm_placement": "post", "activation": "gelu"},
    "learned": {"positions": "learned", "context": 40, "tied": False},
    "rotary": {"positions": "rotary", "activation": "swish", "output_bias": True},
    "fourier": {"positions": "fourier", "context": 60, "activation": "gelu_tanh"},
    "split": {"positions": "sinusoidal_split", "norm_placement": "post", "output_bias": True, "tied": False},
    "nowhere": {"positions": "none", "source_vocab_size": OWN.vocab_size},
    "spare rows": {"vocab_size": JOINT.vocab_size + 5},
}
# float32 has 24 bits; sums over some dozen terms in another order lose about eight in a few layers
TOLERANCE = 2e-5


def save(folder: Path, model: Any, *tokenizers: Any) -> str:
    model = model.float()
    roles = ("text",) if len(tokenizers) == 1 else ("source", "target")
    codecs = dict(zip(roles, tokenizers, strict=True))
    library.save(folder, model.config, library.tensors(model), codecs, "")
    return str(folder)


def transformer(folder: Path, **changes: Any) -> str:
    torch.manual_seed(1)
    shape = {"vocab_size": JOINT.vocab_size, "width": 16, "heads": 2, "ff_width": 24, "encoder_layers": 2}
    model = random_model(TransformerConfig(**{**shape, "decoder_layers": 1, **changes}).build())
    return save(folder, model, OWN if "source_vocab_size" in changes else JOINT, JOINT)


@pytest.fixture
def pair(tmp_path: Path) -> Any:
    """The same translator in torch and, in float32, in CTranslate2."""
    name = transformer(tmp_path / "mine", positions="learned", context=60)
    library.convert(name, f"ct2:{tmp_path / 'fast'}")
    return regard.load(name), regard.load(f"ct2:{tmp_path / 'fast'}")


@pytest.mark.parametrize("shape", SHAPES)
def test_greedy_translations_and_scores_equal_torch(tmp_path: Path, shape) -> None:
    name = transformer(tmp_path / "mine", **SHAPES[shape])
    found = library.convert(name, f"ct2:{tmp_path / 'fast'}")
    assert found.startswith("same tokens, log-probabilities per token differ by up to ")
    mine, fast = regard.load(name), regard.load(f"ct2:{tmp_path / 'fast'}")
    for (ours,), (theirs,) in zip(*(t.translate(SENTENCES, beam=1) for t in (mine, fast)), strict=True):
        assert (theirs.tokens, theirs.words, theirs.truncated) == (ours.tokens, ours.words, ours.truncated)
        assert_same(torch.tensor(theirs.word_log_probabilities), torch.tensor(ours.word_log_probabilities), TOLERANCE)
        assert theirs.mean_log_probability == pytest.approx(ours.mean_log_probability, abs=TOLERANCE)


def test_a_prefix_is_kept_and_included_in_the_score(pair) -> None:
    prefixes = ["el niño", "", "x", "", "bread"]
    for ours, theirs in zip(*(t.translate(SENTENCES, beam=1, prefixes=prefixes) for t in pair), strict=True):
        assert theirs[0].tokens == ours[0].tokens
        assert theirs[0].mean_log_probability == pytest.approx(ours[0].mean_log_probability, abs=TOLERANCE)
        assert theirs[0].text.startswith(prefixes.pop(0))


def test_long_texts_are_truncated_as_in_torch(pair) -> None:
    texts = ["x" * 100, "we"]
    (ours, _), (theirs, short) = (t.translate(texts, beam=1, prefixes=["y" * 50, ""]) for t in pair)
    assert theirs[0].tokens == ours[0].tokens
    assert theirs[0].truncated
    assert short[0].tokens == pair[0].translate(["we"], beam=1)[0][0].tokens


def test_output_is_truncated_at_the_context_of_the_position_table(tmp_path: Path) -> None:
    name = transformer(tmp_path / "mine", context=30)
    library.convert(name, f"ct2:{tmp_path / 'fast'}")
    (found,) = regard.load(f"ct2:{tmp_path / 'fast'}").translate(["x" * 100, "we"][:1])
    assert found[0].truncated


def test_scores_of_given_translations_equal_torch(pair) -> None:
    mine, fast = pair
    sources, targets = ["the child", "we", "", "we"], ["el niño", "", "pan", "bread " * 5]
    assert fast.score(sources, targets) == pytest.approx(mine.score(sources, targets), rel=1e-5)


def test_word_scores_are_computed_only_on_request(pair, monkeypatch) -> None:
    _, fast = pair
    expected = fast.translate(SENTENCES, beam=1)
    monkeypatch.setattr(fast, "token_scores", None)
    found = fast.translate(SENTENCES, beam=1, scores=False)
    assert [each.text for (each,) in found] == [each.text for (each,) in expected]
    assert {each.word_log_probabilities for (each,) in found} == {()}


def test_unsupported_operations_raise_an_error(pair) -> None:
    _, fast = pair
    with pytest.raises(ValueError, match="one seed for all texts"):
        fast.sample(["we"])
    for look in (lambda: fast.align(["we"], ["pan"]), lambda: fast.generate("we"), lambda: fast.trace("we")):
        with pytest.raises(ValueError, match="is an export and cannot be inspected; use the model that was exported"):
            look()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"norm": "batch"}, "does not support norm = 'batch'"),
        ({"position_merge": "concatenate", "tied": False}, "does not support position_merge = 'concatenate'"),
    ],
)
def test_unsupported_configs_are_refused_and_write_no_files(tmp_path: Path, changes, reason) -> None:
    name = transformer(tmp_path / "mine", **changes)
    with pytest.raises(ValueError, match=reason):
        library.convert(name, f"ct2:{tmp_path / 'fast'}")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_unsupported_model_kinds_are_refused(tmp_path: Path) -> None:
    name = save(tmp_path / "mine", RnnSeq2SeqConfig(vocab_size=JOINT.vocab_size, width=8).build(), JOINT, JOINT)
    with pytest.raises(
        ValueError, match="does not support models of kind 'rnn_seq2seq'; supported: transformer, gpt2, bert"
    ):
        library.convert(name, f"ct2:{tmp_path / 'fast'}")


@pytest.mark.parametrize("quantize", [None, "int8"])
@pytest.mark.parametrize("kind", ["transformer", "gpt2", "bert"])
def test_an_export_with_different_outputs_is_refused_and_writes_no_files(
    tmp_path: Path, monkeypatch, kind, quantize
) -> None:
    from regard.interop import ct2

    makers = {
        "transformer": lambda: transformer(tmp_path / "mine"),
        "gpt2": lambda: save(tmp_path / "mine", gpt2(TOKENIZERS["pairs"]), TOKENIZERS["pairs"]),
        "bert": lambda: save(tmp_path / "mine", bert(NoHead()), TOKENIZER),
    }
    name = makers[kind]()
    monkeypatch.setattr(ct2, "_norm", lambda spec, norm: skip_norm_weights(spec, norm))
    with pytest.raises(ValueError, match="the export is refused"):
        library.convert(name, f"ct2:{tmp_path / 'fast'}", quantize=quantize)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def skip_norm_weights(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = torch.ones_like(norm.weight), torch.zeros_like(norm.bias)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("spare", [0, 9])
def test_a_language_model_generates_the_same_tokens_as_torch(tmp_path: Path, tokenizer, spare) -> None:
    of = TOKENIZERS[tokenizer]
    shape = {"width": 8, "heads": 2, "ff_width": 12, "layers": 2, "context": 48}
    model = random_model(Gpt2Config(vocab_size=of.vocab_size + spare, **shape).build())
    name = save(tmp_path / "mine", model, of)
    library.convert(name, f"ct2:{tmp_path / 'fast'}")
    engine = ctranslate2.Generator(str(tmp_path / "fast"))
    (prompt,) = of.encode(["Romeo"])
    names = [of.names(of.vocab_size)[token] for token in prompt]
    (found,) = engine.generate_batch([names], max_length=12, include_prompt_in_result=False)
    (best,) = regard.load(name).best("Romeo", beam=1, tokens=12)
    assert tuple(found.sequences_ids[0]) == tuple(token for token in best.tokens if token != of.end)
    with pytest.raises(
        ValueError, match=r"completes texts with torch only; open this folder with ctranslate2\.Generator"
    ):
        regard.load(f"ct2:{tmp_path / 'fast'}")


@pytest.mark.parametrize("head", [NoHead(), NoHead(pooled=False), ClassificationHead(labels=("bad", "good"))])
def test_embeddings_equal_torch_with_any_head(tmp_path: Path, head) -> None:
    name = save(tmp_path / "mine", bert(head), TOKENIZER)
    assert library.convert(name, f"ct2:{tmp_path / 'fast'}").startswith("cosine at least 1.0000")
    mine, fast = regard.load(name), regard.load(f"ct2:{tmp_path / 'fast'}")
    for pool in ("mean", "cls", "max"):
        expected = mine.embed([*TEXTS, "", TEXTS[0] * 9], pool=pool, normalise=True, batch_tokens=60)
        assert_same(fast.embed([*TEXTS, "", TEXTS[0] * 9], pool=pool, normalise=True, batch_tokens=60), expected)
    assert fast.model.config.head == NoHead(pooled=head.pooled)
    with pytest.raises(ValueError, match=r"only the last layer, 2, but layers \[1, 2\] were requested"):
        fast.embed(TEXTS, layers=[1, 2])
    with pytest.raises(ValueError, match="is an export and cannot be inspected"):
        fast.trace("bread")


def test_int8_quantization_quarters_the_size_and_keeps_embeddings_similar(tmp_path: Path) -> None:
    name = save(tmp_path / "mine", bert(NoHead(), width=128, ff_width=256, layers=1), TOKENIZER)
    before = regard.load(name).embed(TEXTS)
    for quantize in (None, "int8"):
        assert "cosine" in library.convert(name, f"ct2:{tmp_path / str(quantize)}", quantize=quantize)
    sizes = [(tmp_path / str(quantize) / "model.bin").stat().st_size for quantize in (None, "int8")]
    assert sizes[1] < 0.3 * sizes[0]
    found = regard.load(f"ct2:{tmp_path / 'int8'}").embed(TEXTS)
    assert torch.nn.functional.cosine_similarity(before, found).min() > 0.99
    assert not torch.equal(before, found)


def test_the_converted_model_is_cached_until_the_model_changes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    torch.manual_seed(1)
    config = TransformerConfig(vocab_size=JOINT.vocab_size, width=16, heads=2, encoder_layers=1, decoder_layers=1)
    name = save(tmp_path / "mine", config.build(), JOINT, JOINT)
    fast = library.load_fast(name)
    (first,) = (tmp_path / "cache" / "ct2").iterdir()
    assert library.load_fast(f"ct2:{first}").translate(["we"]) == fast.translate(["we"])
    assert fast.align(["we eat"], ["pan"]) == regard.load(name).align(["we eat"], ["pan"])
    with monkeypatch.context() as patch:
        patch.setattr(library, "convert", None)
        assert library.load_fast(name).translate(["we"]) == fast.translate(["we"])
    save(tmp_path / "mine", config.build(), JOINT, JOINT)
    library.load_fast(name)
    assert len(list((tmp_path / "cache" / "ct2").iterdir())) == 2


def test_damaged_files_and_folders_of_another_format_are_reported(tmp_path: Path) -> None:
    name = transformer(tmp_path / "mine")
    with pytest.raises(ValueError, match="mine is not a CTranslate2 export; to create one: regard convert MODEL"):
        regard.load(f"ct2:{name}")
    library.convert(name, f"ct2:{tmp_path / 'fast'}")
    with pytest.raises(ValueError, match="fast is an export for another engine; open a CTranslate2 export as ct2:"):
        regard.load(str(tmp_path / "fast"))
    (tmp_path / "fast" / "model.bin").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"model\.bin: damaged"):
        regard.load(f"ct2:{tmp_path / 'fast'}")


def test_invalid_export_options_are_reported(tmp_path: Path) -> None:
    name = transformer(tmp_path / "mine")
    with pytest.raises(ValueError, match="plain cannot be quantized: only CTranslate2 exports can; use ct2:plain"):
        library.convert(name, "plain", quantize="int8")
    with pytest.raises(ValueError, match="exports for other engines cannot be in half precision"):
        library.convert(name, "ct2:plain", half=True)


def test_a_missing_package_is_reported_with_its_extra(tmp_path: Path, monkeypatch) -> None:
    library.convert(transformer(tmp_path / "mine"), f"ct2:{tmp_path / 'fast'}")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    monkeypatch.delitem(sys.modules, "regard.interop.ct2_inference")
    with pytest.raises(
        ValueError, match=r"ctranslate2 is required but not installed; run: pip install 'regard\[export\]'"
    ):
        regard.load(f"ct2:{tmp_path / 'fast'}")


def test_ctranslate2_opens_the_export_without_regard(tmp_path: Path, pair) -> None:
    mine, _ = pair
    pieces = mine.source.engine.encode("the child", add_special_tokens=False).tokens
    (found,) = ctranslate2.Translator(str(tmp_path / "fast")).translate_batch(
        [pieces], beam_size=1, max_decoding_length=20
    )
    text = mine.target.decode([[mine.target.engine.token_to_id(piece) for piece in found.hypotheses[0]]])[0]
    assert mine.translate(["the child"], beam=1)[0][0].text.startswith(text)
    assert text
    assert json.loads((tmp_path / "fast" / "config.json").read_text())["add_source_eos"]
