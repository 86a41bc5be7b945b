"""Models that CTranslate2 runs, beside the same models run by torch."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from completers import TOKENIZERS, gpt2
from helpers import assert_same, lively
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
# float32 has 24 bits, of which a few layers of sums over some dozen terms, in another order, lose about eight
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
    model = lively(TransformerConfig(**{**shape, "decoder_layers": 1, **changes}).build())
    return save(folder, model, OWN if "source_vocab_size" in changes else JOINT, JOINT)


@pytest.fixture
def pair(tmp_path: Path) -> Any:
    """Our translator, and one that CTranslate2 runs in float32."""
    name = transformer(tmp_path / "mine", positions="learned", context=60)
    library.convert(name, f"ct2:{tmp_path / 'fast'}")
    return regard.load(name), regard.load(f"ct2:{tmp_path / 'fast'}")


@pytest.mark.parametrize("shape", SHAPES)
def test_it_writes_what_our_own_greedy_search_writes(tmp_path: Path, shape) -> None:
    name = transformer(tmp_path / "mine", **SHAPES[shape])
    found = library.convert(name, f"ct2:{tmp_path / 'fast'}")
    assert found.startswith("same tokens, log-probability a token off by ")
    mine, fast = regard.load(name), regard.load(f"ct2:{tmp_path / 'fast'}")
    for (ours,), (theirs,) in zip(*(t.translate(SENTENCES, beam=1) for t in (mine, fast)), strict=True):
        assert (theirs.tokens, theirs.words, theirs.truncated) == (ours.tokens, ours.words, ours.truncated)
        assert_same(torch.tensor(theirs.word_scores), torch.tensor(ours.word_scores), TOLERANCE)
        assert theirs.score == pytest.approx(ours.score, abs=TOLERANCE)


def test_a_beginning_that_is_given_is_kept_and_counted(pair) -> None:
    prefixes = ["el niño", "", "x", "", "bread"]
    for ours, theirs in zip(*(t.translate(SENTENCES, beam=1, prefixes=prefixes) for t in pair), strict=True):
        assert theirs[0].tokens == ours[0].tokens
        assert theirs[0].score == pytest.approx(ours[0].score, abs=TOLERANCE)
        assert theirs[0].text.startswith(prefixes.pop(0))


def test_what_is_too_long_is_cut_where_torch_cuts_it(pair) -> None:
    texts = ["x" * 100, "we"]
    (ours, _), (theirs, short) = (t.translate(texts, beam=1, prefixes=["y" * 50, ""]) for t in pair)
    assert theirs[0].tokens == ours[0].tokens
    assert theirs[0].truncated
    assert short[0].tokens == pair[0].translate(["we"], beam=1)[0][0].tokens


def test_a_table_of_positions_ends_where_sinusoids_do_not(tmp_path: Path) -> None:
    name = transformer(tmp_path / "mine", context=30)
    library.convert(name, f"ct2:{tmp_path / 'fast'}")
    (found,) = regard.load(f"ct2:{tmp_path / 'fast'}").translate(["x" * 100, "we"][:1])
    assert found[0].truncated


def test_given_translations_have_the_scores_that_torch_gives_them(pair) -> None:
    mine, fast = pair
    sources, targets = ["the child", "we", "", "we"], ["el niño", "", "pan", "bread " * 5]
    assert fast.score(sources, targets) == pytest.approx(mine.score(sources, targets), rel=1e-5)


def test_scores_of_words_are_not_computed_unless_they_are_asked_for(pair, monkeypatch) -> None:
    _, fast = pair
    expected = fast.translate(SENTENCES, beam=1)
    monkeypatch.setattr(fast, "token_scores", None)
    found = fast.translate(SENTENCES, beam=1, scores=False)
    assert [each.text for (each,) in found] == [each.text for (each,) in expected]
    assert {each.word_scores for (each,) in found} == {()}


def test_what_it_cannot_do_is_refused_with_a_reason(pair) -> None:
    _, fast = pair
    with pytest.raises(ValueError, match="one seed for all texts"):
        fast.sample(["we"])
    for look in (lambda: fast.align(["we"], ["pan"]), lambda: fast.generate("we"), lambda: fast.trace("we")):
        with pytest.raises(ValueError, match="can be used, but not looked into; ask the model that it was made from"):
            look()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"norm": "batch"}, "has no norm = 'batch'"),
        ({"position_merge": "concatenate", "tied": False}, "has no position_merge = 'concatenate'"),
    ],
)
def test_what_cannot_be_expressed_is_refused_and_nothing_is_written(tmp_path: Path, changes, reason) -> None:
    name = transformer(tmp_path / "mine", **changes)
    with pytest.raises(ValueError, match=reason):
        library.convert(name, f"ct2:{tmp_path / 'fast'}")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_kinds_that_it_does_not_know_are_refused(tmp_path: Path) -> None:
    name = save(tmp_path / "mine", RnnSeq2SeqConfig(vocab_size=JOINT.vocab_size, width=8).build(), JOINT, JOINT)
    with pytest.raises(
        ValueError, match="does not know models of kind 'rnn_seq2seq'; those of transformer, gpt2, bert"
    ):
        library.convert(name, f"ct2:{tmp_path / 'fast'}")


@pytest.mark.parametrize("quantize", [None, "int8"])
@pytest.mark.parametrize("kind", ["transformer", "gpt2", "bert"])
def test_an_export_that_differs_is_refused_and_nothing_is_written(tmp_path: Path, monkeypatch, kind, quantize) -> None:
    from regard.interop import ct2

    makers = {
        "transformer": lambda: transformer(tmp_path / "mine"),
        "gpt2": lambda: save(tmp_path / "mine", gpt2(TOKENIZERS["pairs"]), TOKENIZERS["pairs"]),
        "bert": lambda: save(tmp_path / "mine", bert(NoHead()), TOKENIZER),
    }
    name = makers[kind]()
    monkeypatch.setattr(ct2, "_norm", lambda spec, norm: norm_forgotten(spec, norm))
    with pytest.raises(ValueError, match="the export is refused"):
        library.convert(name, f"ct2:{tmp_path / 'fast'}", quantize=quantize)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def norm_forgotten(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = torch.ones_like(norm.weight), torch.zeros_like(norm.bias)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("spare", [0, 9])
def test_a_language_model_goes_on_with_the_same_tokens(tmp_path: Path, tokenizer, spare) -> None:
    of = TOKENIZERS[tokenizer]
    shape = {"width": 8, "heads": 2, "ff_width": 12, "layers": 2, "context": 48}
    model = lively(Gpt2Config(vocab_size=of.vocab_size + spare, **shape).build())
    name = save(tmp_path / "mine", model, of)
    library.convert(name, f"ct2:{tmp_path / 'fast'}")
    engine = ctranslate2.Generator(str(tmp_path / "fast"))
    (prompt,) = of.encode(["Romeo"])
    names = [of.names(of.vocab_size)[token] for token in prompt]
    (found,) = engine.generate_batch([names], max_length=12, include_prompt_in_result=False)
    (best,) = regard.load(name).best("Romeo", beam=1, tokens=12)
    assert tuple(found.sequences_ids[0]) == tuple(token for token in best.tokens if token != of.end)
    with pytest.raises(ValueError, match=r"completed by torch here; ctranslate2\.Generator opens this folder"):
        regard.load(f"ct2:{tmp_path / 'fast'}")


@pytest.mark.parametrize("head", [NoHead(), NoHead(pooled=False), ClassificationHead(labels=("bad", "good"))])
def test_vectors_are_those_of_torch_whatever_the_head(tmp_path: Path, head) -> None:
    name = save(tmp_path / "mine", bert(head), TOKENIZER)
    assert library.convert(name, f"ct2:{tmp_path / 'fast'}").startswith("cosine at least 1.0000")
    mine, fast = regard.load(name), regard.load(f"ct2:{tmp_path / 'fast'}")
    for pool in ("mean", "cls", "max"):
        expected = mine.embed([*TEXTS, "", TEXTS[0] * 9], pool=pool, normalise=True, batch_tokens=60)
        assert_same(fast.embed([*TEXTS, "", TEXTS[0] * 9], pool=pool, normalise=True, batch_tokens=60), expected)
    assert fast.model.config.head == NoHead(pooled=head.pooled)
    with pytest.raises(ValueError, match=r"the last layer, 2, only; got \[1, 2\]"):
        fast.embed(TEXTS, layers=[1, 2])
    with pytest.raises(ValueError, match="not looked into"):
        fast.trace("bread")


def test_eight_bits_take_a_quarter_and_leave_our_model_as_it_is(tmp_path: Path) -> None:
    name = save(tmp_path / "mine", bert(NoHead(), width=128, ff_width=256, layers=1), TOKENIZER)
    before = regard.load(name).embed(TEXTS)
    for quantize in (None, "int8"):
        assert "cosine" in library.convert(name, f"ct2:{tmp_path / str(quantize)}", quantize=quantize)
    sizes = [(tmp_path / str(quantize) / "model.bin").stat().st_size for quantize in (None, "int8")]
    assert sizes[1] < 0.3 * sizes[0]
    found = regard.load(f"ct2:{tmp_path / 'int8'}").embed(TEXTS)
    assert torch.nn.functional.cosine_similarity(before, found).min() > 0.99
    assert not torch.equal(before, found)


def test_an_engine_converts_a_model_once_and_again_when_it_has_changed(tmp_path: Path, monkeypatch) -> None:
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


def test_damage_and_what_is_no_export_are_named(tmp_path: Path) -> None:
    name = transformer(tmp_path / "mine")
    with pytest.raises(ValueError, match="mine is no export for CTranslate2; make one: regard convert MODEL"):
        regard.load(f"ct2:{name}")
    library.convert(name, f"ct2:{tmp_path / 'fast'}")
    with pytest.raises(ValueError, match="fast is an export; where CTranslate2 is to run it, it is ct2:"):
        regard.load(str(tmp_path / "fast"))
    (tmp_path / "fast" / "model.bin").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"model\.bin: damaged"):
        regard.load(f"ct2:{tmp_path / 'fast'}")


def test_an_export_says_what_it_can_be_written_as(tmp_path: Path) -> None:
    name = transformer(tmp_path / "mine")
    with pytest.raises(ValueError, match="only exports for CTranslate2 are quantized, and plain is none"):
        library.convert(name, "plain", quantize="int8")
    with pytest.raises(ValueError, match="an export is not written in half precision"):
        library.convert(name, "ct2:plain", half=True)


def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path: Path, monkeypatch) -> None:
    library.convert(transformer(tmp_path / "mine"), f"ct2:{tmp_path / 'fast'}")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    monkeypatch.delitem(sys.modules, "regard.interop.ct2_inference")
    with pytest.raises(ValueError, match=r"ctranslate2 is not installed, .* pip install 'regard\[export\]'"):
        regard.load(f"ct2:{tmp_path / 'fast'}")


def test_the_folder_is_one_that_ctranslate2_opens_by_itself(tmp_path: Path, pair) -> None:
    mine, _ = pair
    pieces = mine.source.engine.encode("the child", add_special_tokens=False).tokens
    (found,) = ctranslate2.Translator(str(tmp_path / "fast")).translate_batch(
        [pieces], beam_size=1, max_decoding_length=20
    )
    text = mine.target.decode([[mine.target.engine.token_to_id(piece) for piece in found.hypotheses[0]]])[0]
    assert mine.translate(["the child"], beam=1)[0][0].text.startswith(text)
    assert text
    assert json.loads((tmp_path / "fast" / "config.json").read_text())["add_source_eos"]
