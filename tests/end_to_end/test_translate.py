"""Training on custom files, translation and evaluation on the command line."""

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from regard.data.dates import dates

SMALL = [
    "model.preset=tiny", "model.width=32", "model.ff_width=32", "model.encoder_layers=1", "model.decoder_layers=1",
    "model.positions=rotary", "model.dropout=0.0", "tokenizer.vocab_size=350", "train.batch_tokens=400",
    "train.steps=30", "train.warmup=10", "train.validate_every=15",
]  # fmt: skip


def regard(folder: Path, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "regard", *arguments],
        capture_output=True, text=True, cwd=folder, input=stdin, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    pairs = list(islice(dates("en", "es", 1), 400))
    for side, name in enumerate(("train.en", "train.es")):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")
    result = regard(
        folder,
        "train",
        "translate/transformer",
        'data.train={path="train.en", target="train.es"}',
        "run=mine",
        *SMALL,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("mine/model: trained model. Try: regard translate --model mine")
    assert "training: 380 pairs; dropped 0 with an empty side" in result.stderr.replace("\n", " ")
    assert "valid loss" in result.stderr
    return folder


def test_arguments_and_standard_input_give_the_same_translations(folder: Path) -> None:
    texts = ["May 5, 1955", "2 days"]
    given = regard(folder, "translate", "--model", "mine", *texts)
    piped = regard(folder, "translate", "--model", "mine", stdin="\n".join(texts) + "\n")
    assert given.returncode == 0, given.stderr
    assert given.stdout == piped.stdout
    assert len(given.stdout.splitlines()) == 2


def test_empty_lines_are_kept(folder: Path) -> None:
    lines = regard(folder, "translate", "--model", "mine", stdin="2 days\n\n3 days\n").stdout.split("\n")
    assert lines[1] == ""
    assert len(lines) == 4


def test_json_output_has_scores_and_n_best_translations(folder: Path) -> None:
    result = regard(folder, "translate", "-m", "mine", "--json", "--n-best", "3", "2 días")
    answer = json.loads(result.stdout)
    assert answer["source"] == "2 días"
    (sentence,) = answer["sentences"]
    assert answer["translation"] == sentence["translations"][0]["text"]
    scores = [t["mean_log_probability"] for t in sentence["translations"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)


def test_documents_keep_paragraphs_and_sentence_order(folder: Path) -> None:
    document = "  2 days. 3 days!\n\n4 days\n"
    whole = regard(folder, "translate", "-m", "mine", stdin=document).stdout
    days = regard(folder, "translate", "-m", "mine", "2 days.", "3 days!", "4 days").stdout.splitlines()
    assert whole == f"  {days[0]} {days[1]}\n\n{days[2]}\n"


def test_each_input_line_gives_one_output_line(folder: Path) -> None:
    lines = regard(folder, "translate", "-m", "mine", "--n-best", "3", stdin="\ufeff2 days\n\n3\rdays\n").stdout
    alone = regard(folder, "translate", "-m", "mine", "--n-best", "3", "2 days").stdout
    assert len(lines.split("\n")) == 9 + 1  # the last line ends with a line break, too
    assert lines.split("\n")[:6] == [*alone.split("\n")[:3], "", "", ""]


def test_translate_and_score_print_alignments(folder: Path) -> None:
    (line,) = regard(folder, "translate", "-m", "mine", "--align", "May 5, 1955").stdout.splitlines()
    text, _, links = line.partition(" ||| ")
    targets = [int(link.split("-")[1]) for link in links.split()]
    assert targets == list(range(len(text.split())))
    assert {int(link.split("-")[0]) for link in links.split()} <= {0, 1, 2}
    answer = json.loads(regard(folder, "translate", "-m", "mine", "--align", "--json", "May 5, 1955").stdout)
    best = answer["sentences"][0]["translations"][0]
    assert " ".join(f"{i}-{j}" for i, j in best["alignment"]) == links
    assert best["source_words"] == ["May", "5,", "1955"]
    assert [word["text"] for word in best["words"]] == text.split()
    result = regard(folder, "score", "mine", "--source", "train.en", "--target", "train.es", "--align")
    score, _, links = result.stdout.splitlines()[0].partition(" ||| ")
    assert float(score) < 0
    target = (folder / "train.es").read_text("utf-8").splitlines()[0]
    assert len(links.split()) == len(target.split())


def test_sampling_is_reproducible_and_prefixes_are_kept(folder: Path) -> None:
    arguments = ["translate", "-m", "mine", "--sample", "--n-best", "4", "--seed", "3", "May 5, 1955"]
    drawn = regard(folder, *arguments).stdout
    assert drawn == regard(folder, *arguments).stdout
    assert len(set(drawn.splitlines())) > 1
    assert regard(folder, "translate", "-m", "mine", "--prefix", "el 5", "May 5, 1955").stdout.startswith("el 5")


def test_look_prints_a_matrix_and_writes_figures(folder: Path) -> None:
    drawn = regard(folder, "look", "-m", "mine", "May 5, 1955", "--target", "5 de mayo").stdout.splitlines()
    assert drawn[0].split() == ["May", "5,", "1955"]
    assert [line.split()[0] for line in drawn[1:]] == ["5", "de", "mayo"]
    result = regard(folder, "look", "-m", "mine", "May 5, 1955", "-o", "new/look.png")
    assert result.returncode == 0, result.stderr
    assert (folder / "new/look.png").read_bytes().startswith(b"\x89PNG")
    result = regard(folder, "look", "-m", "mine", "May 5, 1955", "--view", "grid", "-o", "new/page.html")
    assert result.returncode == 0, result.stderr
    page = (folder / "new/page.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "view=heads" in page


def test_a_very_long_text_does_not_affect_the_others(folder: Path) -> None:
    long = "May 5, " * 1000 + "x" * 1000
    lines = regard(folder, "translate", "-m", "mine", "--beam", "1", stdin=f"2 days\n{long}\n3 days\n").stdout
    assert (
        lines.splitlines()[::2]
        == regard(folder, "translate", "-m", "mine", "--beam", "1", "2 days", "3 days").stdout.splitlines()
    )


def test_evaluate_and_score_print_metrics_and_log_probabilities(folder: Path) -> None:
    arguments = ["beam=1", "--source", "train.en", "--reference", "train.es"]
    result = regard(folder, "evaluate", "mine", *arguments, "-o", "out.es")
    assert result.returncode == 0, result.stderr
    assert "tok:13a" in result.stdout
    assert len((folder / "out.es").read_text("utf-8").splitlines()) == 400
    scores = json.loads(regard(folder, "evaluate", "mine", *arguments, "--json").stdout)
    assert f"BLEU   {scores['bleu']:5.1f}" in result.stdout
    assert "case:lc" in regard(folder, "evaluate", "mine", *arguments, "lowercase=true").stdout
    result = regard(folder, "score", "mine", "--source", "train.en", "--target", "train.es")
    assert len([float(line) for line in result.stdout.splitlines()]) == 400


def test_compare_reports_significance_and_the_better_model(folder: Path) -> None:
    arguments = ["beam=1", "--source", "train.en", "--reference", "train.es", "--samples", "100"]
    result = regard(folder, "compare", "mine", "mine/last", *arguments)
    assert result.returncode == 0, result.stderr
    rows = [line.split()[:2] for line in result.stdout.splitlines()[1:5]]
    assert rows == [["BLEU", "mine"], ["BLEU", "mine/last"], ["chrF2", "mine"], ["chrF2", "mine/last"]]
    assert "bs:100" in result.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "--model", "nowhere", "x"], "no model at 'nowhere'"),
        (["translate", "--model", "mine", "--sample", "--top-p", "1.5", "x"], "top-p must be above 0"),
        (["look", "--model", "mine", "x", "-o", "look.jpg"], "look.jpg: unknown format; use .pdf, .png, .svg"),
        (
            ["translate", "--model", "mine", "x", "--top-k", "3"],
            "--top-k needs --sample; add --sample or remove this option",
        ),
        (["look", "--model", "mine", "x", "--view", "grid"], "--view grid cannot be shown as text"),
        (["look", "--model", "mine", "x", "--layer", "y"], "no attention layer 'y'; this model has 'encoder.layers.0"),
        (["look", "--model", "mine", ""], "the text is empty; give at least one word"),
        (["train", "translate/transformer", "model.init=nowhere", "run=newer"], "no model at 'nowhere'"),
        (["train", "translate/transformer", "model.init=3", "run=newer"], "model.init = 3: expected the name"),
        (
            ["translate", "--model", "mine", "--beam", "2", "--n-best", "3", "x"],
            "with a beam of 2, n_best must be from 1 to 2, got 3",
        ),
        (["train", "translate/transformer", "data.train=none.tsv", "run=newer"], "data.train = 'none.tsv': no such"),
        (["train", "translate/transformer", "data.train=train.en", "run=newer"], "train.en, line 1: no tab between"),
        (
            ["train", "translate/transformer", "data.train=train.en", "run=mine"],
            "mine contains a run of another recipe",
        ),
    ],
)
def test_user_errors_are_reported_in_one_line(folder: Path, arguments, message) -> None:
    result = regard(folder, *arguments)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr
