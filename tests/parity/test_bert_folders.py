"""Import and export of Hugging Face BERT folders: accepted variants, refused ones, and tokenizers."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import tokenizers
import torch
from safetensors.torch import load_file

from changed_folders import assert_same_tensors, change_json, change_tensors
from hugging_face import (
    HEADS,
    LABELS,
    TOKENS,
    WORDS,
    assert_same_logits,
    kinds,
    make_ours,
    make_theirs,
    open_ours,
    transformers,
    wordpiece,
    write_ours,
    write_theirs,
)
from regard import library
from regard.interop import bert
from regard.models.heads import ClassificationHead, NoHead, PretrainingHead, TaggingHead

TEXTS = ["The child eats bread.", "é 日日 Bread stones", "", "[MASK] eating  ab"]


@kinds
def test_a_written_model_is_read_back_unchanged(kind, tmp_path: Path) -> None:
    ours = make_ours(HEADS[kind][0], dropout=0.2, segments=3, activation="swish")
    config, weights, codecs = bert.read(write_ours(tmp_path / "hf", ours))
    tokenizer = codecs["text"]
    assert config == ours.config
    assert_same_tensors(weights, ours.state_dict())
    assert tokenizer.encode(TEXTS) == wordpiece().encode(TEXTS)


# accepted folders


def test_sharded_weights_are_read_like_one_file(tmp_path: Path) -> None:
    theirs = make_theirs("BertForPreTraining")
    whole, parts = write_theirs(tmp_path / "whole", theirs), write_theirs(tmp_path / "parts", theirs)
    (parts / "model.safetensors").unlink()
    theirs.save_pretrained(parts, max_shard_size="5KB")
    assert len(list(parts.glob("model-*.safetensors"))) > 1
    assert_same_tensors(bert.read(parts)[1], bert.read(whole)[1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_weights_are_converted_to_float32(dtype, tmp_path: Path) -> None:
    theirs = make_theirs("BertForPreTraining").to(dtype)
    folder = write_theirs(tmp_path / "hf", theirs)
    assert {tensor.dtype for tensor in load_file(folder / "model.safetensors").values()} == {dtype}
    assert {tensor.dtype for tensor in bert.read(folder)[1].values()} == {torch.float32}
    assert_same_logits(open_ours(folder), theirs)


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_encoders_load_with_or_without_a_prefix(prefix, tmp_path: Path) -> None:
    theirs = make_theirs("BertModel")
    folder = write_theirs(tmp_path / "hf", theirs)
    positions = torch.arange(12)[None]
    change_tensors(
        folder,
        lambda old: {f"{prefix}{name}": x for name, x in {**old, "embeddings.position_ids": positions}.items()},
    )
    assert_same_logits(open_ours(folder), theirs)


def test_old_names_of_layer_norms_are_accepted(tmp_path: Path) -> None:
    def rename(name: str) -> str:
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    theirs = make_theirs("BertForPreTraining")
    folder = write_theirs(tmp_path / "hf", theirs)
    change_tensors(folder, lambda old: {rename(name): x for name, x in old.items()})
    assert any("gamma" in name for name in load_file(folder / "model.safetensors"))
    assert_same_logits(open_ours(folder), theirs)


def test_the_original_bert_checkpoints_keep_their_pretraining_head(tmp_path: Path) -> None:
    theirs = make_theirs("BertForPreTraining")
    folder = write_theirs(tmp_path / "hf", theirs)
    change_json(folder / "config.json", architectures=["BertForMaskedLM"], model_type=None, layer_norm_eps=None)
    ours = open_ours(folder)
    assert ours.config.head == PretrainingHead()
    assert ours.config.norm_eps == 1e-12


def test_a_pooler_that_the_head_does_not_use_is_ignored(tmp_path: Path) -> None:
    theirs = make_theirs("BertForTokenClassification", id2label=LABELS)
    folder = write_theirs(tmp_path / "hf", theirs)
    pooler = {"bert.pooler.dense.weight": torch.ones(16, 16), "bert.pooler.dense.bias": torch.ones(16)}
    change_tensors(folder, lambda old: {**old, **pooler})
    assert_same_logits(open_ours(folder), theirs)


@pytest.mark.parametrize("half", ["weight", "bias"])
def test_stored_copies_of_tied_weights_must_be_equal(half, tmp_path: Path) -> None:
    theirs = make_theirs("BertForMaskedLM")
    folder = write_theirs(tmp_path / "hf", theirs)
    name = f"cls.predictions.decoder.{half}"
    tied = theirs.state_dict()[name].clone()
    change_tensors(folder, lambda old: {**old, name: tied})
    assert_same_logits(open_ours(folder), theirs)
    change_tensors(folder, lambda old: {**old, name: tied + 1})
    assert_refused(folder, f"{name} differs from ")


def test_an_output_bias_under_the_decoder_name_is_found(tmp_path: Path) -> None:
    theirs = make_theirs("BertForMaskedLM")
    folder = write_theirs(tmp_path / "hf", theirs)
    bias = theirs.cls.predictions.bias.detach().clone()
    rest = {name: x for name, x in load_file(folder / "model.safetensors").items() if name != "cls.predictions.bias"}
    change_tensors(folder, lambda _: {**rest, "cls.predictions.decoder.bias": bias})
    assert_same_logits(open_ours(folder), theirs)


@pytest.mark.parametrize("kind", ["vectors", "pre-training", "words only", "tags", "a span"])
def test_without_architectures_the_head_is_inferred_from_tensors(kind, tmp_path: Path) -> None:
    head, name, about = HEADS[kind]
    folder = write_theirs(tmp_path / "hf", make_theirs(name, **about))
    change_json(folder / "config.json", architectures=None)
    assert bert.read(folder)[0].head == head


def test_labels_without_names_are_numbered_as_in_hugging_face(tmp_path: Path) -> None:
    folder = write_theirs(tmp_path / "hf", make_theirs("BertForSequenceClassification"))
    change_json(folder / "config.json", id2label=None, label2id=None)
    assert bert.read(folder)[0].head == ClassificationHead(labels=("LABEL_0", "LABEL_1"))


def test_eleven_labels_keep_their_order(tmp_path: Path) -> None:
    labels = tuple(f"label {i}" for i in range(11))
    ours = make_ours(TaggingHead(labels=labels))
    folder = write_ours(tmp_path / "hf", ours)
    change_json(folder / "config.json", id2label={str(i): labels[i] for i in (10, *range(10))})
    assert bert.read(folder)[0].head == TaggingHead(labels=labels)


# refused folders


def assert_refused(folder: Path, *messages: str) -> None:
    with pytest.raises(ValueError, match="(?s)" + ".*".join(re.escape(message) for message in messages)):
        bert.read(folder)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_theirs(
        tmp_path_factory.mktemp("hf") / "hf", make_theirs("BertForTokenClassification", id2label=LABELS)
    )


@pytest.fixture
def folder(tagger: Path, tmp_path: Path) -> Path:
    """A copy of a folder, for a test to change."""
    return shutil.copytree(tagger, tmp_path / "damaged")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, "model_type = 'roberta'; only 'bert' can be converted"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_key'; only 'absolute'"),
        ({"is_decoder": True}, "is_decoder = True; only False"),
        ({"add_cross_attention": True}, "add_cross_attention = True; only False"),
        ({"hidden_act": "quick_gelu"}, "hidden_act = 'quick_gelu' is not supported; supported: gelu, relu"),
        ({"architectures": ["BertForNextSentencePrediction"]}, "BertForNextSentencePrediction is not supported"),
        ({"architectures": ["BertForMultipleChoice"]}, "BertForMultipleChoice is not supported; supported: BertModel"),
        ({"architectures": ["BertModel"]}, "missing none; unexpected classifier.bias, classifier.weight"),
        (
            {"architectures": ["BertForQuestionAnswering"]},
            "missing qa_outputs.bias, qa_outputs.weight; unexpected class",
        ),
        ({"num_hidden_layers": 3}, "missing encoder.layer.2.attention.output.LayerNorm.bias"),
        ({"num_hidden_layers": 1}, "encoder.layer.1.output.dense.bias, encoder.layer.1.output.dense.weight"),
        ({"id2label": {"0": "no", "1": "yes"}}, "classifier.weight is torch.float32 of shape (3, 16), but config.json"),
        ({"id2label": {"1": "no", "2": "yes"}}, "id2label has the ids 1, 2; number its labels from 0 to 1"),
        (
            {"hidden_size": "wide"},
            'config.json, with our key names: 1 problem\n  width = "wide": expected a whole number',
        ),
        ({"vocab_size": None}, "vocab_size: is required and missing"),
        ({"vocab_size": 20}, "embeddings.word_embeddings.weight is torch.float32 of shape (24, 16)"),
        ({"pad_token_id": 3}, "the padding token is 0 in the tokenizer, but 3 in config.json"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_unsupported_configs_are_refused(changes, message, folder: Path) -> None:
    change_json(folder / "config.json", **changes)
    assert_refused(folder, str(folder), message)


@pytest.mark.parametrize("problem", ["regression", "multi_label_classification"])
def test_multi_label_classification_and_multiple_regression_are_refused(problem, tmp_path: Path) -> None:
    about = {"id2label": LABELS, "problem_type": problem}
    folder = write_theirs(tmp_path / "hf", make_theirs("BertForSequenceClassification", **about))
    assert_refused(folder, f"problem_type = '{problem}' with 3 labels is not supported; a text has one label")


def test_weights_with_a_non_float_dtype_are_refused(folder: Path) -> None:
    change_tensors(folder, lambda old: {**old, "classifier.bias": torch.ones(3, dtype=torch.int8)})
    assert_refused(folder, "classifier.bias is torch.int8")


def test_a_classifier_of_texts_or_tokens_without_architectures_is_refused(tmp_path: Path) -> None:
    folder = write_theirs(tmp_path / "hf", make_theirs("BertForSequenceClassification"))
    change_json(folder / "config.json", architectures=None)
    assert_refused(folder, "for texts or tokens", '"architectures": ["BertForSequenceClassification"]')


def test_a_next_sentence_head_without_architectures_is_refused(tmp_path: Path) -> None:
    folder = write_theirs(tmp_path / "hf", make_theirs("BertForNextSentencePrediction"))
    change_json(folder / "config.json", architectures=None)
    assert_refused(folder, "architecture BertForNextSentencePrediction is not supported")


def test_pickled_weights_are_refused_with_a_remedy(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert_refused(folder, "Pickled weights are not opened", "save_pretrained(")


def test_contents_of_a_folder_are_not_inserted_into_the_suggested_command(tmp_path: Path) -> None:
    folder = tmp_path / "c'; touch PWNED; #"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "bert", "architectures": ["X\'; touch PWNED; #"]}')
    (folder / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ValueError, match="Pickled weights are not opened") as found:
        library.read(f"hf:{folder}")
    words = shlex.split(str(found.value).partition("trust them: ")[2])
    assert words[:2] == ["python", "-c"]
    assert words[3:] == [str(folder)]
    assert "touch" not in words[2]


def test_missing_and_damaged_files_are_reported(folder: Path) -> None:
    assert_refused(folder / "nowhere", "nowhere/config.json: no such file")
    (folder / "vocab.txt").unlink()
    assert_refused(folder, "has neither tokenizer.json nor vocab.txt")
    (folder / "model.safetensors").unlink()
    assert_refused(folder, "has neither model.safetensors nor model.safetensors.index.json")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"classifier.bias": "model-1.safetensors"}}')
    assert_refused(folder, "missing model-1.safetensors, listed in model.safetensors.index.json")
    (folder / "config.json").write_text("[]")
    assert_refused(folder, "config.json: expected a JSON object")
    (folder / "config.json").write_text("{")
    assert_refused(folder, "config.json: damaged, not valid JSON")


# tokenizers


def test_a_vocabulary_larger_or_much_smaller_than_the_embedding_table_is_refused(
    folder: Path,
) -> None:
    assert bert.read(folder)[2]["text"].vocab_size == 21  # the embedding table has 24 rows
    (folder / "vocab.txt").write_text("\n".join([*TOKENS, "b", "c", "d", "f"]))
    assert_refused(folder, "the tokenizer has 25 tokens, the embedding 24 rows")
    (folder / "vocab.txt").write_text("\n".join(TOKENS[:11]))
    assert_refused(folder, "the tokenizer has 11 tokens, the embedding 24 rows")


SETTINGS = [
    {"lowercase": lowercase, "strip_accents": accents, "chinese": chinese}
    for lowercase, accents, chinese in (
        (True, True, True),
        (False, False, True),
        (True, False, True),
        (True, True, False),
    )
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_hugging_face_tokenizer_encodes_the_same(settings, tmp_path: Path) -> None:
    ours = wordpiece(**settings)
    folder = write_ours(tmp_path / "hf", make_ours(NoHead()), ours)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode([text], parse_specials=True)[0]
    one, two = ours.encode(["the child", "eats bread"])
    assert theirs("the child")["input_ids"] == [ours.begin, *one, ours.end]
    pair = theirs("the child", "eats bread")
    assert pair["input_ids"] == [ours.begin, *one, ours.end, *two, ours.end]
    assert pair["token_type_ids"] == [0] * (len(one) + 2) + [1] * (len(two) + 1)
    assert theirs.pad_token_id == ours.pad
    assert theirs.mask_token_id == ours.mask
    assert theirs.model_max_length == 12


def test_the_tokenizer_file_adds_special_tokens_and_segments(tmp_path: Path) -> None:
    ours = wordpiece()
    folder = write_ours(tmp_path / "hf", make_ours(NoHead()), ours)
    pair = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).encode("the child", "eats bread")
    assert pair.tokens == ["[CLS]", "the", "child", "[SEP]", "eats", "bread", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_vocabulary_alone_gives_the_same_tokens(settings, tmp_path: Path) -> None:
    ours = wordpiece(**settings)
    folder = write_ours(tmp_path / "hf", make_ours(NoHead()), ours)
    assert bert.read(folder)[2]["text"].encode(TEXTS) == ours.encode(TEXTS)
    (folder / "tokenizer.json").unlink()
    assert bert.read(folder)[2]["text"].encode(TEXTS) == ours.encode(TEXTS)


@pytest.mark.parametrize("key", bert.NORMALIZER)
def test_tokenizer_files_that_contradict_each_other_are_refused(key, tmp_path: Path) -> None:
    folder = write_ours(tmp_path / "hf", make_ours(NoHead()))
    change_json(folder / "tokenizer_config.json", **{key: False})
    assert_refused(folder, f"tokenizer_config.json: {key} = False, but ", " = True in tokenizer.json")


def test_a_vocabulary_without_special_tokens_is_refused(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    assert_refused(folder, "vocab.txt", "[PAD]")
