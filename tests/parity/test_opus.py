"""Import and export of OPUS-MT folders, compared with Hugging Face's model and tokenizer."""

import copy
import io
import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard
from helpers import assert_same, randomise
from regard import library
from regard.blocks.positions import Sinusoidal
from regard.codecs.subword import BEGIN, END, PAD_ID, SubwordTokenizer
from regard.data.parallel import source_batch
from regard.decoding.beam import Beam
from regard.interop.marian import TokenOrder
from regard.models.transformer import TransformerConfig

transformers = pytest.importorskip("transformers")
sentencepiece = pytest.importorskip("sentencepiece")

ENGLISH = [
    "the child eats bread",
    "the children are eating bread and 3 stones",
    "we were there in 1992",
    "A, b; c.",
] * 20
SPANISH = ["el niño come pan", "los niños comen pan y 3 piedras", "estuvimos allí en 1992", "A, b; ¿c?"] * 20
TEXTS = ["the child eats bread", "we  eat 3 stones ", "日本 child", "ﬁne – “x”", "", "A, b; c."]


def train_pieces(texts: list[str], folder: Path, name: str, **options: Any) -> list[str]:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=60, bos_id=-1, hard_vocab_limit=False,
        minloglevel=2, **options,
    )  # fmt: skip
    (folder / name).write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [processor.id_to_piece(i) for i in range(len(processor)) if not processor.is_control(i)]


def opus(folder: Path, **changes: Any) -> Path:
    """A folder as Hugging Face writes it, with random weights."""
    folder.mkdir()
    pieces = [*train_pieces(ENGLISH, folder, "source.spm"), *train_pieces(SPANISH, folder, "target.spm")]
    known = list(dict.fromkeys(["</s>", "<unk>", ">>spa<<", *pieces, "<pad>"]))
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(known)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer"}))
    shape = {
        "d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "activation_function": "swish",
    }  # fmt: skip
    config = transformers.MarianConfig(
        vocab_size=len(known), scale_embedding=True, pad_token_id=len(known) - 1, eos_token_id=0,
        forced_eos_token_id=None, decoder_start_token_id=len(known) - 1, max_position_embeddings=64,
        **{**shape, **changes},
    )  # fmt: skip
    torch.manual_seed(3)
    model = randomise(transformers.MarianMTModel(config)).float()
    model.final_logits_bias.normal_()
    model.generation_config = transformers.GenerationConfig(
        bad_words_ids=[[len(known) - 1]], pad_token_id=len(known) - 1, eos_token_id=0,
        decoder_start_token_id=len(known) - 1,
    )  # fmt: skip
    model.save_pretrained(folder)
    return folder


def open_theirs(folder: Path) -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning recommends another library
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.MarianMTModel.from_pretrained(folder).double().eval()
    width = model.config.d_model
    for half in (model.model.encoder, model.model.decoder):
        # the table of Hugging Face has these numbers rounded to float32
        length = half.embed_positions.weight.size(0)
        half.embed_positions.weight.data = Sinusoidal(width, split=True)(torch.zeros(1, length, width).double())
    return model, tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return opus(tmp_path_factory.mktemp("hf") / "opus")


@pytest.fixture(scope="module")
def theirs(folder: Path) -> tuple[Any, Any]:
    return open_theirs(folder)


@pytest.fixture(scope="module")
def ours(folder: Path) -> Any:
    translator = library.load(f"hf:{folder}")
    translator.model.double()
    return translator


def our_order(folder: Path) -> list[int]:
    return TokenOrder(json.loads((folder / "config.json").read_text())).target


def test_tokens_equal_those_of_the_marian_tokenizer(folder: Path, theirs, ours) -> None:
    order = our_order(folder)
    known = set(json.loads((folder / "vocab.json").read_text()))
    pieces_of = {"text": theirs[1].spm_source, "text_target": theirs[1].spm_target}

    @settings(max_examples=200, suppress_health_check=list(HealthCheck))
    @given(st.text(st.characters(exclude_categories=["Cs"])) | st.text("the childr en 1992日éＡ½ﬁ“ \t\u3000"))
    @example(">>spa<< the child")
    @example("<unk> </s> <pad> ▁the")
    def check(text: str) -> None:
        for tokenizer, given_as in ((ours.source, "text"), (ours.target, "text_target")):
            # letters of the other language only: consecutive ones are one unknown token for Marian, not for Regard
            pieces = pieces_of[given_as].encode(text.replace(">>spa<<", ""), out_type=str)
            assume(not any(len(p) > 1 and not pieces_of[given_as].piece_to_id(p) and set(p) & known for p in pieces))
            (mine,) = tokenizer.encode([text])
            assert [order[token] for token in mine] == theirs[1](**{given_as: text})["input_ids"][:-1]

    check()


