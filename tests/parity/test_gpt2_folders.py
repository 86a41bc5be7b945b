"""Import and export of Hugging Face GPT-2 folders: accepted variants, refused ones, and tokenizers."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from changed_folders import assert_same_tensors, change_json, change_tensors
from helpers import randomise
from regard.codecs.gpt2 import END, FILES, ByteBpe, CharacterTokenizer, LosslessTokenizer
from regard.interop import gpt2
from regard.models.gpt2 import Gpt2Config

transformers = pytest.importorskip("transformers")

TOKENIZER = ByteBpe.train(270, ["the child eats the bread, the child eats the stone"])
TEXTS = ["The child eats bread.", " é 日\n\n the  child'll ", "", "\t\x00 the the"]
CONFIG = Gpt2Config(
    vocab_size=272, width=8, heads=2, ff_width=12, layers=2, context=12, activation="swish", norm_eps=1e-3, dropout=0.2
)


def write_ours(folder: Path, tokenizer: LosslessTokenizer = TOKENIZER) -> dict[str, Tensor]:
    """Writes a model with random weights and returns the weights."""
    weights = randomise(CONFIG.build()).float().state_dict()
    folder.mkdir()
    gpt2.write(folder, CONFIG, weights, {"text": tokenizer})
    return weights


def assert_refused(folder: Path, *messages: str) -> None:
    with pytest.raises(ValueError, match="(?s)" + ".*".join(re.escape(message) for message in messages)):
        gpt2.read(folder)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as Hugging Face writes it."""
    folder = tmp_path_factory.mktemp("hf")
    write_ours(folder / "ours")
    transformers.GPT2LMHeadModel.from_pretrained(folder / "ours").save_pretrained(folder / "theirs")
    transformers.AutoTokenizer.from_pretrained(folder / "ours").save_pretrained(folder / "theirs")
    return folder / "theirs"


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy of a folder, for a test to change."""
    return shutil.copytree(original, tmp_path / "changed")


def test_a_written_model_is_read_back_unchanged(tmp_path: Path) -> None:
    weights = write_ours(tmp_path / "hf")
    config, again, codecs = gpt2.read(tmp_path / "hf")
    tokenizer = codecs["text"]
    assert config == CONFIG
    assert_same_tensors(again, weights)
    assert tokenizer.encode(TEXTS) == TOKENIZER.encode(TEXTS)
    assert tokenizer.end == TOKENIZER.end


# accepted folders


def test_a_folder_saved_by_hugging_face_is_read_back_unchanged(original: Path) -> None:
    config, weights, codecs = gpt2.read(original)
    tokenizer = codecs["text"]
    ours = gpt2.read(original.parent / "ours")
    assert config == ours[0]
    assert_same_tensors(weights, ours[1])
    assert isinstance(tokenizer, ByteBpe)
    assert tokenizer.encode(TEXTS) == TOKENIZER.encode(TEXTS)


def test_sharded_weights_are_read_like_one_file(original: Path, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    transformers.GPT2LMHeadModel.from_pretrained(original).save_pretrained(folder, max_shard_size="5KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    assert_same_tensors(gpt2.read(folder)[1], gpt2.read(original)[1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_weights_are_converted_to_float32(dtype, original: Path, folder: Path) -> None:
    change_tensors(folder, lambda old: {name: x.to(dtype) for name, x in old.items()})
    rounded = {name: x.to(dtype).float() for name, x in gpt2.read(original)[1].items()}
    assert_same_tensors(gpt2.read(folder)[1], rounded)


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_files_of_old_versions_load_with_or_without_a_prefix(prefix, original: Path, folder: Path) -> None:
    masks = {"h.0.attn.bias": torch.ones(1, 1, 12, 12).tril(), "h.0.attn.masked_bias": torch.tensor(-1e4)}

    def rewrite(old: dict[str, Tensor]) -> dict[str, Tensor]:
        plain = {name.removeprefix("transformer."): x for name, x in old.items()}
        return {f"{prefix}{name}": x for name, x in {**plain, **masks}.items()}

    change_tensors(folder, rewrite)
    assert_same_tensors(gpt2.read(folder)[1], gpt2.read(original)[1])


def test_a_stored_output_layer_must_equal_the_embedding(original: Path, folder: Path) -> None:
    tied = load_file(folder / "model.safetensors")["transformer.wte.weight"].clone()
    change_tensors(folder, lambda old: {**old, "lm_head.weight": tied})
    assert_same_tensors(gpt2.read(folder)[1], gpt2.read(original)[1])
    change_tensors(folder, lambda old: {**old, "lm_head.weight": tied + 1})
    assert_refused(folder, "lm_head.weight differs from wte.weight; only tied output layers can be converted")


def test_missing_config_keys_of_old_versions_have_defaults() -> None:
    about = {"vocab_size": 9, "n_embd": 8, "n_head": 2, "n_layer": 2, "n_ctx": 16, "reorder_and_upcast_attn": True}
    expected = Gpt2Config(vocab_size=9, width=8, heads=2, layers=2, ff_width=32, context=16)
    assert gpt2.read_config(about) == expected
    assert gpt2.read_config({**about, "n_inner": None, "architectures": None}) == expected
    assert gpt2.read_config({**about, "n_inner": 5, "n_positions": 12}).ff_width == 5
    assert gpt2.read_config({**about, "n_positions": 12}).context == 12


# refused folders


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eos_token_id": 7}, "eos_token_id = 7; only models whose texts end with '<|endoftext|>' can be converted"),
        ({"model_type": "gpt_neo"}, "model_type = 'gpt_neo'; only 'gpt2' can be converted"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = True; only False can be"),
        ({"scale_attn_weights": False}, "scale_attn_weights = False; only True"),
        ({"add_cross_attention": True}, "add_cross_attention = True; only False"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings = False; only True"),
        ({"activation_function": "quick_gelu"}, "activation_function = 'quick_gelu' is not supported; supported: gelu"),
        ({"architectures": ["GPT2ForSequenceClassification"]}, "architecture GPT2ForSequenceClassification is not"),
        ({"n_layer": 3}, "missing h.2.attn.c_attn.bias, h.2.attn.c_attn.weight, h.2.attn.c_proj.bias"),
        ({"n_layer": 1}, "missing none; unexpected h.1.attn.c_attn.bias, h.1.attn.c_attn.weight"),
        ({"n_inner": 16}, "mlp.c_fc.weight is torch.float32 of shape (8, 12), but config.json requires floats of (8"),
        ({"n_embd": "wide"}, 'config.json, with our key names: 1 problem\n  width = "wide": expected a whole number'),
        ({"n_head": 3}, "width = 8: not divisible by heads = 3"),
        ({"vocab_size": None}, "vocab_size: is required and missing"),
        ({"vocab_size": 300}, "wte.weight is torch.float32 of shape (272, 8)"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_unsupported_configs_are_refused(changes, message, folder: Path) -> None:
    change_json(folder / "config.json", **changes)
    assert_refused(folder, str(folder), message)


def test_missing_and_unexpected_tensors_are_listed(folder: Path) -> None:
    def rename(old: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name.replace("ln_f.bias", "ln_g.bias"): x for name, x in old.items()}

    change_tensors(folder, rename)
    assert_refused(folder, str(folder), "not a GPT-2 with this config.json: missing ln_f.bias; unexpected ln_g.bias")


def test_weights_with_a_non_float_dtype_are_refused(folder: Path) -> None:
    change_tensors(folder, lambda old: {**old, "transformer.ln_f.bias": torch.ones(8, dtype=torch.int8)})
    assert_refused(folder, "ln_f.bias is torch.int8")


def test_weight_matrices_of_the_wrong_shape_are_refused(folder: Path) -> None:
    name = "transformer.h.0.mlp.c_fc.weight"
    change_tensors(folder, lambda old: {**old, name: old[name].T.contiguous()})
    assert_refused(folder, "h.0.mlp.c_fc.weight is torch.float32 of shape (12, 8), but config.json requires", "(8, 12)")


def test_missing_files_are_reported(folder: Path) -> None:
    for name in ("tokenizer.json", "vocab.json", "merges.txt"):
        (folder / name).unlink(missing_ok=True)
    assert_refused(folder, "neither vocab.json with merges.txt nor encoder.json with vocab.bpe")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert_refused(folder, "Pickled weights are not opened")


# tokenizers


@pytest.mark.parametrize("names", FILES)
def test_vocabulary_and_merges_alone_give_the_same_tokens(names, tmp_path: Path) -> None:
    folder = tmp_path / "hf"
    write_ours(folder)
    (folder / "tokenizer.json").unlink()
    for written, name in zip(FILES[0], names, strict=True):
        (folder / written).rename(folder / name)
    tokenizer = gpt2.read(folder)[2]["text"]
    assert tokenizer.encode(TEXTS) == TOKENIZER.encode(TEXTS)
    assert (tokenizer.vocab_size, tokenizer.end, tokenizer.begin) == (270, TOKENIZER.end, TOKENIZER.begin)


def test_a_vocabulary_larger_than_the_embedding_table_is_refused(folder: Path) -> None:
    assert gpt2.read(folder)[2]["text"].vocab_size == 270  # the embedding table has 272 rows
    larger = ByteBpe.train(273, ["the child eats the bread, the child eats the stone and the stone"])
    assert larger.vocab_size == 273
    larger.save(folder / "tokenizer.json")
    assert_refused(folder, "the tokenizer has 273 tokens, the embedding 272 rows; do they belong to the same model?")


def test_a_tokenizer_of_another_kind_is_refused(folder: Path) -> None:
    tokenizers.Tokenizer(tokenizers.models.Unigram()).save(str(folder / "tokenizer.json"))
    assert_refused(folder, "tokenizer.json", "expected BPE")


def test_a_tokenizer_with_add_prefix_space_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    change_json(folder / "tokenizer_config.json", add_prefix_space=True)
    assert_refused(folder, "tokenizer_config.json: add_prefix_space = true")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Regard's tokenizer, loaded by Hugging Face's library."""
    folder = tmp_path_factory.mktemp("hf") / "hf"
    write_ours(folder)
    return transformers.AutoTokenizer.from_pretrained(folder)


