"""Folders of Hugging Face's BERT, in and out: what they may look like, what is refused, and their tokenizers."""

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
def test_out_and_in_again_nothing_has_changed(kind, tmp_path: Path) -> None:
    ours = make_ours(HEADS[kind][0], dropout=0.2, segments=3, activation="swish")
    config, weights, codecs = bert.read(write_ours(tmp_path / "hf", ours))
    tokenizer = codecs["text"]
    assert config == ours.config
    assert_same_tensors(weights, ours.state_dict())
    assert tokenizer.encode(TEXTS) == wordpiece().encode(TEXTS)


# what folders may look like


def test_a_folder_in_shards_is_read_like_one_file(tmp_path: Path) -> None:
    theirs = make_theirs("BertForPreTraining")
    whole, parts = write_theirs(tmp_path / "whole", theirs), write_theirs(tmp_path / "parts", theirs)
    (parts / "model.safetensors").unlink()
    theirs.save_pretrained(parts, max_shard_size="5KB")
    assert len(list(parts.glob("model-*.safetensors"))) > 1
    assert_same_tensors(bert.read(parts)[1], bert.read(whole)[1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_in_16_bits_become_float32(dtype, tmp_path: Path) -> None:
    theirs = make_theirs("BertForPreTraining").to(dtype)
    folder = write_theirs(tmp_path / "hf", theirs)
    assert {tensor.dtype for tensor in load_file(folder / "model.safetensors").values()} == {dtype}
    assert {tensor.dtype for tensor in bert.read(folder)[1].values()} == {torch.float32}
    assert_same_logits(open_ours(folder), theirs)


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_encoders_load_with_a_prefix_or_without(prefix, tmp_path: Path) -> None:
    theirs = make_theirs("BertModel")
    folder = write_theirs(tmp_path / "hf", theirs)
    positions = torch.arange(12)[None]
    change_tensors(
        folder,
        lambda old: {f"{prefix}{name}": x for name, x in {**old, "embeddings.position_ids": positions}.items()},
    )
    assert_same_logits(open_ours(folder), theirs)


def test_old_names_of_norms_are_known(tmp_path: Path) -> None:
    def rename(name: str) -> str:
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    theirs = make_theirs("BertForPreTraining")
    folder = write_theirs(tmp_path / "hf", theirs)
    change_tensors(folder, lambda old: {rename(name): x for name, x in old.items()})
    assert any("gamma" in name for name in load_file(folder / "model.safetensors"))
    assert_same_logits(open_ours(folder), theirs)


def test_the_first_berts_keep_the_head_that_their_architecture_hides(tmp_path: Path) -> None:
    theirs = make_theirs("BertForPreTraining")
    folder = write_theirs(tmp_path / "hf", theirs)
    change_json(folder / "config.json", architectures=["BertForMaskedLM"], model_type=None, layer_norm_eps=None)
    ours = open_ours(folder)
    assert ours.config.head == PretrainingHead()
    assert ours.config.norm_eps == 1e-12


def test_a_pooler_that_no_head_asks_is_left_out(tmp_path: Path) -> None:
    theirs = make_theirs("BertForTokenClassification", id2label=LABELS)
    folder = write_theirs(tmp_path / "hf", theirs)
    pooler = {"bert.pooler.dense.weight": torch.ones(16, 16), "bert.pooler.dense.bias": torch.ones(16)}
    change_tensors(folder, lambda old: {**old, **pooler})
    assert_same_logits(open_ours(folder), theirs)


@pytest.mark.parametrize("half", ["weight", "bias"])
def test_tied_weights_may_be_there_twice_but_not_differ(half, tmp_path: Path) -> None:
    theirs = make_theirs("BertForMaskedLM")
    folder = write_theirs(tmp_path / "hf", theirs)
    name = f"cls.predictions.decoder.{half}"
    tied = theirs.state_dict()[name].clone()
    change_tensors(folder, lambda old: {**old, name: tied})
    assert_same_logits(open_ours(folder), theirs)
    change_tensors(folder, lambda old: {**old, name: tied + 1})
    assert_refused(folder, f"{name} is not ")


def test_a_bias_under_the_name_of_its_copy_is_found(tmp_path: Path) -> None:
    theirs = make_theirs("BertForMaskedLM")
    folder = write_theirs(tmp_path / "hf", theirs)
    bias = theirs.cls.predictions.bias.detach().clone()
    rest = {name: x for name, x in load_file(folder / "model.safetensors").items() if name != "cls.predictions.bias"}
    change_tensors(folder, lambda _: {**rest, "cls.predictions.decoder.bias": bias})
    assert_same_logits(open_ours(folder), theirs)


@pytest.mark.parametrize("kind", ["vectors", "pre-training", "words only", "tags", "a span"])
def test_without_architectures_tensors_tell_the_head(kind, tmp_path: Path) -> None:
    head, name, about = HEADS[kind]
    folder = write_theirs(tmp_path / "hf", make_theirs(name, **about))
    change_json(folder / "config.json", architectures=None)
    assert bert.read(folder)[0].head == head


def test_labels_without_names_are_numbered_as_there(tmp_path: Path) -> None:
    folder = write_theirs(tmp_path / "hf", make_theirs("BertForSequenceClassification"))
    change_json(folder / "config.json", id2label=None, label2id=None)
    assert bert.read(folder)[0].head == ClassificationHead(labels=("LABEL_0", "LABEL_1"))


def test_eleven_labels_keep_their_order(tmp_path: Path) -> None:
    labels = tuple(f"label {i}" for i in range(11))
    ours = make_ours(TaggingHead(labels=labels))
    folder = write_ours(tmp_path / "hf", ours)
    change_json(folder / "config.json", id2label={str(i): labels[i] for i in (10, *range(10))})
    assert bert.read(folder)[0].head == TaggingHead(labels=labels)


# what is refused


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
    """A folder to be damaged."""
    return shutil.copytree(tagger, tmp_path / "damaged")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, "model_type = 'roberta'; only 'bert' can be converted"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_key'; only 'absolute'"),
        ({"is_decoder": True}, "is_decoder = True; only False"),
        ({"add_cross_attention": True}, "add_cross_attention = True; only False"),
        ({"hidden_act": "quick_gelu"}, "hidden_act = 'quick_gelu' is not known; known are gelu, relu"),
        ({"architectures": ["BertForNextSentencePrediction"]}, "answers like BertForNextSentencePrediction's; known"),
        ({"architectures": ["BertForMultipleChoice"]}, "answers like BertForMultipleChoice's; known are BertModel"),
        ({"architectures": ["BertModel"]}, "missing nothing, not known classifier.bias, classifier.weight"),
        (
            {"architectures": ["BertForQuestionAnswering"]},
            "missing qa_outputs.bias, qa_outputs.weight, not known class",
        ),
        ({"num_hidden_layers": 3}, "missing encoder.layer.2.attention.output.LayerNorm.bias"),
        ({"num_hidden_layers": 1}, "encoder.layer.1.output.dense.bias, encoder.layer.1.output.dense.weight"),
        ({"id2label": {"0": "no", "1": "yes"}}, "classifier.weight has torch.float32 of shape (3, 16), config.json"),
        ({"id2label": {"1": "no", "2": "yes"}}, "id2label has the numbers 1, 2; 2 labels count from 0"),
        ({"hidden_size": "wide"}, 'config.json, in our names: 1 problem\n  width = "wide": expected a whole number'),
        ({"vocab_size": None}, "vocab_size: is required and missing"),
        ({"vocab_size": 20}, "embeddings.word_embeddings.weight has torch.float32 of shape (24, 16)"),
        ({"pad_token_id": 3}, "padding is 0 to its tokenizer, to its model 3"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_config_of_another_computation_is_refused(changes, message, folder: Path) -> None:
    change_json(folder / "config.json", **changes)
    assert_refused(folder, str(folder), message)


@pytest.mark.parametrize("problem", ["regression", "multi_label_classification"])
def test_several_numbers_or_labels_for_a_text_are_refused(problem, tmp_path: Path) -> None:
    about = {"id2label": LABELS, "problem_type": problem}
    folder = write_theirs(tmp_path / "hf", make_theirs("BertForSequenceClassification", **about))
    assert_refused(folder, f"problem_type = '{problem}' with 3 labels: a text has one label, or one number")


def test_weights_that_are_not_floats_are_refused(folder: Path) -> None:
    change_tensors(folder, lambda old: {**old, "classifier.bias": torch.ones(3, dtype=torch.int8)})
    assert_refused(folder, "classifier.bias has torch.int8")


def test_a_classifier_of_unknown_purpose_is_refused(tmp_path: Path) -> None:
    folder = write_theirs(tmp_path / "hf", make_theirs("BertForSequenceClassification"))
    change_json(folder / "config.json", architectures=None)
    assert_refused(folder, "for texts or tokens", '"architectures": ["BertForSequenceClassification"]')


def test_a_head_for_sentences_alone_is_refused_without_its_name_too(tmp_path: Path) -> None:
    folder = write_theirs(tmp_path / "hf", make_theirs("BertForNextSentencePrediction"))
    change_json(folder / "config.json", architectures=None)
    assert_refused(folder, "answers like BertForNextSentencePrediction's")


def test_pickled_weights_are_refused_with_a_remedy(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert_refused(folder, "Pickled weights are not opened", "save_pretrained(")


def test_no_command_is_made_of_what_a_folder_says(tmp_path: Path) -> None:
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


def test_files_that_are_missing_or_damaged_are_named(folder: Path) -> None:
    assert_refused(folder / "nowhere", "nowhere/config.json: no such file")
    (folder / "vocab.txt").unlink()
    assert_refused(folder, "has neither tokenizer.json nor vocab.txt")
    (folder / "model.safetensors").unlink()
    assert_refused(folder, "has neither model.safetensors nor model.safetensors.index.json")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"classifier.bias": "model-1.safetensors"}}')
    assert_refused(folder, "model-1.safetensors named in model.safetensors.index.json is missing")
    (folder / "config.json").write_text("[]")
    assert_refused(folder, "config.json: expected a table of keys")
    (folder / "config.json").write_text("{")
    assert_refused(folder, "config.json: damaged, it is not JSON")


# tokenizers


def test_a_vocabulary_larger_than_the_table_or_far_smaller_is_refused(
    folder: Path,
) -> None:
    assert bert.read(folder)[2]["text"].vocab_size == 21  # for 24 vectors
    (folder / "vocab.txt").write_text("\n".join([*TOKENS, "b", "c", "d", "f"]))
    assert_refused(folder, "its tokenizer has 25 tokens, its model's table 24 rows")
    (folder / "vocab.txt").write_text("\n".join(TOKENS[:11]))
    assert_refused(folder, "its tokenizer has 11 tokens, its model's table 24 rows")


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
def test_their_tokenizer_reads_like_ours(settings, tmp_path: Path) -> None:
    ours = wordpiece(**settings)
    folder = write_ours(tmp_path / "hf", make_ours(NoHead()), ours)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode([text], orders=True)[0]
    one, two = ours.encode(["the child", "eats bread"])
    assert theirs("the child")["input_ids"] == [ours.begin, *one, ours.end]
    pair = theirs("the child", "eats bread")
    assert pair["input_ids"] == [ours.begin, *one, ours.end, *two, ours.end]
    assert pair["token_type_ids"] == [0] * (len(one) + 2) + [1] * (len(two) + 1)
    assert theirs.pad_token_id == ours.pad
    assert theirs.mask_token_id == ours.mask
    assert theirs.model_max_length == 12


def test_the_tokenizer_s_file_alone_puts_special_tokens_around_sentences(tmp_path: Path) -> None:
    ours = wordpiece()
    folder = write_ours(tmp_path / "hf", make_ours(NoHead()), ours)
    pair = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).encode("the child", "eats bread")
    assert pair.tokens == ["[CLS]", "the", "child", "[SEP]", "eats", "bread", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_vocabulary_alone_reads_like_the_tokenizer(settings, tmp_path: Path) -> None:
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


def test_a_vocabulary_without_its_special_tokens_is_refused(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    assert_refused(folder, "vocab.txt", "[PAD]")
