"""One text or many: a string in gives one result, a list gives a list."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from regard.errors import RegardError


def expect_texts(texts: Any, what: str = "texts") -> list[str]:
    """One text or several as a list; `RegardError` for anything else."""
    if isinstance(texts, str):
        return [texts]
    if not isinstance(texts, Sequence) or isinstance(texts, bytes):
        raise RegardError(f"{what} should be a string or a list of strings; got {texts!r}")
    for text in texts:
        if not isinstance(text, str):
            raise RegardError(f"{what} should be strings; one of them is {text!r}")
    return list(texts)


def expect_options(given: Iterable[str], known: type[Any]) -> None:
    """Raises `RegardError` if there is an option that a typed dictionary of options does not have."""
    for name in given:
        if name not in known.__annotations__:
            raise RegardError(f"unknown option {name!r}; the options are {', '.join(known.__annotations__)}")


def as_given(texts: Any, results: Sequence[Any]) -> Any:
    """The results; if one text was given as a string, its result alone."""
    return results[0] if isinstance(texts, str) else results


def one_line(text: str) -> str:
    """A text with line breaks replaced by spaces, so that each output stays on one line."""
    return re.sub(r"[\r\n]+", " ", text)