@settings(max_examples=100)
@given(
    st.text(max_size=40) | st.lists(st.sampled_from(["the", " ", "child", "é", "\n", "'s", "日", "12"])).map("".join)
)
def test_the_hugging_face_tokenizer_encodes_and_decodes_the_same(theirs, text) -> None:
    (ours,) = TOKENIZER.encode([text])
    assert theirs(text)["input_ids"] == ours
    assert theirs.decode(ours) == text


def test_the_hugging_face_tokenizer_has_the_end_token_and_the_maximum_length(theirs) -> None:
    assert theirs.eos_token == theirs.bos_token == END
    assert theirs.eos_token_id == theirs.bos_token_id == TOKENIZER.end
    assert len(theirs) == TOKENIZER.vocab_size
    assert theirs.model_max_length == CONFIG.context


def test_the_generation_config_has_the_end_token(original: Path) -> None:
    model = transformers.GPT2LMHeadModel.from_pretrained(original.parent / "ours")
    for config in (model.config, model.generation_config):
        assert (config.bos_token_id, config.eos_token_id) == (TOKENIZER.end, TOKENIZER.end)


def test_a_character_tokenizer_encodes_the_same_in_hugging_face(tmp_path: Path) -> None:
    ours = CharacterTokenizer.learn(["the child's\n bread, é日 \t", "".join(map(chr, range(0x400, 0x480)))])
    weights = write_ours(tmp_path / "hf", ours)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    texts = ["the bread", "  he \n\n'ate\t", "日é,", ""]
    assert [theirs(text)["input_ids"] for text in texts] == ours.encode(texts)
    assert [theirs.decode(tokens) for tokens in ours.encode(texts)] == texts
    assert len(theirs) == ours.vocab_size
    config, again, codecs = gpt2.read(tmp_path / "hf")
    tokenizer = codecs["text"]
    assert config == CONFIG
    assert_same_tensors(again, weights)
    assert isinstance(tokenizer, CharacterTokenizer)
    assert tokenizer.encode(texts) == ours.encode(texts)
    generation = transformers.GenerationConfig.from_pretrained(tmp_path / "hf")
    assert (generation.bos_token_id, generation.eos_token_id) == (ours.begin, None)


def test_a_tokenizer_without_an_end_token_has_none_in_hugging_face(tmp_path: Path) -> None:
    engine = json.loads(TOKENIZER.to_json())
    ours = ByteBpe(tokenizers.Tokenizer.from_str(json.dumps({**engine, "added_tokens": []})))
    assert ours.end is None
    write_ours(tmp_path / "hf", ours)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert len(theirs) == ours.vocab_size
    assert theirs.eos_token is None
    assert theirs(TEXTS[0])["input_ids"] == ours.encode(TEXTS)[0]