def test_decoded_text_equals_that_of_marian(folder: Path, theirs, ours) -> None:
    order = our_order(folder)
    for text in SPANISH[:4]:
        (mine,) = ours.target.encode([text])
        assert ours.target.decode([mine]) == [theirs[1].decode([order[t] for t in mine], skip_special_tokens=True)]
    assert ours.target.decode([[PAD_ID, BEGIN, *mine, END]]) == ours.target.decode([mine])


@torch.no_grad()
def assert_same_logits(model: Any, theirs: Any, order: list[int]) -> None:
    source, target = torch.randint(3, len(order), (3, 7)), torch.randint(3, len(order), (3, 5))
    target[:, 0], source[1, 4:] = BEGIN, PAD_ID
    where, is_padding = torch.tensor(order), torch.arange(7) >= torch.tensor([[7], [4], [7]])
    logits = theirs(
        input_ids=where[source], attention_mask=(~is_padding).long(), decoder_input_ids=where[target]
    ).logits
    assert_same(model(source, target, is_padding)[..., END:], logits[..., where][..., END:], tolerance=1e-9)
    logits = (
        copy.deepcopy(theirs)
        .float()(input_ids=where[source], attention_mask=(~is_padding).long(), decoder_input_ids=where[target])
        .logits
    )
    assert_same(
        copy.deepcopy(model).float()(source, target, is_padding)[..., END:],
        logits[..., where][..., END:],
        tolerance=1e-4,
    )


