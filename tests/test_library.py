import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
import texts
from regard import library
from regard.codecs.gpt2 import ByteBpe, CharacterTokenizer
from regard.codecs.subword import SubwordTokenizer
from regard.codecs.wordpiece import WordPiece
from regard.codecs.words import Words
from regard.errors import RegardError
from regard.folders import write_folder
from regard.models.bert import BertConfig
from regard.models.gpt2 import Gpt2Config
from regard.models.heads import AnyHead, ClassificationHead, NoHead, PretrainingHead, RegressionHead, TaggingHead
from regard.models.rnn_tagger import RnnTaggerConfig
from regard.models.transformer import TransformerConfig

TOKENIZER = SubwordTokenizer.train("bpe", 270, ["we are eating bread"])
OTHER = SubwordTokenizer.train("bpe", 265, ["estamos comiendo pan"])


def make(folder: Path, source: SubwordTokenizer = TOKENIZER, half: bool = False) -> torch.nn.Module:
    shared = source is TOKENIZER
    config = TransformerConfig(
        vocab_size=TOKENIZER.vocab_size, source_vocab_size=None if shared else source.vocab_size,
        width=8, heads=2, ff_width=8, encoder_layers=1, decoder_layers=1,
    )  # fmt: skip
    model = config.build().eval()
    weights = {name: t.half() if half else t for name, t in library.tensors(model).items()}
    library.save(folder, config, weights, {"source": source, "target": TOKENIZER}, "# A card\n")
    return model


@pytest.mark.parametrize("source", [TOKENIZER, OTHER], ids=["joint", "separate"])
def test_a_saved_model_loads_unchanged(tmp_path: Path, source) -> None:
    model = make(tmp_path / "mine", source)
    translator = regard.load(str(tmp_path / "mine"))
    tokens = torch.randint(1, 200, (2, 5))
    opened = library.tensors(translator.model)
    assert all(torch.equal(opened[name], tensor) for name, tensor in library.tensors(model).items())
    torch.testing.assert_close(translator.model(tokens, tokens), model(tokens, tokens), rtol=1e-5, atol=1e-6)
    assert not translator.model.training
    assert translator.source.encode(["eating"]) == source.encode(["eating"])
    assert (translator.source is translator.target) == (source is TOKENIZER)


def test_shared_embeddings_are_stored_once(tmp_path: Path) -> None:
    make(tmp_path / "mine")
    names = set(load_file(tmp_path / "mine" / "model.safetensors"))
    assert "target_embedding.weight" in names
    assert "source_embedding.weight" not in names


def test_half_precision_weights_are_loaded_as_float32(tmp_path: Path) -> None:
    model = make(tmp_path / "mine", half=True)
    loaded = regard.load(str(tmp_path / "mine")).model
    assert loaded.target_embedding.weight.dtype == torch.float32
    assert torch.equal(loaded.target_embedding.weight, model.target_embedding.weight.half().float())


def test_a_run_folder_is_loaded_as_its_best_model(tmp_path: Path) -> None:
    make(tmp_path / "run" / "model")
    assert library.find(str(tmp_path / "run")) == tmp_path / "run" / "model"


def test_a_missing_model_is_reported() -> None:
    with pytest.raises(ValueError, match="no model at 'nowhere': it is neither a model folder, nor a run folder"):
        library.find("nowhere")
    assert not hasattr(regard, "nothing")


