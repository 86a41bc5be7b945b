"""Regard's RoFormer gives the same logits as Hugging Face's; import, export, and refused folders."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from changed_folders import assert_same_tensors, change_json, change_tensors
from helpers import assert_same, padded, randomise
from hugging_face import LABELS, TOKENS, answer, transformers, wordpiece
from regard import library
from regard.blocks.positions import Sinusoidal
from regard.codecs.wordpiece import WordPiece
from regard.interop import roformer
from regard.interop.files import ACTIVATIONS
from regard.models.heads import (
    AnyHead,
    ClassificationHead,
    NoHead,
    PretrainingHead,
    RegressionHead,
    SpanHead,
    TaggingHead,
)
from regard.models.roformer import RoFormerConfig

TEXTS = ["The child eats bread.", "é 日日 Bread stones", "", "[MASK] eating  ab"]
NAMES = tuple(LABELS.values())
# Regard's head, Hugging Face's class, and the keys of its config for the head
HEADS: dict[str, tuple[AnyHead, str, dict[str, Any]]] = {
    "vectors": (NoHead(pooled=False), "RoFormerModel", {}),
    "words": (PretrainingHead(pooled=False), "RoFormerForMaskedLM", {}),
    "classes": (ClassificationHead(labels=NAMES), "RoFormerForSequenceClassification", {"id2label": LABELS}),
    "a number": (RegressionHead(), "RoFormerForSequenceClassification", {"num_labels": 1}),
    "tags": (TaggingHead(labels=NAMES), "RoFormerForTokenClassification", {"id2label": LABELS}),
    "a span": (SpanHead(), "RoFormerForQuestionAnswering", {}),
}
kinds = pytest.mark.parametrize("kind", HEADS)


def make_theirs(name: str, **changes: Any) -> Any:
    shape = {
        "vocab_size": 24, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20,
        "max_position_embeddings": 12, "type_vocab_size": 2, "layer_norm_eps": 1e-3, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }  # fmt: skip
    config = transformers.RoFormerConfig(**{**shape, **changes})
    return randomise(getattr(transformers, name)(config)).float().eval()


def write_theirs(folder: Path, model: Any) -> Path:
    """A folder as Hugging Face writes it, with a BERT tokenizer."""
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n", "utf-8")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": true}')
    return folder


def open_theirs(folder: Path, name: str) -> Any:
    """The model; fails if Hugging Face reports missing or unexpected tensors."""
    model, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    return model.eval()


def make_ours(head: AnyHead, **changes: Any) -> Any:
    shape = {"width": 16, "heads": 4, "ff_width": 12, "layers": 2, "norm_eps": 1e-3, "dropout": 0.0}
    return randomise(RoFormerConfig(vocab_size=24, head=head, **{**shape, **changes}).build()).float().eval()


def write_ours(folder: Path, model: Any, tokenizer: WordPiece | None = None) -> Path:
    folder.mkdir()
    roformer.write(folder, model.config, model.state_dict(), {"text": tokenizer or wordpiece()})
    return folder


def open_ours(folder: Path) -> Any:
    config, weights, _ = roformer.read(folder)
    model = config.build().eval()
    model.load_state_dict(weights)
    return model


@torch.no_grad()
def assert_same_logits(ours: Any, theirs: Any, length: int = 9) -> None:
    tokens, is_padding = padded([length, 5, 2], vocab_size=24)
    segments = (torch.arange(length) > 3).long().expand_as(tokens)
    inputs = {"input_ids": tokens, "token_type_ids": segments, "attention_mask": (~is_padding).long()}

    def compare(dtype: torch.dtype, tolerance: float) -> None:
        mine = ours.to(dtype)(tokens, segments, is_padding)
        assert_same(mine, answer(theirs.to(dtype), **inputs), tolerance)

    compare(torch.float32, 2e-5)
    # Hugging Face's sines and cosines are rounded to float32 for any dtype, which leaves about seven digits
    compare(torch.float64, 1e-5)
    # with exact sines and cosines, only the order of additions differs
    table = next(module for name, module in theirs.named_modules() if name.endswith("embed_positions"))
    rows, width = table.weight.shape
    table.weight.copy_(Sinusoidal(width, split=True)(torch.zeros(1, rows, width, dtype=torch.float64)))
    compare(torch.float64, 1e-12)


# logits


@kinds
def test_an_imported_model_has_the_same_logits(kind, tmp_path: Path) -> None:
    head, name, about = HEADS[kind]
    theirs = make_theirs(name, **about)
    ours = open_ours(write_theirs(tmp_path / "hf", theirs))
    assert ours.config.head == head
    assert_same_logits(ours, theirs)


@kinds
def test_an_exported_model_has_the_same_logits(kind, tmp_path: Path) -> None:
    head, name, _ = HEADS[kind]
    ours = make_ours(head)
    theirs = open_theirs(write_ours(tmp_path / "hf", ours), name)
    assert theirs.config.architectures == [name]
    assert_same_logits(ours, theirs, 50)
    if head.labels:
        assert theirs.config.id2label == LABELS
        assert theirs.config.label2id == {label: number for number, label in LABELS.items()}
    if isinstance(head, RegressionHead):
        assert (theirs.config.num_labels, theirs.config.problem_type) == (1, "regression")


@pytest.mark.parametrize("kind", ["words", "classes"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_are_the_same_after_import_and_export(activation, kind, tmp_path: Path) -> None:
    _, name, about = HEADS[kind]
    theirs = make_theirs(name, hidden_act=activation, **about)
    ours = open_ours(write_theirs(tmp_path / "hf", theirs))
    assert_same_logits(ours, theirs)
    assert_same_logits(ours, open_theirs(write_ours(tmp_path / "back", ours.float()), name))


def test_texts_may_be_longer_than_the_position_table_of_hugging_face(tmp_path: Path) -> None:
    theirs = make_theirs("RoFormerForMaskedLM")
    ours = open_ours(write_theirs(tmp_path / "hf", theirs))
    tokens = torch.randint(24, (1, 13))
    with pytest.raises(IndexError):
        theirs(tokens)
    longer = make_theirs("RoFormerForMaskedLM", max_position_embeddings=13)
    weights = {key: x for key, x in theirs.state_dict().items() if "embed_positions" not in key}
    longer.load_state_dict(weights, strict=False)
    assert_same(ours(tokens, torch.zeros_like(tokens)), longer(tokens).logits)


@kinds
def test_the_name_map_has_every_tensor_once(kind) -> None:
    ours = make_ours(HEADS[kind][0])
    assert sorted(roformer.names(ours.config).values()) == sorted(ours.state_dict())


# folders


@kinds
def test_a_written_model_is_read_back_unchanged(kind, tmp_path: Path) -> None:
    ours = make_ours(HEADS[kind][0], dropout=0.2, segments=3, activation="swish")
    config, weights, codecs = roformer.read(write_ours(tmp_path / "hf", ours))
    assert config == ours.config
    assert_same_tensors(weights, ours.state_dict())
    assert codecs["text"].encode(TEXTS) == wordpiece().encode(TEXTS)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_weights_are_converted_to_float32(dtype, tmp_path: Path) -> None:
    theirs = make_theirs("RoFormerForMaskedLM").to(dtype)
    folder = write_theirs(tmp_path / "hf", theirs)
    assert {tensor.dtype for tensor in load_file(folder / "model.safetensors").values()} == {dtype}
    weights = roformer.read(folder)[1]
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    assert torch.equal(weights["tokens.weight"], theirs.roformer.embeddings.word_embeddings.weight.float())


def test_a_model_is_converted_by_name(tmp_path: Path) -> None:
    ours = make_ours(TaggingHead(labels=NAMES))
    library.save(tmp_path / "mine", ours.config, library.tensors(ours), {"text": wordpiece()}, "")
    library.convert(str(tmp_path / "mine"), f"hf:{tmp_path / 'hf'}", half=True)
    tensors = load_file(tmp_path / "hf" / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    contents = library.read(f"hf:{tmp_path / 'hf'}")
    assert (contents.task, contents.config) == ("tagging", ours.config)
    assert_same_tensors(contents.weights, {name: x.half().float() for name, x in ours.state_dict().items()})


@pytest.mark.parametrize("lowercase", [True, False])
def test_the_hugging_face_tokenizer_encodes_the_same(lowercase, tmp_path: Path) -> None:
    ours = wordpiece(lowercase=lowercase, strip_accents=lowercase)
    folder = write_ours(tmp_path / "hf", make_ours(NoHead(pooled=False)), ours)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode([text], parse_specials=True)[0]
    one, two = ours.encode(["the child", "eats bread"])
    pair = theirs("the child", "eats bread")
    assert pair["input_ids"] == [ours.begin, *one, ours.end, *two, ours.end]
    assert pair["token_type_ids"] == [0] * (len(one) + 2) + [1] * (len(two) + 1)
    assert (theirs.pad_token_id, theirs.mask_token_id, theirs.model_max_length) == (ours.pad, ours.mask, 1536)
    (folder / "tokenizer.json").unlink()
    assert roformer.read(folder)[2]["text"].encode(TEXTS) == ours.encode(TEXTS)


# refused folders


def assert_refused(folder: Path, *messages: str) -> None:
    with pytest.raises(ValueError, match="(?s)" + ".*".join(re.escape(message) for message in messages)):
        roformer.read(folder)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    theirs = make_theirs("RoFormerForTokenClassification", id2label=LABELS)
    return write_theirs(tmp_path_factory.mktemp("hf") / "hf", theirs)


@pytest.fixture
def folder(tagger: Path, tmp_path: Path) -> Path:
    """A copy of a folder, for a test to change."""
    return shutil.copytree(tagger, tmp_path / "damaged")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bert"}, "model_type = 'bert'; only 'roformer' can be converted"),
        ({"rotary_value": True}, "rotary_value = True; only False"),
        ({"is_decoder": True}, "is_decoder = True; only False"),
        ({"add_cross_attention": True}, "add_cross_attention = True; only False"),
        ({"embedding_size": 8}, "embedding_size = 8 differs from hidden_size = 16; only equal ones can be converted"),
        ({"hidden_act": "quick_gelu"}, "hidden_act = 'quick_gelu' is not supported; supported: gelu, relu"),
        (
            {"architectures": ["RoFormerForMultipleChoice"]},
            "RoFormerForMultipleChoice is not supported; supported: RoF",
        ),
        ({"architectures": ["RoFormerForCausalLM"]}, "RoFormerForCausalLM is not supported; supported: RoF"),
        ({"architectures": None}, "architecture None is not supported; supported: RoFormerModel"),
        ({"architectures": ["RoFormerModel"]}, "missing none; unexpected classifier.bias, classifier.weight"),
        ({"num_hidden_layers": 3}, "missing encoder.layer.2.attention.output.LayerNorm.bias"),
        ({"num_attention_heads": 4}, "encoder.embed_positions.weight is torch.float32 of shape (12, 8), but config"),
        ({"hidden_size": "wide", "embedding_size": None}, 'width = "wide": expected a whole number'),
        ({"vocab_size": 20}, "embeddings.word_embeddings.weight is torch.float32 of shape (24, 16)"),
        ({"pad_token_id": 3}, "the padding token is 0 in the tokenizer, but 3 in config.json"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_unsupported_configs_are_refused(changes, message, folder: Path) -> None:
    change_json(folder / "config.json", **changes)
    assert_refused(folder, str(folder), message)


def test_rotary_angles_other_than_those_of_the_paper_are_refused(folder: Path) -> None:
    name = "roformer.encoder.embed_positions.weight"
    change_tensors(folder, lambda old: {key: x for key, x in old.items() if key != name})
    assert roformer.read(folder)[0].head == TaggingHead(labels=NAMES)
    change_tensors(folder, lambda old: {**old, name: torch.rand(12, 8)})
    assert_refused(folder, "encoder.embed_positions.weight differs from the paper's angles")
    change_tensors(folder, lambda old: {**old, name: torch.tensor(1.0)})
    assert_refused(folder, "encoder.embed_positions.weight is torch.float32 of shape ()")


def test_an_untied_output_layer_is_refused(tmp_path: Path) -> None:
    folder = write_theirs(tmp_path / "hf", make_theirs("RoFormerForMaskedLM"))
    change_tensors(folder, lambda old: {**old, "cls.predictions.decoder.weight": torch.ones(24, 16)})
    assert_refused(folder, "cls.predictions.decoder.weight differs from embeddings.word_embeddings.weight")


@pytest.mark.parametrize("about", [None, "{}", '{"tokenizer_class": "RoFormerTokenizer"}'])
def test_a_tokenizer_that_splits_chinese_into_words_is_refused(about, folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    path.unlink() if about is None else path.write_text(about)
    assert_refused(
        folder, "tokenizer_class = 'RoFormerTokenizer' splits Chinese into words", "change it to BertTokenizer"
    )


@pytest.mark.parametrize("head", [NoHead(), PretrainingHead()], ids=["vectors", "words"])
def test_a_model_with_a_pooler_is_not_exported(head, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="no next-sentence head; to convert a model, pre-train it with data.next_sentence=false"
    ):
        write_ours(tmp_path / "hf", make_ours(head))
    assert not list((tmp_path / "hf").iterdir())