CHANGES = {
    "like OPUS-MT": {},
    "a table for each language": {"share_encoder_decoder_embeddings": False},
    "relu, an output layer of its own": {"activation_function": "relu", "tie_word_embeddings": False},
    "gelu, more heads": {"activation_function": "gelu", "encoder_attention_heads": 4, "decoder_attention_heads": 4},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_logits_are_the_same_after_import_and_export(changes, tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus", **changes)
    model, order = open_theirs(folder)[0], our_order(folder)
    assert_same_logits(library.load(f"hf:{folder}").model.double(), model, order)
    library.convert(f"hf:{folder}", str(tmp_path / "ours"))
    assert_same_logits(library.load(str(tmp_path / "ours")).model.double(), model, order)
    library.convert(str(tmp_path / "ours"), f"hf:{tmp_path / 'back'}")
    back = open_theirs(tmp_path / "back")
    assert_same_logits(library.load(str(tmp_path / "ours")).model.double(), back[0], list(range(len(order))))


class Adapter:
    """Hugging Face's model with Regard's decoding interface; each step computes the whole text again."""

    def __init__(self, model: Any, order: list[int]) -> None:
        self.model, self.order = model, torch.tensor(order)

    def start(self, source: Tensor, is_padding: Tensor) -> "AdapterState":
        return AdapterState(source, is_padding, torch.zeros(len(source), 0, dtype=torch.long))

    def step(self, tokens: Tensor, state: "AdapterState") -> tuple[Tensor, "AdapterState"]:
        target = torch.cat((state.target, tokens[:, None]), dim=1)
        inputs = {"input_ids": self.order[state.source], "attention_mask": (~state.is_padding).long()}
        logits = self.model(**inputs, decoder_input_ids=self.order[target]).logits[:, -1, self.order]
        logits[:, [PAD_ID, BEGIN]] = -1e9
        return logits, AdapterState(state.source, state.is_padding, target)


class AdapterState:
    def __init__(self, source: Tensor, is_padding: Tensor, target: Tensor) -> None:
        self.source, self.is_padding, self.target = source, is_padding, target

    def reorder(self, index: Tensor) -> "AdapterState":
        return AdapterState(self.source[index], self.is_padding[index], self.target[index])


def test_beam_search_finds_the_same_tokens(folder: Path, theirs, ours) -> None:
    inputs = source_batch(ours.source.encode([text for text in TEXTS if text]))
    max_length = [12] * len(inputs[0])
    for width in (1, 4):
        mine = Beam(BEGIN, END, width, n_best=width).search(ours.model, inputs, max_length)
        other = Beam(BEGIN, END, width, n_best=width).search(Adapter(theirs[0], our_order(folder)), inputs, max_length)
        assert [[h.tokens for h in found] for found in mine] == [[h.tokens for h in found] for found in other]


def test_greedy_translations_equal_those_of_generate(theirs, ours) -> None:
    model, tokenizer = theirs
    mine = ours.translate(TEXTS[:3], beam=1)
    inputs = tokenizer(TEXTS[:3], return_tensors="pt", padding=True)
    for i, text in enumerate(TEXTS[:3]):
        limit = 2 * len(ours.source.encode([text])[0]) + 20
        alone = {name: value[i : i + 1] for name, value in inputs.items()}
        tokens = model.generate(**alone, max_new_tokens=limit, num_beams=1, do_sample=False)
        assert mine[i][0].text == tokenizer.decode(tokens[0], skip_special_tokens=True)


def test_an_exported_model_has_the_same_tokenizer(folder: Path, ours, tmp_path: Path) -> None:
    library.convert(f"hf:{folder}", f"hf:{tmp_path / 'again'}")
    _, tokenizer = open_theirs(tmp_path / "again")
    again = library.load(f"hf:{tmp_path / 'again'}")
    assert again.source.encode(TEXTS) == ours.source.encode(TEXTS)
    assert again.target.encode(SPANISH[:4]) == ours.target.encode(SPANISH[:4])
    for text in TEXTS[:4]:
        assert tokenizer(text)["input_ids"][:-1] == ours.source.encode([text])[0]


def native(tmp_path: Path, **changes: Any) -> Path:
    """A model of Regard with Marian's positions and norm placement."""
    tokenizer = SubwordTokenizer.train("bpe", 300, [*ENGLISH, *SPANISH])
    shape = {"width": 16, "heads": 2, "ff_width": 16, "encoder_layers": 1, "decoder_layers": 1}
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size,
        **{**shape, "positions": "sinusoidal_split", "norm_placement": "post", **changes},
    )
    torch.manual_seed(1)
    model = randomise(config.build()).float()
    library.save(tmp_path / "native", config, library.tensors(model), {"source": tokenizer, "target": tokenizer}, "")
    return tmp_path / "native"


@pytest.mark.parametrize("changes", [{}, {"tied": False, "activation": "gelu_tanh"}], ids=["tied", "untied"])
def test_an_exported_model_has_the_same_tokens_and_logits_in_hugging_face(tmp_path: Path, changes) -> None:
    library.convert(str(native(tmp_path, **changes)), f"hf:{tmp_path / 'out'}")
    model, tokenizer = open_theirs(tmp_path / "out")
    ours = library.load(str(tmp_path / "native"))
    assert tokenizer(TEXTS)["input_ids"] == [[*tokens, END] for tokens in ours.source.encode(TEXTS)]
    assert_same_logits(ours.model.double(), model, list(range(ours.source.vocab_size)))
    back = library.load(f"hf:{tmp_path / 'out'}")
    assert back.source.encode(TEXTS) == ours.source.encode(TEXTS)
    assert_same_logits(back.model.double(), model, list(range(ours.source.vocab_size)))


def test_a_model_of_the_recipe_for_marian_can_be_exported(tmp_path: Path) -> None:
    pairs = [f"{english} {i}\t{spanish} {i}" for i, (english, spanish) in enumerate(zip(ENGLISH, SPANISH, strict=True))]
    (tmp_path / "data.tsv").write_text("".join(f"{pair}\n" for pair in pairs))
    changes = {
        "run": tmp_path / "run", "data": {"train": tmp_path / "data.tsv"}, "tokenizer": {"vocab_size": 300},
        "model": {"width": 16, "ff_width": 16}, "train": {"steps": 2, "batch_tokens": 200},
    }  # fmt: skip
    ours: Any = regard.train("translate/marian", **changes)
    library.convert(str(tmp_path / "run"), f"hf:{tmp_path / 'out'}")
    model, tokenizer = open_theirs(tmp_path / "out")
    assert tokenizer(TEXTS)["input_ids"] == [[*tokens, END] for tokens in ours.source.encode(TEXTS)]
    assert_same_logits(ours.model.double(), model, list(range(ours.source.vocab_size)))


def test_words_with_unknown_tokens_can_be_aligned(ours) -> None:
    for text in ("we eat 日 bread", "日", "we 日本eat"):
        (found,) = ours.translate([text], align=True, beam=2, n_best=2)
        (tokens,) = ours.source.encode([text])
        words = ours.source.decode([tokens])[0].split()
        for translation in found:
            assert list(translation.alignment.source) == words
            assert all(len(row) == len(words) for row in translation.alignment.weights)
            assert (
                len(translation.words) == len(translation.word_log_probabilities) == len(translation.alignment.weights)
            )


def test_tokens_of_the_other_language_are_decoded_as_in_marian(folder: Path, theirs, ours) -> None:
    order = our_order(folder)
    tokens = list(range(END + 1, len(order)))
    whole = theirs[1].decode([order[token] for token in tokens], skip_special_tokens=True)
    assert ours.target.decode([tokens])[0].split() == whole.split()


def test_weights_converted_to_16_bits_are_finite(folder: Path, tmp_path: Path) -> None:
    library.convert(f"hf:{folder}", str(tmp_path / "half"), half=True)
    weights = library.read(str(tmp_path / "half")).weights
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())