def change_folder(folder: Path, change) -> None:
    """Changes the files of a folder and updates its hashes."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "hashes.json"}

    def fill(temporary: Path) -> None:
        for name, data in files.items():
            (temporary / name).write_bytes(data)
        change(temporary)

    write_folder(folder, fill)


def test_damaged_files_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    make(folder)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"model\.safetensors: damaged"):
        regard.load(str(folder))
    make(folder)
    change_folder(folder, lambda temporary: (temporary / "model.safetensors").write_bytes(b"nonsense"))
    with pytest.raises(ValueError, match=r"model\.safetensors: damaged \("):
        regard.load(str(folder))


def test_weights_that_do_not_match_the_config_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    make(folder)

    def change(temporary: Path) -> None:
        tensors = load_file(temporary / "model.safetensors")
        tensors["extra"] = tensors.pop("encoder.norm.bias")
        tensors["encoder.norm.weight"] = torch.zeros(3)
        save_file(tensors, temporary / "model.safetensors")

    change_folder(folder, change)
    with pytest.raises(ValueError, match="tensors do not match the config") as error:
        regard.load(str(folder))
    for part in (
        "encoder.norm.bias is missing",
        "extra is unexpected",
        "encoder.norm.weight has shape (3,), but the config requires",
    ):
        assert part in str(error.value)


def test_an_unknown_config_key_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    make(folder)

    def change(temporary: Path) -> None:
        config = json.loads((temporary / "config.json").read_text())
        (temporary / "config.json").write_text(json.dumps({**config, "model": {**config["model"], "widht": 3}}))

    change_folder(folder, change)
    with pytest.raises(
        ValueError, match=r"config\.json: 1 problem\n  model.widht = 3: no such key; did you mean width\?"
    ):
        regard.load(str(folder))


def test_the_card_of_a_converted_model_names_no_folder(tmp_path: Path) -> None:
    make(tmp_path / "secret" / "mine" / "model")
    library.convert(str(tmp_path / "secret" / "mine"), str(tmp_path / "packed"))
    text = (tmp_path / "packed" / "README.md").read_text()
    fingerprint = library.fingerprint(str(tmp_path / "secret" / "mine"))[:16]
    assert text == f"# packed\n\nConverted with Regard from mine (hash of the weights: {fingerprint}).\n"


def test_weights_beyond_16_bits_are_not_stored_in_them(tmp_path: Path) -> None:
    make(tmp_path / "mine")
    contents = library.read(str(tmp_path / "mine"))
    weights = {name: torch.full_like(tensor, 1e6) for name, tensor in contents.weights.items()}
    library.save(tmp_path / "large", contents.config, weights, contents.codecs, "")
    with pytest.raises(RegardError, match="in 16 bits: .* contains NaN or infinity"):
        library.convert(str(tmp_path / "large"), str(tmp_path / "packed"), half=True)
    assert not (tmp_path / "packed").exists()


def test_a_model_is_converted_to_half_precision_with_a_card(tmp_path: Path) -> None:
    make(tmp_path / "mine")
    library.convert(str(tmp_path / "mine"), str(tmp_path / "packed"), half=True, card="# Mine\n")
    weights = load_file(tmp_path / "packed" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert (tmp_path / "packed" / "README.md").read_text() == "# Mine\n"
    assert regard.load(str(tmp_path / "packed")).translate(["we"])
    with pytest.raises(ValueError, match="packed already exists"):
        library.convert(str(tmp_path / "mine"), str(tmp_path / "packed"))


def write_old_format(folder: Path, made: Path) -> None:
    """Writes a copy of a model folder in the old layout without a format number."""
    shutil.copytree(made, folder)
    config = {**json.loads((made / "config.json").read_text())["model"], "pad_id": 0}
    change_folder(folder, lambda temporary: (temporary / "config.json").write_text(json.dumps(config)))


@pytest.mark.parametrize("source", [TOKENIZER, OTHER], ids=["joint", "separate"])
def test_an_old_format_is_refused_with_the_command_that_converts_it(tmp_path: Path, source) -> None:
    make(tmp_path / "new", source)
    write_old_format(tmp_path / "old", tmp_path / "new")
    with pytest.raises(RegardError, match=r"older version of Regard; convert it: regard convert \S+old NEW"):
        regard.load(str(tmp_path / "old"))
    library.convert(str(tmp_path / "old"), str(tmp_path / "converted"))
    one, other = (regard.load(str(tmp_path / name)) for name in ("new", "converted"))
    assert one.translate("we are") == other.translate("we are")


def test_old_formats_of_every_system_are_converted(tmp_path: Path) -> None:
    texts = ["the dog ran", "a cat sat"]
    words = Words.learn([text.split() for text in texts], 1)
    pieces, pairs, characters = WordPiece.train(60, texts), ByteBpe.train(280, texts), CharacterTokenizer.learn(texts)
    small = {"width": 8, "heads": 2, "ff_width": 8, "layers": 1}
    made = {
        "tagging": (BertConfig(**pieces.sizes(), **small, head=TaggingHead(labels=("A", "B"))), pieces),
        "pretraining": (BertConfig(**pieces.sizes(), **small), pieces),
        "word_tagging": (RnnTaggerConfig(**words.sizes(), labels=("A", "B"), width=8), words),
        "completion": (Gpt2Config(**pairs.sizes(), **small), pairs),
        "completion, characters": (Gpt2Config(**characters.sizes(), **small), characters),
    }
    for name, (config, codec) in made.items():
        library.save(tmp_path / "new" / name, config, library.tensors(config.build()), {"text": codec}, "")
        write_old_format(tmp_path / "old" / name, tmp_path / "new" / name)
        library.convert(str(tmp_path / "old" / name), str(tmp_path / "converted" / name))
        contents = library.read(str(tmp_path / "converted" / name))
        assert contents.task == name.partition(",")[0]
        assert type(contents.codecs["text"]) is type(codec)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", 99, r"in format 99, but this version \(.*\) reads formats up to 2; update Regard"),
        ("task", "juggling", "models of kind 'transformer' have no task 'juggling'; choose translation"),
        ("model", {"kind": "parrot"}, "unknown kind of model 'parrot'; choose transformer"),
        (
            "codecs",
            {"source": {"kind": "pixels", "file": "tokenizer.json"}},
            "cannot use a codec of kind 'pixels' as 'source'",
        ),
        ("codecs", {"source": {"kind": "subword", "file": "../tokenizer.json"}}, "codecs.source.file"),
    ],
)
def test_an_invalid_format_task_model_or_codec_is_reported(tmp_path: Path, key, value, message) -> None:
    make(tmp_path / "mine")

    def change(temporary: Path) -> None:
        about = json.loads((temporary / "config.json").read_text())
        (temporary / "config.json").write_text(json.dumps({**about, key: value}))

    change_folder(tmp_path / "mine", change)
    with pytest.raises(RegardError, match=message):
        regard.load(str(tmp_path / "mine"))


def saved(folder: Path, head: AnyHead) -> dict[str, torch.Tensor]:
    """Saves a BERT whose weights are all 1, and returns the weights."""
    model = texts.bert(head)
    weights = {name: torch.ones_like(tensor) for name, tensor in library.tensors(model).items()}
    library.save(folder, model.config, weights, {"text": texts.TOKENIZER}, "")
    return weights


def untrained(head: AnyHead, folder: Path, **changes) -> set[str]:
    """The names of tensors that are not initialised from the folder."""
    model = texts.bert(head, **changes)
    before = {name: tensor.clone() for name, tensor in library.tensors(model).items()}
    library.load_initial(model, library.read(str(folder)))
    after = library.tensors(model)
    taken = {name for name, tensor in after.items() if torch.equal(tensor, torch.ones_like(tensor))}
    assert all(torch.equal(before[name], after[name]) for name in after.keys() - taken)
    return set(after) - taken


LABELLED, OTHERWISE = ClassificationHead(labels=("a", "b")), ClassificationHead(labels=("a", "c"))
NEXT, POOLER = {"head.next.weight", "head.next.bias"}, {"pooler.weight", "pooler.bias"}
LINEAR = {"head.1.weight", "head.1.bias"}


@pytest.mark.parametrize(
    ("old", "new", "fresh"),
    [
        (LABELLED, LABELLED, set()),
        (LABELLED, OTHERWISE, LINEAR),
        (LABELLED, RegressionHead(), LINEAR),
        (PretrainingHead(), LABELLED, LINEAR),
        (TaggingHead(labels=("a", "b")), LABELLED, LINEAR | POOLER),
        (LABELLED, TaggingHead(labels=("a", "b")), LINEAR),
        (PretrainingHead(), PretrainingHead(), set()),
        (PretrainingHead(), PretrainingHead(pooled=False), set()),
        (PretrainingHead(pooled=False), PretrainingHead(), NEXT | POOLER),
        (NoHead(), NoHead(pooled=False), set()),
    ],
)
def test_only_a_head_for_another_task_starts_untrained(tmp_path: Path, old, new, fresh) -> None:
    saved(tmp_path / "old", old)
    assert untrained(new, tmp_path / "old") == fresh


def test_initial_weights_that_do_not_match_are_reported(tmp_path: Path) -> None:
    saved(tmp_path / "old", PretrainingHead())
    with pytest.raises(ValueError, match=r"layers\.2\..* is missing"):
        untrained(LABELLED, tmp_path / "old", layers=3)
    with pytest.raises(ValueError, match=r"layers\.1\..* is unexpected"):
        untrained(LABELLED, tmp_path / "old", layers=1)
    with pytest.raises(ValueError, match=r"positions.* has shape \(24, 8\), but the config requires \(12, 8\)"):
        untrained(PretrainingHead(), tmp_path / "old", context=12)
