import json
import subprocess
import sys
from pathlib import Path

import pytest

from regard import __version__


def regard(*arguments: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "regard", *arguments], capture_output=True, text=True, cwd=directory, check=False
    )


def test_version() -> None:
    result = regard("--version")
    assert result.stdout == f"regard {__version__}\n"
    assert result.returncode == 0


def test_help_lists_the_verbs_and_each_verb_has_examples() -> None:
    result = regard("--help")
    assert result.returncode == 0
    for verb in ("recipes", "describe"):
        assert f"  {verb} " in result.stdout
        assert f"regard {verb} " in regard(verb, "--help").stdout.partition("Examples:")[2]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["describe", "--help"], ["recipes"]])
def test_quick_answers_do_not_wait_for_torch(arguments) -> None:
    code = (
        "import sys; from regard.cli.main import app\n"
        f"try: app({arguments!r})\n"
        "except SystemExit: pass\n"
        "print([m for m in ('torch', 'numpy') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_recipes_are_listed_shown_and_copied(tmp_path: Path) -> None:
    assert "translate/transformer  The Transformer of" in regard("recipes").stdout
    assert "translate/transformer" in json.loads(regard("recipes", "--json").stdout)
    shown = regard("recipes", "translate/transformer").stdout
    assert 'kind = "transformer"' in shown
    result = regard("recipes", "translate/transformer", "-o", "mine.toml", directory=tmp_path)
    assert result.returncode == 0
    assert (tmp_path / "mine.toml").read_text("utf-8") == shown
    assert regard("describe", "mine.toml", directory=tmp_path).returncode == 0


def test_copying_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("precious")
    result = regard("recipes", "translate/transformer", "-o", "mine.toml", directory=tmp_path)
    assert result.returncode == 1
    assert result.stderr == "regard: mine.toml exists and is left as it is; choose another name\n"
    assert (tmp_path / "mine.toml").read_text() == "precious"


def test_describe_counts_parameters_and_names_attentions() -> None:
    result = regard("describe", "translate/transformer", "model.preset=base", "model.vocab_size=37000", "--json")
    description = json.loads(result.stdout)
    assert description["parameters"] == 63_082_496
    assert sum(part["parameters"] for part in description["parts"]) == 63_082_496
    assert description["config"]["norm_placement"] == "post"
    assert "decoder.layers.5.cross" in description["attention"]
    assert description["positions"] == ["encoder.positions", "decoder.positions"]
    table = regard("describe", "translate/transformer", "model.positions=none").stdout
    assert "decoder.layers.*.cross.query" in table
    assert table.rstrip().endswith("positions  none")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "translate/transfomer"], "did you mean translate/transformer?"),
        (["describe", "nothing-like-it"], "no recipe and no file is named 'nothing-like-it'; bundled are translate/"),
        (
            ["describe", "translate/transformer", "model.widht=3"],
            "model.widht = 3: no such key; did you mean model.width?",
        ),
        (["describe", "translate/transformer", "model.width"], "cannot read the override 'model.width'"),
        (["recipes", "-o", "x.toml"], "which recipe is to be copied to x.toml?"),
    ],
)
def test_mistakes_are_told_in_words(arguments, message) -> None:
    result = regard(*arguments)
    assert result.returncode == 1
    assert message in result.stderr
    assert result.stderr.startswith("regard: ")
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_reader_that_leaves_early_is_no_error() -> None:
    result = subprocess.run(
        f"{sys.executable} -m regard recipes translate/transformer | head -c 1 >/dev/null",
        shell=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.stderr == ""