def test_separate_vocabularies_are_kept(tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus", share_encoder_decoder_embeddings=False)
    one = json.loads((folder / "vocab.json").read_text())
    # the ids of the target are in reverse order, except those of special tokens
    inner = [piece for piece, number in one.items() if 1 < number < len(one) - 1]
    other = {"</s>": 0, "<unk>": 1, **{p: i for i, p in enumerate(reversed(inner), start=2)}, "<pad>": len(one) - 1}
    (folder / "target_vocab.json").write_text(json.dumps(other))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "MarianTokenizer", "separate_vocabs": True})
    )
    library.convert(f"hf:{folder}", f"hf:{tmp_path / 'again'}")
    ours, again = library.load(f"hf:{folder}"), library.load(f"hf:{tmp_path / 'again'}")
    assert ours.source.encode(["el niño"]) != ours.target.encode(["el niño"])
    for side in ("source", "target"):
        assert getattr(again, side).encode(SPANISH[:4]) == getattr(ours, side).encode(SPANISH[:4])
    tokenizer = open_theirs(tmp_path / "again")[1]
    assert tokenizer(text_target=SPANISH[0])["input_ids"][:-1] == ours.target.encode(SPANISH[:1])[0]


def assert_refused(name: str, target: str, messages: Sequence[str]) -> None:
    with pytest.raises(ValueError, match=".*".join(re.escape(message) for message in messages)):
        library.convert(name, target)


def test_invalid_conversions_are_reported(folder: Path, tmp_path: Path) -> None:
    assert_refused("hf:nowhere", "new", ["hf:nowhere: no such folder"])
    assert_refused(f"hf:{folder}", str(folder), ["already exists"])
    rotary = native(tmp_path, positions="rotary")
    assert_refused(
        str(rotary),
        f"hf:{tmp_path / 'x'}",
        [
            "Marian does not support model.positions = 'rotary'",
            "model.norm_placement=post",
            "the recipe translate/marian",
        ],
    )
    assert not (tmp_path / "x").exists()
    cases = (
        ("config.json", {"model_type": "bart"}, "type 'bart' cannot be converted; supported types: marian, bert,"),
        ("config.json", {"scale_embedding": False}, "scale_embedding = False; only True can be converted"),
        ("config.json", {"decoder_ffn_dim": 99}, "encoder_ffn_dim and decoder_ffn_dim differ"),
        (
            "config.json",
            {"encoder_layers": 5},
            "not a Marian model with this config.json: missing ['model.encoder.layers.2",
        ),
        ("source.spm", b"\x0a\xff", "source.spm: not a SentencePiece model"),
        ("source.spm", b"\x0a\x02\x08\x01", "source.spm: not a SentencePiece model"),
        ("model.safetensors", b"\x09\x00", "model.safetensors: damaged"),
        ("vocab.json", b"{}", "config.json or vocab.json lacks '<unk>'"),
        ("model.safetensors", None, "has no model.safetensors. Pickled weights are not opened"),
    )
    for number, (name, content, message) in enumerate(cases):
        damaged = tmp_path / f"damaged-{number}"
        damaged.mkdir()
        for path in folder.iterdir():
            (damaged / path.name).write_bytes(path.read_bytes())
        if content is None:
            (damaged / name).unlink()
        elif isinstance(content, bytes):
            (damaged / name).write_bytes(content)
        else:
            old = json.loads((damaged / name).read_text())
            (damaged / name).write_text(json.dumps({**old, **content}))
        assert_refused(f"hf:{damaged}", "new", [message])


def test_a_tokenizer_of_another_kind_is_refused(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        if path.suffix != ".spm":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    library.load("en-es").source.save(tmp_path / "tokenizer.json")
    assert_refused(f"hf:{tmp_path}", "new", ["its tokenizer.json was not written by Regard"])


def test_a_sentencepiece_bpe_model_is_refused(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    train_pieces(ENGLISH, tmp_path, "source.spm", model_type="bpe")
    assert_refused(f"hf:{tmp_path}", "new", ["source.spm: this SentencePiece model is not a unigram model"])
