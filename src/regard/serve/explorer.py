"""What the explorer's page asks, and the answers: plain data, whatever carries it to and fro.

A question is a verb and its arguments; all that an answer depends on is in them, so that a view can be sent to somebody
as an address, asked again, or saved with its answers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from regard.blocks.capture import capture, intervene, position_modules
from regard.errors import RegardError
from regard.explain import importance, positions, walk
from regard.explain.media import MEDIA
from regard.explain.trace import Alternative, Inputs, Inspectable, PartialOutput, Stream, Trace, by_role, looks, mean
from regard.explain.view import AttentionView
from regard.models.interface import Autoregressive

CHARACTERS = 4000  # of an input, at most
MAX_TOKENS = 512  # of a stream, at most
KEPT = 32  # inputs whose outputs are remembered
N_BEST = 3

ShortText = Annotated[str, Field(max_length=CHARACTERS)]
Role = Annotated[str, Field(max_length=40)]
Path_ = Annotated[str, Field(max_length=200)]
Number = Annotated[int, Field(ge=0, lt=100_000)]


class Question(BaseModel):
    """What a verb is asked with; what it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Asked(Question):
    """Inputs by role, and the output to look at; without one, the model's own."""

    inputs: dict[Role, ShortText]
    target: ShortText | None = None


class OneAttention(Asked):
    """One attention at work on the inputs."""

    path: Path_


class OneToken(Asked):
    """One token on its way through one part of the model, seen by one head."""

    path: Path_
    token: Number
    head: Number = 0


class Change(Question):
    """What to do otherwise."""

    heads: Mapping[Path_, Sequence[Number]] = {}
    mask: Sequence[Path_] = ()
    scaling: Sequence[Path_] = ()
    positions: Sequence[Path_] = ()

    def made(self, model: torch.nn.Module) -> AbstractContextManager[None]:
        """The model is changed inside the with-block."""
        return intervene(
            model,
            drop_heads=self.heads,
            drop_mask=self.mask,
            drop_scaling=self.scaling,
            drop_positions=self.positions,
        )


class WhatIf(Asked):
    """A change of the model, of its inputs, or of both."""

    change: Change = Change()
    other: dict[Role, ShortText] = {}
    """Other inputs to read, instead of those that were."""


class Rollout(Asked):
    """Attention through all layers, from one stream to another or to itself."""

    asks: Path_
    answers: Path_


class Encodings(Question):
    """Positions of some kind."""

    kind: Annotated[str, Field(max_length=20)] = "own"
    length: Annotated[int, Field(ge=2, le=MAX_TOKENS)] = 64


class Lines(Question):
    """A file of Regard's source."""

    file: Path_


@dataclass(frozen=True)
class Numbers:
    """An answer of many numbers, sent in half precision."""

    values: Tensor


Answer = dict[str, Any] | Numbers
Q = TypeVar("Q", bound=BaseModel)


def understood(kind: type[Q], arguments: Mapping[str, Any]) -> Q:
    """A question of that kind; `RegardError` names the arguments that do not belong to it."""
    try:
        return kind.model_validate(arguments)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise RegardError("; ".join(problems)) from None


