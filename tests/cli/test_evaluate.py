"""`regard evaluate`: what each model is evaluated with, its settings, and what it writes."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import regard
from commands import invoke, run
from completers import TOKENIZERS, gpt2
from regard import library
from regard.cli.main import app
from regard.evaluation import bleu, spans
from regard.models.heads import ClassificationHead, TaggingHead
from regard.tasks.evaluation import EvaluatedWith
from regard.tasks.tagging_evaluation import TaggingSettings
from regard.tasks.translation_evaluation import EvaluatesTranslations, TranslationSettings
from regard.tasks.translation_types import Translation
from texts import TEXTS, TOKENIZER, bert


def test_classifiers_and_taggers_are_evaluated(models: Path, tmp_path: Path) -> None:
    rows = [f"{text}\t{i % 2}" for i, text in enumerate(TEXTS)]
    (tmp_path / "dev.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    found = json.loads(run("evaluate", models / "sst2", "task=sst2", "--data", tmp_path / "dev.tsv", "--json"))
    labels = [verdict.label for verdict in regard.load(str(models / "sst2")).classify(TEXTS)]
    right = [("negative", "positive")[i % 2] == label for i, label in enumerate(labels)]
    assert found["accuracy"] == pytest.approx(100 * sum(right) / 5)
    printed = run("evaluate", models / "sst2", "task=sst2", "--data", tmp_path / "dev.tsv")
    assert printed.startswith(f"accuracy  {found['accuracy']:5.1f}\n")
    assert "accuracy" in run("evaluate", models / "sst2", "task=sst2", "--data", tmp_path / "dev.tsv")
    (tmp_path / "own.csv").write_text("text,label\ngood food,positive\nbad food,negative\n")
    assert json.loads(run("evaluate", models / "sst2", "--data", tmp_path / "own.csv", "--json"))["texts"] == 2
    words = [f"{i}\t{word}\t_\tNOUN" + "\t_" * 6 for i, word in enumerate(TEXTS[0].split(), start=1)]
    (tmp_path / "dev.conllu").write_text("\n".join(words) + "\n\n")
    for name in ("pos", "rnn_tagger"):
        out = tmp_path / "said"
        found = json.loads(run("evaluate", models / name, "--data", tmp_path / "dev.conllu", "--json", "-o", out))
        tags = out.read_text().split()
        assert found["accuracy"] == pytest.approx(100 * tags.count("NOUN") / len(tags))
        printed = run("evaluate", models / name, "--data", tmp_path / "dev.conllu")
        assert f"accuracy  {found['accuracy']:6.2f}\nmacro F1  {found['macro_f1']:6.2f}\n" in printed
        recall = found["tags"]["NOUN"]["recall"]
        assert re.search(rf"\nNOUN .* {recall:.1f} ", printed)


def test_a_task_that_does_not_fit_the_model_is_reported(models: Path, tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\ngood\t1\n")
    with pytest.raises(
        ValueError, match="the model predicts negative, positive, but the task expects unacceptable, acceptable"
    ):
        run("evaluate", models / "sst2", "task=cola", "--data", tmp_path / "dev.tsv")
    with pytest.raises(ValueError, match="task = \"sst3\": expected one of 'cola', 'sst2', .*did you mean 'sst2'?"):
        run("evaluate", models / "sst2", "task=sst3", "--data", tmp_path / "dev.tsv")


SOURCES, REFERENCES = ["We eat bread.", "Where is he?"], ["Comemos pan.", "¿DÓNDE ESTÁ ÉL?"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in SOURCES))
    (tmp_path / "reference").write_text("".join(f"{line}\n" for line in REFERENCES))
    return {"source": tmp_path / "source", "reference": tmp_path / "reference"}


def test_translators_have_their_own_settings(files: dict[str, Path], tmp_path: Path) -> None:
    options = [part for role, path in files.items() for part in (f"--{role}", path)]
    for settings, beam, lowercase in (([], 4, False), (["beam=1", "length_penalty=0.5", "lowercase=true"], 1, True)):
        translator = regard.load("en-es")
        found = translator.translate(SOURCES, beam=beam, length_penalty=0.5 if lowercase else 1.0)
        best = [translations[0].text for translations in found]
        expected = bleu.score(best, REFERENCES, lowercase=lowercase)
        out = tmp_path / "out"
        assert json.loads(run("evaluate", "en-es", *settings, *options, "--json", "-o", out)) == vars(expected)
        assert out.read_text().splitlines() == best
        lines = run("evaluate", "en-es", *settings, *options).splitlines()
        assert lines[0] == f"BLEU   {expected.bleu:5.1f}   {expected.bleu_signature}"
        assert ("case:lc" in lines[0]) == lowercase


class Echo(EvaluatesTranslations):
    """Returns its input, and records the search settings."""

    def translate(self, texts, **how):
        self.how = how
        return [[Translation(text, 0.0)] for text in texts]


def test_the_settings_control_the_search(files: dict[str, Path]) -> None:
    echo = Echo()
    found = echo.evaluate(files, echo.evaluated_with.parse(["beam=3", "length_penalty=0.25"]))
    assert echo.how == {"beam": 3, "length_penalty": 0.25, "scores": False}
    assert found.predictions == SOURCES
    echo.evaluate(files, TranslationSettings())
    assert echo.how == {"beam": 4, "length_penalty": 1.0, "scores": False}


def test_a_language_model_has_no_predictions_to_write(tmp_path: Path) -> None:
    model = gpt2(TOKENIZERS["characters"]).float()
    library.save(tmp_path / "m", model.config, library.tensors(model), {"text": TOKENIZERS["characters"]}, "")
    (tmp_path / "text").write_text("ROMEO: soft")
    command = ["evaluate", str(tmp_path / "m"), "--data", str(tmp_path / "text"), "--json"]
    result = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "out")])
    assert str(result.exception) == "a language model has no predictions to write; remove --output"
    assert not (tmp_path / "out").exists()
    assert json.loads(result.stdout) == json.loads(run(*command))  # the scores are not lost
    assert json.loads(result.stdout) == pytest.approx(vars(regard.load(str(tmp_path / "m")).measure("ROMEO: soft")))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sst2"], "^a classifier is evaluated with --data$"),
        (["sst2", "--source", "file"], "^a classifier is evaluated with --data, not with --source$"),
        (["pos", "--data", "file", "--reference", "file"], "^a tagger is evaluated with --data, not with --reference$"),
        (["en-es", "--source", "file"], "^a translator is evaluated with --source and --reference$"),
        (
            ["en-es", "--data", "file"],
            "^a translator is evaluated with --source and --reference, not with --data$",
        ),
        (["en-es", "baem=1"], "baem = 1: no such key; did you mean beam\\?"),
        (["en-es", "beam=0"], "beam = 0: must be at least 1"),
        (["en-es", "length_penalty=-1"], "length_penalty = -1: must be at least 0"),
        (["rnn_tagger", "task=sst2", "--data", "file"], 'task = "sst2": no such key; known keys here are kind, column'),
        (["pos", "column=upso"], "expected one of 'upos', 'xpos'; did you mean 'upos'\\?"),
        (["sst2", "beam"], "cannot read the override 'beam'"),
        (["sst2", "-o", "nowhere/x"], "nowhere: no such folder"),
        (["plain", "--data", "file"], "plain is a model for embedding, not for `regard evaluate`; try `regard embed`"),
    ],
)
def test_a_wrong_file_or_setting_is_reported(models: Path, monkeypatch, arguments, message) -> None:
    (models / "file").touch()
    monkeypatch.chdir(models)
    with pytest.raises(ValueError, match=message):
        run("evaluate", *arguments)


def test_tags_of_the_other_column_are_reported(models: Path, tmp_path: Path) -> None:
    (tmp_path / "dev.conllu").write_text("1\tdog\t_\tX\tNOUN" + "\t_" * 5 + "\n\n")
    with pytest.raises(ValueError, match="the model predicts none of the tags in column upos; try column=xpos"):
        run("evaluate", models / "pos", "--data", tmp_path / "dev.conllu")
    found = json.loads(run("evaluate", models / "pos", "column=xpos", "--data", tmp_path / "dev.conllu", "--json"))
    assert found["tags"]["NOUN"]["count"] == 1


def test_tags_that_are_hardly_ever_the_models_are_reported(models: Path, tmp_path: Path) -> None:
    rows = [f"{i}\tdog\t_\tNOUN\t{'NOUN' if i == 1 else 'NN'}" + "\t_" * 5 for i in range(1, 21)]
    (tmp_path / "dev.conllu").write_text("\n".join(rows) + "\n\n")
    with pytest.raises(ValueError, match="the model predicts only 1 of the 20 tags in column xpos; try column=upos"):
        run("evaluate", models / "pos", "column=xpos", "--data", tmp_path / "dev.conllu")


def test_a_tagger_of_spans_is_evaluated_on_iob_files(tmp_path: Path) -> None:
    model = bert(TaggingHead(labels=("B-PER", "I-PER", "O"))).float()
    library.save(tmp_path / "names", model.config, library.tensors(model), {"text": TOKENIZER}, "")
    (tmp_path / "dev.txt").write_text("-DOCSTART- O\n\nthe O\ndog I-PER\n\ngood I-PER\nfood I-PER\n\n")
    predicted = tmp_path / "predicted.txt"
    found = json.loads(run("evaluate", tmp_path / "names", "--data", tmp_path / "dev.txt", "--json", "-o", predicted))
    assert found["types"]["PER"]["count"] == 2
    tags = [line.split() for line in predicted.read_text().splitlines()]
    assert found["f1"] == 100 * spans.scores([["O", "B-PER"], ["B-PER", "I-PER"]], tags)["f1"]
    printed = run("evaluate", tmp_path / "names", "--data", tmp_path / "dev.txt")
    assert re.search(r"F1 +[\d.]+ +of exact spans\n", printed)
    assert re.search(r"\nPER .* 2\n$", printed)


def test_parts_of_speech_in_iob_files_are_evaluated_by_their_column(models: Path, tmp_path: Path) -> None:
    (tmp_path / "dev.iob").write_text("the DET O\ndog NOUN B-PER\n\n")
    with pytest.raises(ValueError, match="the model predicts none of the tags in the last column; try column=2"):
        run("evaluate", models / "pos", "--data", tmp_path / "dev.iob")
    for arguments in (["column=2"], ["kind=iob", "column=2"]):
        found = json.loads(run("evaluate", models / "pos", *arguments, "--data", tmp_path / "dev.iob", "--json"))
        assert found["tags"]["NOUN"]["count"] == 1
    with pytest.raises(ValueError, match="CoNLL-U has column=upos and column=xpos; IOB has numbers"):
        run("evaluate", models / "pos", "kind=iob", "column=upos", "--data", tmp_path / "dev.iob")


def test_problems_of_a_table_are_reported_beside_the_scores(tmp_path: Path) -> None:
    model = bert(ClassificationHead(labels=("not_duplicate", "duplicate"))).float()
    library.save(tmp_path / "qqp", model.config, library.tensors(model), {"text": TOKENIZER}, "")
    rows = ["question1\tquestion2\tis_duplicate", "good food\tbad food\t0", "torn", "dog\tdog\t1"]
    (tmp_path / "dev.tsv").write_text("\n".join(rows) + "\n")
    result = invoke("evaluate", tmp_path / "qqp", "task=qqp", "--data", tmp_path / "dev.tsv", "--json")
    assert json.loads(result.stdout)["texts"] == 2
    assert "dev.tsv: skipped 1 line with too few columns, the first is line 3" in result.stderr


def test_models_serve_the_verbs_that_their_tasks_name(models: Path) -> None:
    names = ["en-es", *(str(models / name) for name in ("plain", "guesser", "sst2", "stsb", "pos", "rnn_tagger"))]
    for name in names:
        contents, loaded = library.read(name), regard.load(name)
        verbs = contents.system.task(contents.task).verbs
        assert ("evaluate" in verbs) == hasattr(loaded, "evaluate")
        assert isinstance(getattr(loaded, "evaluated_with", None), EvaluatedWith) == ("evaluate" in verbs)
        assert ("look" in verbs) == ("explore" in verbs) == hasattr(loaded, "accepts")
        assert ("embed" in verbs) == hasattr(loaded, "embed")


def test_a_model_is_evaluated_from_python_as_on_the_command_line(models: Path, tmp_path: Path) -> None:
    words = [f"{i}\t{word}\t_\tVERB" + "\t_" * 6 for i, word in enumerate(TEXTS[0].split(), start=1)]
    (tmp_path / "dev.conllu").write_text("\n".join(words) + "\n\n")
    found = regard.load(str(models / "rnn_tagger")).evaluate({"data": tmp_path / "dev.conllu"}, TaggingSettings())
    printed = run("evaluate", models / "rnn_tagger", "--data", tmp_path / "dev.conllu")
    assert printed == "".join(f"{line}\n" for line in found.lines)
    assert json.loads(json.dumps(found.scores)) == json.loads(
        run("evaluate", models / "rnn_tagger", "--data", tmp_path / "dev.conllu", "--json")
    )
