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
from regard.folders import write_whole
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
def test_a_saved_model_opens_as_it_was(tmp_path: Path, source) -> None:
    model = make(tmp_path / "mine", source)
    translator = regard.load(str(tmp_path / "mine"))
    tokens = torch.randint(1, 200, (2, 5))
    opened = library.tensors(translator.model)
    assert all(torch.equal(opened[name], tensor) for name, tensor in library.tensors(model).items())
    torch.testing.assert_close(translator.model(tokens, tokens), model(tokens, tokens), rtol=1e-5, atol=1e-6)
    assert not translator.model.training
    assert translator.source.encode(["eating"]) == source.encode(["eating"])
    assert (translator.source is translator.target) == (source is TOKENIZER)


def test_shared_tables_are_stored_once(tmp_path: Path) -> None:
    make(tmp_path / "mine")
    names = set(load_file(tmp_path / "mine" / "model.safetensors"))
    assert "target_embedding.weight" in names
    assert "source_embedding.weight" not in names


def test_half_precision_opens_in_full(tmp_path: Path) -> None:
    model = make(tmp_path / "mine", half=True)
    loaded = regard.load(str(tmp_path / "mine")).model
    assert loaded.target_embedding.weight.dtype == torch.float32
    assert torch.equal(loaded.target_embedding.weight, model.target_embedding.weight.half().float())


def test_a_run_means_its_best_model(tmp_path: Path) -> None:
    make(tmp_path / "run" / "model")
    assert library.find(str(tmp_path / "run")) == tmp_path / "run" / "model"


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="no model is at 'nowhere': neither a model's folder nor a run's"):
        library.find("nowhere")
    assert not hasattr(regard, "nothing")


def reseal(folder: Path, change) -> None:
    """Changes a folder and makes its hashes right again."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "hashes.json"}

    def fill(aside: Path) -> None:
        for name, data in files.items():
            (aside / name).write_bytes(data)
        change(aside)

    write_whole(folder, fill)


def test_damage_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    make(folder)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"model\.safetensors: damaged"):
        regard.load(str(folder))
    make(folder)
    reseal(folder, lambda aside: (aside / "model.safetensors").write_bytes(b"nonsense"))
    with pytest.raises(ValueError, match=r"model\.safetensors: damaged \("):
        regard.load(str(folder))


def test_weights_that_do_not_fit_the_config_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    make(folder)

    def change(aside: Path) -> None:
        tensors = load_file(aside / "model.safetensors")
        tensors["extra"] = tensors.pop("encoder.norm.bias")
        tensors["encoder.norm.weight"] = torch.zeros(3)
        save_file(tensors, aside / "model.safetensors")

    reseal(folder, change)
    with pytest.raises(ValueError, match="tensors do not match the config") as error:
        regard.load(str(folder))
    for part in (
        "encoder.norm.bias is missing",
        "extra is unexpected",
        "encoder.norm.weight has shape (3,), but the config requires",
    ):
        assert part in str(error.value)


def test_a_config_with_an_unknown_key_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    make(folder)

    def change(aside: Path) -> None:
        config = json.loads((aside / "config.json").read_text())
        (aside / "config.json").write_text(json.dumps({**config, "model": {**config["model"], "widht": 3}}))

    reseal(folder, change)
    with pytest.raises(
        ValueError, match=r"config\.json: 1 problem\n  model.widht = 3: no such key; did you mean width\?"
    ):
        regard.load(str(folder))


def test_a_model_is_packed_with_its_card(tmp_path: Path) -> None:
    make(tmp_path / "mine")
    library.convert(str(tmp_path / "mine"), str(tmp_path / "packed"), half=True, card="# Mine\n")
    weights = load_file(tmp_path / "packed" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert (tmp_path / "packed" / "README.md").read_text() == "# Mine\n"
    assert regard.load(str(tmp_path / "packed")).translate(["we"])
    with pytest.raises(ValueError, match="packed is there already"):
        library.convert(str(tmp_path / "mine"), str(tmp_path / "packed"))


def old(folder: Path, made: Path) -> None:
    """A folder as it was before folders had a format."""
    shutil.copytree(made, folder)
    config = {**json.loads((made / "config.json").read_text())["model"], "pad_id": 0}
    reseal(folder, lambda aside: (aside / "config.json").write_text(json.dumps(config)))


@pytest.mark.parametrize("source", [TOKENIZER, OTHER], ids=["joint", "separate"])
def test_an_older_folder_is_refused_with_the_command_that_converts_it(tmp_path: Path, source) -> None:
    make(tmp_path / "new", source)
    old(tmp_path / "old", tmp_path / "new")
    with pytest.raises(RegardError, match=r"older version of Regard; convert it: regard convert \S+old NEW"):
        regard.load(str(tmp_path / "old"))
    library.convert(str(tmp_path / "old"), str(tmp_path / "converted"))
    one, other = (regard.load(str(tmp_path / name)) for name in ("new", "converted"))
    assert one.translate("we are") == other.translate("we are")


def test_older_folders_of_every_system_are_converted(tmp_path: Path) -> None:
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
        old(tmp_path / "old" / name, tmp_path / "new" / name)
        library.convert(str(tmp_path / "old" / name), str(tmp_path / "converted" / name))
        contents = library.read(str(tmp_path / "converted" / name))
        assert contents.task == name.partition(",")[0]
        assert type(contents.codecs["text"]) is type(codec)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", 99, r"in format 99, but this version \(.*\) reads formats up to 2; update Regard"),
        ("task", "juggling", "models of kind 'transformer' are for translation, not for 'juggling'"),
        ("model", {"kind": "parrot"}, "no models are of kind 'parrot'; there are transformer"),
        ("codecs", {"source": {"kind": "pixels", "file": "tokenizer.json"}}, "no codec of kind 'pixels' for 'source'"),
        ("codecs", {"source": {"kind": "subword", "file": "../tokenizer.json"}}, "codecs.source.file"),
    ],
)
def test_what_a_folder_opens_as_is_read_and_never_guessed(tmp_path: Path, key, value, message) -> None:
    make(tmp_path / "mine")

    def change(aside: Path) -> None:
        about = json.loads((aside / "config.json").read_text())
        (aside / "config.json").write_text(json.dumps({**about, key: value}))

    reseal(tmp_path / "mine", change)
    with pytest.raises(RegardError, match=message):
        regard.load(str(tmp_path / "mine"))


def saved(folder: Path, head: AnyHead) -> dict[str, torch.Tensor]:
    """The weights of a BERT, all of them 1, in a folder."""
    model = texts.bert(head)
    weights = {name: torch.ones_like(tensor) for name, tensor in library.tensors(model).items()}
    library.save(folder, model.config, weights, {"text": texts.TOKENIZER}, "")
    return weights


def untrained(head: AnyHead, folder: Path, **changes) -> set[str]:
    """What of a model is not taken from a folder."""
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


def test_weights_to_begin_with_that_do_not_fit_are_named(tmp_path: Path) -> None:
    saved(tmp_path / "old", PretrainingHead())
    with pytest.raises(ValueError, match=r"layers\.2\..* is missing"):
        untrained(LABELLED, tmp_path / "old", layers=3)
    with pytest.raises(ValueError, match=r"layers\.1\..* is unexpected"):
        untrained(LABELLED, tmp_path / "old", layers=1)
    with pytest.raises(ValueError, match=r"positions.* has shape \(24, 8\), but the config requires \(12, 8\)"):
        untrained(PretrainingHead(), tmp_path / "old", context=12)