class Explorer:
    """A model, ready to be asked.

    Args:
        example: the inputs that are looked at first; without them, examples of their media.
    """

    def __init__(self, subject: Inspectable, name: str, example: Inputs | None = None) -> None:
        self.subject, self.name = subject, name
        examples = {role: MEDIA[medium].EXAMPLE for role, medium in subject.accepts.items()}
        self.example = by_role(subject.accepts, examples if example is None else example)
        self._alternatives = lru_cache(KEPT)(lambda inputs: subject.alternatives(dict(inputs), N_BEST))
        self.verbs: dict[str, tuple[type[Question], Callable[[Any], Answer]]] = {
            "model": (Question, self.model),
            "read": (Asked, self.read),
            "attention": (OneAttention, self.attention),
            "walk": (OneToken, self.walk),
            "what-if": (WhatIf, self.what_if),
            "heads": (Asked, self.heads),
            "rollout": (Rollout, self.rollout),
            "positions": (Encodings, self.positions),
            "likeness": (Encodings, self.likeness),
            "code": (Lines, self.code),
        }

    def answer(self, verb: str, arguments: Mapping[str, Any]) -> Answer:
        """The answer to any question; `RegardError` tells what is wrong with it."""
        if verb not in self.verbs:
            raise RegardError(f"no question is called {verb!r}; there are {', '.join(self.verbs)}")
        kind, method = self.verbs[verb]
        return method(understood(kind, arguments))

    def model(self, _question: Question) -> Answer:
        """What the model is made of."""
        model: Any = self.subject.model
        streams = {stream for look in looks(model) for stream in (look.asks, look.answers)}
        return {
            "name": self.name,
            "accepts": dict(self.subject.accepts),
            "example": self.example,
            "kind": model.config.kind,
            "writes": isinstance(model, Autoregressive),
            "continues": isinstance(model, Autoregressive) and len(streams) == 1,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "looks": [asdict(look) for look in looks(model)],
            "parts": [asdict(part) for part in walk.parts(model)],
            "positions": {"kind": positions.own_kind(model), "paths": list(position_modules(model))},
        }

    def read(self, question: Asked) -> Answer:
        """Inputs and the output, token by token; without a given one, the model's own and the next best."""
        trace = self._trace(question)
        own = [] if question.target is not None else self._own(self._inputs(question.inputs))
        return {
            "streams": {name: _shown(stream) for name, stream in trace.streams.items()},
            "output_stream": trace.output_stream,
            "target": _shown(trace.target),
            "spoken": _predicted(trace),
            "alignment": _alignment(trace),
            "alternatives": [{"text": found.text, "score": found.score} for found in own],
        }

    def attention(self, question: OneAttention) -> Answer:
        """The weights of all heads of one attention: heads × queries × keys."""
        trace = self._trace(question)
        look = trace.look(question.path)
        sizes = (len(trace.streams[stream].tokens) for stream in (look.asks, look.answers))
        nothing = torch.zeros(look.heads, *sizes)  # where a model stopped before that depth
        return Numbers(trace.weights(look.path).get(look.path, nothing))

    def walk(self, question: OneToken) -> Answer:
        """The steps of a token through a part of the model."""
        steps = walk.walk(self._trace(question), question.path, question.token, question.head)
        return {
            "steps": [
                {
                    "name": step.name,
                    "equation": step.equation,
                    "shape": step.shape,
                    "axes": step.axes,
                    "values": _rounded(step.values),
                    "code": None if step.code is None else asdict(step.code),
                }
                for step in steps
            ]
        }

    def what_if(self, question: WhatIf) -> Answer:
        """What the model says, and what it then says; what it thinks of the output at hand, and what it then thinks."""
        inputs = self._inputs({**question.inputs, **question.other})
        trace = self._trace(question)
        original = _predicted(trace)
        own = original if question.target is None else _predicted(self._trace(Asked(inputs=question.inputs)))
        with question.change.made(self.subject.model):
            changed, given = self.subject.trace(inputs), self.subject.trace(inputs, trace.answer)
            # where what is said goes with what is read, token by token, another input may have no room for it
            then = {"given": _predicted(given) if _fits(given) else None, "changed": _predicted(changed)}
        return {"own": own, "original": original, **then}

    def heads(self, question: Asked) -> Answer:
        """Which heads matter, where things come from in the end, and when the answer was known."""
        trace = self._trace(question)
        early = importance.early_answers(trace)
        return {
            "effects": {path: _rounded(effects) for path, effects in importance.head_effects(trace).items()},
            "rollouts": importance.rollouts(trace),
            "early": [
                {
                    "path": path,
                    "pieces": trace.pieces([answer.token for answer in answers]),
                    "probabilities": [_short(answer.probability) for answer in answers],
                    "target": [_short(answer.target) for answer in answers],
                }
                for path, answers in early.items()
            ],
        }

    def rollout(self, question: Rollout) -> Answer:
        """How much of each token stems from each token in the end: queries × keys."""
        flows = importance.rollout(self._trace(question))
        if (question.asks, question.answers) not in flows:
            raise RegardError(f"{question.asks!r} does not look at {question.answers!r} in this model")
        return Numbers(flows[question.asks, question.answers])

    def positions(self, question: Encodings) -> Answer:
        """The vectors of positions: positions × features."""
        return Numbers(positions.encodings(self.subject.model, question.length, question.kind))

    def likeness(self, question: Encodings) -> Answer:
        """How alike two positions are, by their distance."""
        encoding = positions.encodings(self.subject.model, question.length, question.kind)
        return {"similarity": _rounded(positions.similarity(encoding))}

    def code(self, question: Lines) -> Answer:
        """A file of Regard's source; no other file can be had."""
        package = Path(__file__).parents[1]
        known = {path.relative_to(package.parent).as_posix(): path for path in package.rglob("*.py")}
        if question.file not in known:
            raise RegardError("no such file is part of Regard")
        return {"lines": known[question.file].read_text("utf-8").splitlines()}

    def generate(self, inputs: Inputs) -> Iterator[dict[str, Any]]:
        """What the model says about its inputs, longer with every token, and what that token looked at."""
        return self._generate(self.subject.generate(self._inputs(inputs)))

    def _generate(self, growing: Iterator[PartialOutput]) -> Iterator[dict[str, Any]]:
        known = looks(self.subject.model)
        paths = [look.path for look in known if look.asks != look.answers] or [look.path for look in known]
        while True:
            with capture(self.subject.model, paths) as maps:  # not for longer: other questions come between two tokens
                grown = next(growing, None)
            if grown is None:
                return
            weights = mean(maps[path][0, :, -1:] for path in maps)[0] if paths else torch.zeros(len(grown.seen.tokens))
            yield {"text": grown.text, "seen": _shown(grown.seen), "weights": _rounded(weights)}

    def _inputs(self, inputs: Inputs) -> dict[str, Any]:
        """Inputs that the model accepts, and that are not too long."""
        given = by_role(self.subject.accepts, inputs)
        _check(self.subject.count(given))
        return given

    def _own(self, inputs: Mapping[str, Any]) -> Sequence[Alternative]:
        """What the model would say, which is remembered."""
        return self._alternatives(tuple(inputs.items()))

    def _trace(self, question: Asked) -> Trace:
        inputs = self._inputs(question.inputs)
        own = self._own(inputs) if question.target is None else ()
        trace = self.subject.trace(inputs, own[0].tokens if own else question.target)
        _check(max(len(stream.tokens) for stream in trace.streams.values()) - 1)  # the end is not counted
        if not _fits(trace):
            raise RegardError("the output is not as long as this model's output for the text would be")
        return trace


