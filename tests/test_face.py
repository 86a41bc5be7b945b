"""The public Python interface of `import regard`."""

import subprocess
import sys
from pathlib import Path
from typing import assert_type

import pytest

import regard
from regard.models.heads import TaggingHead
from texts import encoder


def test_public_names_exist_and_are_listed_for_completion() -> None:
    assert dir(regard) == sorted(regard.__all__)
    assert all(getattr(regard, name) for name in regard.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'laod'"):
        regard.laod  # noqa: B018


def test_torch_is_not_imported_before_a_model_is_loaded() -> None:
    code = "import regard, sys; assert 'torch' not in sys.modules; regard.load; assert 'torch' in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_repr_of_a_model_describes_it() -> None:
    assert repr(regard.load("en-es")) == "<Translator: transformer, 6,290,944 parameters, from en-es>"
    tagger = encoder(TaggingHead(labels=("A", "B", "C", "D", "E", "F")))
    assert repr(tagger).endswith("parameters, 6 labels (A, B, C, D, E, ...)>")


def test_a_model_of_another_task_than_expected_is_refused() -> None:
    assert_type(regard.load("en-es"), regard.Translator)
    assert_type(regard.load("en-es", regard.Translator), regard.Translator)
    with pytest.raises(regard.RegardError, match="en-es loads as Translator, not as Completer"):
        regard.load("en-es", regard.Completer)
    with pytest.raises(regard.RegardError, match="the name of a model is a string, such as 'en-es'.*; got None"):
        regard.load(None)  # type: ignore[call-overload]


@pytest.mark.usefixtures("restore_threads")
def test_training_from_python_returns_the_loaded_model(tmp_path: Path) -> None:
    shape = {"width": 16, "ff_width": 16}
    small = {"data": {"pairs": 60}, "tokenizer": {"vocab_size": 300}, "model": shape, "threads": 1}
    budget = {"steps": 2, "batch_tokens": 300}
    translator = regard.train("translate/dates", run=tmp_path / "run", train=budget, **small)
    assert isinstance(translator, regard.Translator)
    assert translator.translate("May 5, 1955")
    with pytest.raises(regard.RegardError, match=r"train\.step = 3: no such key; did you mean train\.steps\?"):
        regard.train("translate/dates", train={"step": 3})
