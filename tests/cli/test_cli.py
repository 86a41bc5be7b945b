import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard import __version__
from regard.cli import main as main_module
from regard.errors import RegardError


def regard(*arguments: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "regard", *arguments], capture_output=True, text=True, cwd=directory, check=False
    )


def test_version_is_printed() -> None:
    result = regard("--version")
    assert result.stdout == f"regard {__version__}\n"
    assert result.returncode == 0


def test_help_lists_the_verbs_and_each_verb_has_examples() -> None:
    result = regard("--help")
    assert result.returncode == 0
    for verb in ("train", "translate", "evaluate", "score", "compare", "recipes", "describe"):
        assert f"  {verb} " in result.stdout
        assert f"regard {verb} " in regard(verb, "--help").stdout.partition("Examples:")[2]


def test_help_is_printed_without_a_verb() -> None:
    help_text = regard("--help").stdout
    assert "Start with: regard recipes" in help_text
    assert "--install-completion" in help_text
    assert regard("-h").stdout == help_text
    without = regard()
    assert help_text in (without.stdout, without.stderr)


def test_the_help_of_every_verb_fits_on_its_line(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    verbs = regard("--help").stdout.partition("Commands:")[2].partition("Start with")[0].strip().splitlines()
    assert len(verbs) > 15
    assert not [line for line in verbs if line.endswith("...")]


def test_the_shell_completes_verbs(monkeypatch) -> None:
    for name, value in {"_REGARD_COMPLETE": "complete_bash", "COMP_WORDS": "regard tra", "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(name, value)
    code = "from regard.cli.main import app; app(prog_name='regard')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout.split() == ["train", "translate"]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["describe", "--help"], ["recipes"]])
def test_fast_commands_do_not_import_torch(arguments) -> None:
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
    assert json.loads(regard("recipes", "--json").stdout)["translate/transformer"].startswith("The Transformer of")
    shown = regard("recipes", "translate/transformer").stdout
    assert 'kind = "transformer"' in shown
    result = regard("recipes", "translate/transformer", "-o", "mine.toml", directory=tmp_path)
    assert result.stdout == "mine.toml: copied from translate/transformer. Try: regard describe mine.toml\n"
    assert (tmp_path / "mine.toml").read_text("utf-8") == shown
    assert regard("describe", "mine.toml", directory=tmp_path).returncode == 0


def test_copying_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("precious")
    result = regard("recipes", "translate/transformer", "-o", "mine.toml", directory=tmp_path)
    assert result.returncode == 1
    assert result.stderr == "regard: mine.toml already exists and is not overwritten; choose another name\n"
    assert (tmp_path / "mine.toml").read_text() == "precious"


def test_describe_counts_parameters_and_names_attentions() -> None:
    result = regard("describe", "translate/transformer", "model.preset=base", "tokenizer.vocab_size=37000", "--json")
    description = json.loads(result.stdout)
    assert description["parameters"] == 63_082_496
    assert sum(part["parameters"] for part in description["parts"]) == 63_082_496
    assert description["config"]["norm_placement"] == "post"
    assert "decoder.layers.5.cross" in description["attention"]
    assert description["positions"] == ["encoder.positions", "decoder.positions"]
    assert description["parts"][0] == {
        "path": "target_embedding", "shapes": [[37000, 512]], "parameters": 37000 * 512,
    }  # fmt: skip


def test_describe_shows_a_table_with_identical_layers_in_one_row(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        "[data]\nkind = 'dates'\n[tokenizer]\nvocab_size = 10\n[train]\nsteps = 1\n"
        "[model]\nkind = 'transformer'\nwidth = 4\nheads = 2\nff_width = 6\nencoder_layers = 2\ndecoder_layers = 1\n"
        "positions = 'none'\nnorm_placement = 'post'\n"
    )
    lines = [line.split() for line in regard("describe", "mine.toml", directory=tmp_path).stdout.splitlines()]
    assert lines[0] == ["transformer"]
    assert lines[1] == ["part", "shapes", "times", "parameters"]
    assert lines[2] == ["target_embedding", "10×4", "40"]
    assert ["encoder.layers.*.attention.query", "4×4,", "4", "2", "40"] in lines
    assert ["decoder.layers.*.feedforward.inner", "6×4,", "6", "30"] in lines
    encoder_layer, decoder_layer = 4 * 20 + 30 + 28 + 2 * 8, 8 * 20 + 30 + 28 + 3 * 8
    assert ["all", str(40 + 2 * encoder_layer + decoder_layer)] in lines
    words = [word for line in lines for word in line]
    at = words.index("attention")
    assert words[at + 1 : at + 4] == [
        "encoder.layers.*.attention,", "decoder.layers.*.attention,", "decoder.layers.*.cross",
    ]  # fmt: skip
    assert words[at + 4 :] == ["positions", "none"]


def test_describe_needs_no_memory_for_a_model_that_would_fill_it() -> None:
    overrides = ["model.width=1000000", "tokenizer.vocab_size=10000000", "model.ff_width=1000000"]
    result = regard("describe", "translate/transformer", *overrides, "--json")
    assert json.loads(result.stdout)["parameters"] > 10**13


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "translate/transfomer"], "did you mean translate/transformer?"),
        (["describe", "dates"], "did you mean translate/dates?"),
        (["train", "gpt2"], "did you mean gpt2/characters or gpt2/own-text or gpt2/ten-minutes?"),
        (["describe", "nothing-like-it"], "no recipe and no file is named 'nothing-like-it'; bundled are bert/"),
        (
            ["describe", "translate/transformer", "model.widht=3"],
            "model.widht = 3: no such key; did you mean model.width?",
        ),
        (["describe", "translate/transformer", "model.width"], "cannot read the override 'model.width'"),
        (
            ["recipes", "--keys", "bert/tag"],
            "--keys and --schema describe all recipes; give only one of them, and no recipe name",
        ),
        (["recipes", "-o", "x.toml"], "no recipe to copy to x.toml"),
        (["recipes", "translate/transformer", "-o", "no/such/folder.toml"], "No such file or directory"),
        (["recipes", "translate/transformer", "--json"], "--json applies only to the list of all recipes"),
    ],
)
def test_user_errors_are_reported_in_one_line(arguments, message) -> None:
    result = regard(*arguments)
    assert result.returncode == 1
    assert message in result.stderr
    assert result.stderr.startswith("regard: ")
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_closed_pipe_is_not_an_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "regard", "recipes", "translate/transformer"]
    result = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write_end)
    assert result.stderr == ""
    assert result.returncode == 1


def test_user_errors_have_a_message_and_bugs_keep_their_traceback(monkeypatch, capsys) -> None:
    def failing(error: Exception):
        def app() -> None:
            raise error

        return app

    for error in (RegardError("the file is empty"), OSError("no room")):
        monkeypatch.setattr(main_module, "app", failing(error))
        with pytest.raises(SystemExit, match="1"):
            main_module.main()
        assert capsys.readouterr().err == f"regard: {error}\n"
    monkeypatch.setattr(main_module, "app", failing(ValueError("a bug of ours")))
    with pytest.raises(ValueError, match="a bug of ours"):
        main_module.main()