def _fits(trace: Trace) -> bool:
    return len(trace.target.tokens) == len(trace.streams[trace.output_stream].tokens)


def _check(length: int) -> None:
    if length > MAX_TOKENS:
        raise RegardError(f"{length} tokens are more than can be looked at here at once: {MAX_TOKENS}")


def _alignment(trace: Trace) -> dict[str, Any] | None:
    """What each unit looked at, in the mean of all attentions between two streams; within one, if there are no two."""
    if not trace.looks:
        return None
    view = AttentionView(trace)
    streams = {"asks": view.asks, "answers": view.answers}
    return {**streams, "rows": view.rows, "columns": view.columns, "weights": _rounded(view.weights)}


def _predicted(trace: Trace) -> dict[str, Any]:
    """What is said, token by token, and how probable it was."""
    logits_BTV = trace.run()
    token_probabilities = trace.token_probabilities(logits_BTV)
    others = [
        zip(trace.pieces([token for token, _ in each.others]), [p for _, p in each.others], strict=True)
        for each in token_probabilities
    ]
    return {
        **_shown(trace.target),
        "probabilities": [_short(each.probability) for each in token_probabilities],
        "others": [[[piece, _short(p)] for piece, p in pairs] for pairs in others],
        "log_probability": _short(float(trace.log_probabilities(logits_BTV).sum())),
    }


def _shown(stream: Stream) -> dict[str, Any]:
    shown = asdict(stream)
    del shown["tokens"]
    return shown


def _rounded(values: Tensor) -> Any:
    """Numbers with six digits that count; what may not be seen is null."""
    if values.dim() > 1:
        return [_rounded(row) for row in values]
    return [_short(value) for value in values.tolist()]


def _short(value: float) -> float | None:
    return None if value != value else float(f"{value:.6g}")
