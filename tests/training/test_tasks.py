"""All tasks use the same training loop: they learn, and resumed runs are bit-identical."""

import io
import json
import shutil
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

import regard
from regard import library
from regard.config import ConfigError
from regard.data.glue import TASKS
from regard.recipe import read
from regard.recipe import training as training_of
from regard.tasks.classification import Classifier
from regard.tasks.pretraining import MaskFiller
from regard.tasks.tagging import PieceTagger, WordTagger
from regard.training.loop import Training
from regard.training.report import Report
from regard.training.task import SummedLoss, Tally

SMALL = [
    "model.preset=tiny",
    "model.width=32",
    "model.ff_width=64",
    "tokenizer.vocab_size=120",
    "train.batch_tokens=600",
    "model.dropout=0.0",
]
NOUNS, VERBS, ENDS = ["dog", "cat", "child", "king"], ["saw", "fed", "knew", "met"], ["bread", "fish", "milk", "rice"]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Documents, a task of GLUE, and tagged sentences of one small language."""
    folder = tmp_path_factory.mktemp("data")
    for number, noun in enumerate(NOUNS):
        # each document is about one noun
        text = " ".join(f"The {noun} {VERBS[i % 4]} the {ENDS[i // 4 % 4]}." for i in range(number, number + 64))
        (folder / f"{noun}.txt").write_text(text)
    (folder / "SST-2").mkdir()
    rows = [f"the {n} {v} the {e}\t{int(n in NOUNS[:2])}" for n in NOUNS for v in VERBS for e in ENDS]
    for name in ("train", "dev"):
        (folder / "SST-2" / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    (folder / "STS-B").mkdir()
    pairs = [f"the {n} {v}\tthe {e}\t{5.0 * (n in NOUNS[:2])}" for n in NOUNS for v in VERBS for e in ENDS]
    for name in ("train", "dev"):
        (folder / "STS-B" / f"{name}.tsv").write_text("\n".join(["sentence1\tsentence2\tlabel", *pairs]) + "\n")
    lines = []
    for n, v, e in ((n, v, e) for n in NOUNS for v in VERBS for e in ENDS):
        tagged = [("the", "DET"), (n, "NOUN"), (v, "VERB"), ("the", "DET"), (e, "NOUN")]
        lines += [f"{i}\t{word}\t_\t{tag}" + "\t_" * 6 for i, (word, tag) in enumerate(tagged, start=1)] + [""]
    (folder / "tags.conllu").write_text("\n".join(lines) + "\n")
    return folder


def start(name: str, run: Path, *changes: str) -> Training:
    return training_of(read(name, [f"run={run}", *changes]), Report(Console(quiet=True)))


def log(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def pretrained(data: Path, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "bert"
    changes = [f"data.text={data}/*.txt", "data.max_length=32", "train.steps=250", "train.learning_rate=3e-3"]
    start(
        "bert/pretrain", run, *SMALL, *changes, "train.validate_every=125", "train.warmup=20", "train.ema=0.9"
    ).train()
    return run


def test_pretraining_learns_to_predict_masked_words(pretrained: Path) -> None:
    values = [line for line in log(pretrained) if "valid_loss" in line]
    assert values[-1]["valid_mlm_loss"] < 2  # perplexity of about 7, of a vocabulary of about 40 subwords
    assert values[-1]["valid_loss"] == pytest.approx(values[-1]["valid_mlm_loss"] + values[-1]["valid_nsp_loss"])
    metrics = next(line for line in log(pretrained) if "mlm_accuracy" in line)
    assert metrics["loss"] == pytest.approx(metrics["mlm_loss"] + metrics["nsp_loss"])
    filler = regard.load(str(pretrained))
    assert isinstance(filler, MaskFiller)
    ((best, *_),) = filler.fill("the dog [MASK] the bread.")
    assert best.word in VERBS


def test_resumed_pretraining_is_bit_identical(data: Path, tmp_path: Path) -> None:
    changes = [
        *SMALL,
        f"data.text={data}/*.txt",
        "data.max_length=32",
        "train.validate_every=5",
        "train.checkpoint_every=5",
    ]
    uninterrupted = start("bert/pretrain", tmp_path / "uninterrupted", *changes, "train.steps=10")
    uninterrupted.train()
    killed = start("bert/pretrain", tmp_path / "killed", *changes, "train.steps=10")

    def save_and_die() -> None:
        Training.save(killed)
        raise KeyboardInterrupt

    killed.save = save_and_die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        killed.train()
    assert killed.state.step == 5
    start("bert/pretrain", tmp_path / "killed", *changes, "train.steps=10").train()
    one, other = (load_file(tmp_path / name / "last" / "model.safetensors") for name in ("uninterrupted", "killed"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_pretrained_model_is_fine_tuned_with_a_new_head(data: Path, pretrained: Path, tmp_path: Path) -> None:
    changes = ["task=sst2", f"data.folder={data}", f"model.init={pretrained}", "train.learning_rate=1e-30"]
    training = start("bert/glue", tmp_path / "run", *changes, "train.steps=1", "data.max_length=16")
    training.train()
    old, new = (load_file(run / "model" / "model.safetensors") for run in (pretrained, tmp_path / "run"))
    kept = {name for name in old if not name.startswith("head.")}
    assert kept == {name for name in new if not name.startswith("head.")}
    assert all(torch.allclose(old[name], new[name], atol=1e-6) for name in kept)
    assert training.task.config.head.labels == TASKS["sst2"].labels


@pytest.mark.parametrize("name", ["bert/glue", "bert/tag"])
def test_texts_are_truncated_to_the_context_of_an_initial_model(pretrained: Path, tmp_path: Path, name) -> None:
    text = "the dog saw the fish " * 60
    (tmp_path / "SST-2").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "SST-2" / f"{split}.tsv").write_text(f"sentence\tlabel\n{text}\t1\nthe king\t0\n")
    rows = [f"{i}\t{word}\t_\t{'XY'[i % 2]}" + "\t_" * 6 for i, word in enumerate(text.split(), start=1)]
    (tmp_path / "tags.conllu").write_text("\n".join(rows) + "\n\n")
    files = {
        "bert/glue": ["task=sst2", f"data.folder={tmp_path}"],
        "bert/tag": [f"data.train={tmp_path}/tags.conllu", f"data.valid={tmp_path}/tags.conllu"],
    }
    changes = [*files[name], f"model.init={pretrained}", "train.steps=1"]
    training = start(name, tmp_path / "run", *changes)
    assert [count["truncated"] for count in training.counts] == [1, 1]
    assert training.batches.examples.max_length == training.model.limit < len(text.split())


def test_each_glue_task_has_its_own_run_folder(pretrained: Path) -> None:
    assert read("bert/glue", ["task=sst2", f"model.init={pretrained}"]).run == "runs/sst2"
    assert read("bert/glue", ["task=sst2", "run=runs/other"]).run == "runs/other"
    assert read("bert/glue").run == "runs/sst2"  # the default task; runs/glue belongs to regard glue
    with pytest.raises(ConfigError, match=r"model\.head: is determined by the data; leave it out"):
        read("bert/pretrain", ["model.head.pooled=false"])


def test_nsp_pretraining_can_be_initialised_from_a_model_without_an_nsp_head(
    data: Path, pretrained: Path, tmp_path: Path
) -> None:
    changes = [f"data.text={data}/*.txt", "data.max_length=32", "train.steps=1", "train.learning_rate=1e-30"]
    start("bert/pretrain", tmp_path / "words", *changes, f"model.init={pretrained}", "data.next_sentence=false").train()
    start("bert/pretrain", tmp_path / "both", *changes, f"model.init={tmp_path / 'words'}").train()
    old, words, both = (
        load_file(run / "model/model.safetensors") for run in (pretrained, tmp_path / "words", tmp_path / "both")
    )
    assert not {name for name in words if name.startswith(("pooler", "head.next"))}
    assert old.keys() == both.keys()
    for name in words:
        assert torch.allclose(old[name], words[name], atol=1e-6), name
        assert torch.allclose(old[name], both[name], atol=1e-6), name
    assert not torch.allclose(old["head.next.weight"], both["head.next.weight"], atol=1e-6)


def test_resuming_with_a_changed_initial_model_is_an_error(data: Path, pretrained: Path, tmp_path: Path) -> None:
    shutil.copytree(pretrained / "model", tmp_path / "model")
    changes = [
        "task=sst2",
        f"data.folder={data}",
        f"model.init={tmp_path / 'model'}",
        "train.steps=1",
        "data.max_length=16",
    ]
    start("bert/glue", tmp_path / "run", *changes).train()
    other = {name: tensor + 1 for name, tensor in load_file(tmp_path / "model/model.safetensors").items()}
    contents = library.read(str(tmp_path / "model"))
    library.save(tmp_path / "model", contents.config, other, contents.codecs, "")
    with pytest.raises(ValueError, match="have changed since it started"):
        start("bert/glue", tmp_path / "run", *changes)


def test_the_padding_token_of_a_vocabulary_file_may_have_any_id(data: Path, tmp_path: Path) -> None:
    tokens = ["[MASK]", "[PAD]", "[UNK]", "[CLS]", "[SEP]", *NOUNS, *VERBS, *ENDS, "the", "."]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n")
    vocabulary = [f"tokenizer.vocabulary={tmp_path}/vocab.txt", "train.steps=1"]
    training = start(
        "bert/pretrain", tmp_path / "run", *SMALL, *vocabulary, f"data.text={data}/*.txt", "data.max_length=32"
    )
    assert training.task.tokenizer.pad == 1
    padded = [batch for batch in training.batches.epoch(0) if batch.is_padding_BT is not None]
    assert padded
    assert all(torch.equal(batch.is_padding_BT, batch.tokens_BT == 1) for batch in padded)
    assert training.task.config.vocab_size == len(tokens)
    (tmp_path / "vocab.txt").write_text("the\n")
    with pytest.raises(ValueError, match=r"vocab\.txt: the vocabulary lacks \[PAD\]"):
        start("bert/pretrain", tmp_path / "other", *SMALL, *vocabulary, f"data.text={data}/*.txt", "data.max_length=32")


@pytest.mark.parametrize("name", ["bert/glue", "tag/rnn"])
def test_a_resumed_run_of_any_task_is_bit_identical(data: Path, pretrained: Path, tmp_path: Path, name) -> None:
    if name == "bert/glue":
        changes = ["task=sst2", f"data.folder={data}", f"model.init={pretrained}", "data.max_length=16"]
    else:
        changes = [f"data.train={data}/tags.conllu", f"data.valid={data}/tags.conllu"]
    changes += ["train.checkpoint_every=3", "train.validate_every=3", "train.epochs=1000", "train.schedule=constant"]
    for run, steps in (("uninterrupted", [6]), ("resumed", [3, 6])):
        for step in steps:
            start(name, tmp_path / run, *changes, "train.cooldown=0.0", f"train.steps={step}").train()
    one, other = (load_file(tmp_path / run / "last/model.safetensors") for run in ("uninterrupted", "resumed"))
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_tagger_for_other_tags_is_initialised_except_for_its_output_layer(data: Path, tmp_path: Path) -> None:
    files = [f"data.train={data}/tags.conllu", f"data.valid={data}/tags.conllu"]
    start("tag/rnn", tmp_path / "one", *files, "train.steps=1").train()
    text = (data / "tags.conllu").read_text().replace("NOUN", "THING")
    (tmp_path / "other.conllu").write_text(text)
    files = [f"data.train={tmp_path}/other.conllu", f"data.valid={tmp_path}/other.conllu"]
    init = [f"model.init={tmp_path / 'one'}", "train.steps=1", "train.learning_rate=1e-30"]
    start("tag/rnn", tmp_path / "two", *files, *init).train()
    one, two = (load_file(tmp_path / run / "model/model.safetensors") for run in ("one", "two"))
    assert torch.allclose(one["encoder.kernel.weight_ih_l0"], two["encoder.kernel.weight_ih_l0"], atol=1e-5)
    assert not torch.allclose(one["output.weight"], two["output.weight"], atol=1e-5)


def test_a_metric_is_a_mean_over_its_own_units() -> None:
    tally = Tally()
    for texts, tokens, loss in ((1, 100, 4.0), (3, 10, 3.0)):
        tally.counts.update({"texts": texts, "tokens": tokens})
        tally.add({"texts": SummedLoss(torch.tensor(loss), {"loss": torch.tensor(loss)})})
    assert tally.means() == {"loss": 7 / 4}


def test_a_fine_tuned_model_classifies(data: Path, pretrained: Path, tmp_path: Path) -> None:
    changes = ["task=sst2", f"data.folder={data}", f"model.init={pretrained}", "train.learning_rate=3e-3"]
    start(
        "bert/glue", tmp_path / "run", *changes, "train.epochs=20", "train.warmup=5", "train.validate_every=20"
    ).train()
    assert max(line["valid_accuracy"] for line in log(tmp_path / "run") if "valid_accuracy" in line) == 1
    classifier = regard.load(str(tmp_path / "run"))
    assert isinstance(classifier, Classifier)
    assert [v.label for v in classifier.classify(["the dog saw the fish", "the king met the milk"])] == [
        "positive",
        "negative",
    ]


def test_regression_is_learned(data: Path, tmp_path: Path) -> None:
    changes = ["task=stsb", f"data.folder={data}", *SMALL, "train.learning_rate=3e-3", "train.warmup=5"]
    start("bert/glue", tmp_path / "run", *changes, "train.epochs=30", "train.validate_every=30").train()
    assert max(line["valid_pearson"] for line in log(tmp_path / "run") if "valid_pearson" in line) > 0.8


@pytest.mark.parametrize(("name", "kind"), [("bert/tag", PieceTagger), ("tag/rnn", WordTagger)])
def test_tags_are_learned(data: Path, tmp_path: Path, name, kind) -> None:
    files = [f"data.train={data}/tags.conllu", f"data.valid={data}/tags.conllu"]
    small = SMALL if name == "bert/tag" else ["model.width=32"]
    changes = ["train.learning_rate=3e-3", "train.warmup=5", "train.epochs=40", "train.validate_every=40"]
    start(name, tmp_path / "run", *small, *files, *changes).train()
    tagger = regard.load(str(tmp_path / "run"))
    assert isinstance(tagger, kind)
    assert tagger.tag([["the", "cat", "fed", "the", "rice"]]) == [["DET", "NOUN", "VERB", "DET", "NOUN"]]


def test_resuming_with_a_changed_text_is_an_error(data: Path, tmp_path: Path) -> None:
    text = tmp_path / "a"
    text.mkdir()
    for path in data.glob("*.txt"):
        (text / path.name).write_bytes(path.read_bytes())
    changes = [*SMALL, f"data.text={text}", "data.max_length=32", "train.steps=1"]
    start("bert/pretrain", tmp_path / "run", *changes).train()
    (text / "dog.txt").write_text("Something else. " * 40)
    with pytest.raises(ValueError, match="have changed since it started"):
        start("bert/pretrain", tmp_path / "run", *changes)


def test_a_custom_table_is_learned_from(tmp_path: Path) -> None:
    rows = [f"the {n} {v},{'pet' if n in NOUNS[:2] else 'man'}" for n in NOUNS for v in VERBS]
    (tmp_path / "own.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    files = [f"data.train={tmp_path}/own.csv", f"data.valid={tmp_path}/own.csv"]
    changes = [*SMALL, "train.learning_rate=3e-3", "train.warmup=5", "train.epochs=30", "train.validate_every=15"]
    start("bert/classify", tmp_path / "run", *files, *changes).train()
    assert regard.load(str(tmp_path / "run")).classify(["the cat met"])[0].label == "pet"


def test_texts_longer_than_the_model_are_refused_at_the_start(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="but the model's limit is 16; lower data.max_length"):
        start("bert/pretrain", tmp_path / "run", *SMALL, f"data.text={data}/*.txt", "model.context=16")


def test_positions_that_are_never_trained_are_reported(data: Path, tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    recipe = read("bert/pretrain", [*SMALL, f"run={tmp_path}/run", f"data.text={data}/*.txt", "data.max_length=32"])
    training_of(recipe, Report(console))
    assert "positions 32 to 127 are never trained; set model.context=32" in console.file.getvalue()
