"""The public face: what `import regard` offers to Python."""

import subprocess
import sys
from pathlib import Path
from typing import assert_type

import pytest

import regard


def test_every_public_name_is_there_and_can_be_completed() -> None:
    assert dir(regard) == sorted(regard.__all__)
    assert all(getattr(regard, name) for name in regard.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'laod'"):
        regard.laod  # noqa: B018


def test_torch_is_not_imported_before_a_model_is_asked_for() -> None:
    code = "import regard, sys; assert 'torch' not in sys.modules; regard.load; assert 'torch' in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_model_says_what_it_is() -> None:
    assert repr(regard.load("en-es")) == "<Translator: transformer, 6,290,944 parameters>"


def test_a_model_of_another_kind_than_asked_for_is_refused() -> None:
    assert_type(regard.load("en-es"), regard.Translator)
    assert_type(regard.load("en-es", regard.Translator), regard.Translator)
    with pytest.raises(regard.RegardError, match="en-es opens as Translator, not as Completer"):
        regard.load("en-es", regard.Completer)
    with pytest.raises(regard.RegardError, match="a model is named by a string, such as 'en-es'.*; got None"):
        regard.load(None)  # type: ignore[call-overload]


@pytest.mark.usefixtures("threads_as_before")
def test_training_from_python_gives_the_opened_model(tmp_path: Path) -> None:
    shape = {"width": 16, "ff_width": 16}
    small = {"data": {"pairs": 60}, "tokenizer": {"vocab_size": 300}, "model": shape, "threads": 1}
    budget = {"steps": 2, "batch_tokens": 300}
    translator = regard.train("translate/dates", run=tmp_path / "run", train=budget, **small)
    assert isinstance(translator, regard.Translator)
    assert translator.translate("May 5, 1955")
    with pytest.raises(regard.RegardError, match=r"train\.step = 3: no such key; did you mean train\.steps\?"):
        regard.train("translate/dates", train={"step": 3})
