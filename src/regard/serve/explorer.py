"""The explorer's requests and answers as plain data, independent of the transport.

A request is a verb and its arguments. The answer depends on nothing else, so a view can be shared as a URL, repeated,
or saved with its answers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from regard.blocks.capture import capture, intervene, position_modules
from regard.blocks.operations import OUTPUTS
from regard.errors import RegardError
from regard.explain import importance, positions, walk
from regard.explain.media import MEDIA
from regard.explain.trace import Alternative, Inputs, Inspectable, PartialOutput, Stream, Trace, by_role, looks, mean
from regard.explain.view import AttentionView
from regard.models.interface import Autoregressive

MAX_CHARACTERS = 4000  # maximum length of an input
MAX_TOKENS = 512  # maximum length of a stream
CACHE_SIZE = 32  # maximum number of inputs whose outputs are cached
N_BEST = 3
MAX_OUTPUTS = 10  # maximum number of outputs shown in a walk, beside the target

ShortText = Annotated[str, Field(max_length=MAX_CHARACTERS)]
Role = Annotated[str, Field(max_length=40)]
Path_ = Annotated[str, Field(max_length=200)]
Number = Annotated[int, Field(ge=0, lt=100_000)]


class Arguments(BaseModel):
    """The arguments of a verb; unknown ones are an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Question(Arguments):
    """Inputs by role, and the output to explain; default: the model's own."""

    inputs: dict[Role, ShortText]
    target: ShortText | None = None


class AttentionQuestion(Question):
    """One attention layer, for these inputs."""

    path: Path_


class TokenQuestion(Question):
    """One token, one part of the model and one attention head."""

    path: Path_
    token: Number
    head: Number = 0


class OutputQuestion(Question):
    """The whole output, or one of its tokens."""

    token: Number | None = None


class Change(Arguments):
    """What to switch off in the model."""

    heads: Mapping[Path_, Sequence[Number]] = {}
    mask: Sequence[Path_] = ()
    scaling: Sequence[Path_] = ()
    positions: Sequence[Path_] = ()

    def applied(self, model: torch.nn.Module) -> AbstractContextManager[None]:
        """A context manager that applies the change to the model."""
        return intervene(
            model,
            drop_heads=self.heads,
            drop_mask=self.mask,
            drop_scaling=self.scaling,
            drop_positions=self.positions,
        )


class WhatIfQuestion(OutputQuestion):
    """A change of the model, of its inputs, or of both."""

    change: Change = Change()
    other: dict[Role, ShortText] = {}
    """Inputs that replace the original ones."""


class RolloutQuestion(Question):
    """Attention rollout through all layers, from one stream to another or to itself."""

    asks: Path_
    answers: Path_


class EncodingsQuestion(Arguments):
    """Positional encodings of one kind."""

    kind: Annotated[str, Field(max_length=20)] = "own"
    length: Annotated[int, Field(ge=2, le=MAX_TOKENS)] = 64


class CodeQuestion(Arguments):
    """A file of Regard's source."""

    file: Path_


@dataclass(frozen=True)
class Numbers:
    """An answer that is a tensor, sent in half precision."""

    values: Tensor


Answer = dict[str, Any] | Numbers
A = TypeVar("A", bound=BaseModel)


def validated(kind: type[A], arguments: Mapping[str, Any]) -> A:
    """Parses the arguments as `kind`; raises `RegardError` if they are invalid."""
    try:
        return kind.model_validate(arguments)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise RegardError("; ".join(problems)) from None


class Explorer:
    """Answers the page's requests about one model.

    Args:
        example: the inputs to show first; default: an example for each medium.
    """

    def __init__(self, subject: Inspectable, name: str, example: Inputs | None = None) -> None:
        self.subject, self.name = subject, name
        examples = {role: MEDIA[medium].EXAMPLE for role, medium in subject.accepts.items()}
        self.example = by_role(subject.accepts, examples if example is None else example)
        self._alternatives = lru_cache(CACHE_SIZE)(lambda inputs: subject.alternatives(dict(inputs), N_BEST))
        self.verbs: dict[str, tuple[type[Arguments], Callable[[Any], Answer]]] = {
            "model": (Arguments, self.model),
            "read": (Question, self.read),
            "attention": (AttentionQuestion, self.attention),
            "walk": (TokenQuestion, self.walk),
            "what-if": (WhatIfQuestion, self.what_if),
            "heads": (OutputQuestion, self.heads),
            "rollout": (RolloutQuestion, self.rollout),
            "positions": (EncodingsQuestion, self.positions),
            "likeness": (EncodingsQuestion, self.likeness),
            "code": (CodeQuestion, self.code),
        }

    def answer(self, verb: str, arguments: Mapping[str, Any]) -> Answer:
        """The answer to a request; raises `RegardError` for an invalid one."""
        if verb not in self.verbs:
            raise RegardError(f"unknown verb {verb!r}; valid: {', '.join(self.verbs)}")
        kind, method = self.verbs[verb]
        return method(validated(kind, arguments))

    def model(self, _question: Arguments) -> Answer:
        """The model's structure."""
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

    def read(self, question: Question) -> Answer:
        """Inputs and output, token by token; without a given output, the model's own and the next best ones."""
        trace = self._trace(question)
        own = [] if question.target is not None else self._own(self._inputs(question.inputs))
        last = walk.output_part(trace)
        return {
            "streams": {name: _shown(stream) for name, stream in trace.streams.items()},
            "output_stream": trace.output_stream,
            "output_part": None if last is None else asdict(last),
            "target": _shown(trace.target),
            "spoken": _predicted(trace, trace.outputs()),
            "alignment": _alignment(trace),
            "alternatives": [
                {"text": each.text, "mean_log_probability": _short(each.mean_log_probability)} for each in own
            ],
        }

    def attention(self, question: AttentionQuestion) -> Answer:
        """The weights of all heads of one attention layer: heads × queries × keys."""
        trace = self._trace(question)
        look = trace.look(question.path)
        sizes = (len(trace.streams[stream].tokens) for stream in (look.asks, look.answers))
        zeros = torch.zeros(look.heads, *sizes)  # if the model stopped before that depth
        return Numbers(trace.weights(look.path).get(look.path, zeros))

    def walk(self, question: TokenQuestion) -> Answer:
        """The computation steps of a token in one part of the model; of the outputs, only the most probable ones."""
        trace = self._trace(question)
        steps = walk.walk(trace, question.path, question.token, question.head)
        shown = _top_outputs(trace, steps[-1], question.token)
        return {
            "outputs": trace.pieces(shown),
            "steps": [
                {
                    "name": step.name,
                    "equation": step.equation,
                    "shape": step.shape,
                    "axes": step.axes,
                    "values": _rounded(step.values[shown] if step.axes == OUTPUTS else step.values),
                    "code": None if step.code is None else asdict(step.code),
                }
                for step in steps
            ],
        }

    def what_if(self, question: WhatIfQuestion) -> Answer:
        """The model's output, and the probabilities of the given output, before and after a change."""
        inputs = self._inputs({**question.inputs, **question.other})
        trace = self._trace(question)
        outputs = trace.outputs(question.token)
        own = trace if question.target is None else self._trace(Question(inputs=question.inputs))
        before = {"own": _predicted(own, own.outputs()), "original": _predicted(trace, outputs)}
        with question.change.applied(self.subject.model):
            changed, given = self.subject.trace(inputs), self.subject.trace(inputs, trace.answer)
            # if there is one prediction per input token, the output may not fit another input
            same = trace.same_outputs(given, outputs) if _fits(given) else None
            after = {
                "given": None if same is None else _predicted(given, same),
                "changed": _predicted(changed, changed.outputs()),
            }
        return {**before, **after}

    def heads(self, question: OutputQuestion) -> Answer:
        """Head importance, attention rollout, and the predictions after each layer."""
        trace = self._trace(question)
        outputs = trace.outputs(question.token)
        effects = importance.head_effects(trace, question.token) if outputs else {}
        early = importance.early_answers(trace)
        return {
            "outputs": outputs,
            "effects": {path: _rounded(changes) for path, changes in effects.items()},
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

    def rollout(self, question: RolloutQuestion) -> Answer:
        """Attention rollout: how much each token contributes to each token, queries × keys."""
        flows = importance.rollout(self._trace(question))
        if (question.asks, question.answers) not in flows:
            raise RegardError(f"{question.asks!r} does not attend to {question.answers!r} in this model")
        return Numbers(flows[question.asks, question.answers])

    def positions(self, question: EncodingsQuestion) -> Answer:
        """The positional encodings: positions × features."""
        return Numbers(positions.encodings(self.subject.model, question.length, question.kind))

    def likeness(self, question: EncodingsQuestion) -> Answer:
        """The similarity of two positions, by their distance."""
        encoding = positions.encodings(self.subject.model, question.length, question.kind)
        return {"similarity": _rounded(positions.similarity(encoding))}

    def code(self, question: CodeQuestion) -> Answer:
        """A file of Regard's source; other files are refused."""
        package = Path(__file__).parents[1]
        known = {path.relative_to(package.parent).as_posix(): path for path in package.rglob("*.py")}
        if question.file not in known:
            raise RegardError(f"{question.file!r} is not a source file of Regard")
        return {"lines": known[question.file].read_text("utf-8").splitlines()}

    def generate(self, inputs: Inputs) -> Iterator[dict[str, Any]]:
        """The growing output, one item per token, with the attention weights of that token."""
        return self._generate(self.subject.generate(self._inputs(inputs)))

    def _generate(self, outputs: Iterator[PartialOutput]) -> Iterator[dict[str, Any]]:
        known = looks(self.subject.model)
        paths = [look.path for look in known if look.asks != look.answers] or [look.path for look in known]
        while True:
            # captures one step only, because other requests are handled between two tokens
            with capture(self.subject.model, paths) as maps:
                partial_output = next(outputs, None)
            if partial_output is None:
                return
            weights = (
                mean(maps[path][0, :, -1:] for path in maps)[0]
                if maps  # a model may have no attention, or not run for this token
                else torch.zeros(len(partial_output.seen.tokens))
            )
            yield {"text": partial_output.text, "seen": _shown(partial_output.seen), "weights": _rounded(weights)}

    def _inputs(self, inputs: Inputs) -> dict[str, Any]:
        """The inputs by role; raises `RegardError` if they are not accepted or too long."""
        given = by_role(self.subject.accepts, inputs)
        _check(self.subject.count(given))
        return given

    def _own(self, inputs: Mapping[str, Any]) -> Sequence[Alternative]:
        """The model's own outputs, cached."""
        return self._alternatives(tuple(inputs.items()))

    def _trace(self, question: Question) -> Trace:
        inputs = self._inputs(question.inputs)
        own = self._own(inputs) if question.target is None else ()
        trace = self.subject.trace(inputs, own[0].tokens if own else question.target)
        # the end-of-sequence token is not counted
        _check(max(len(stream.tokens) for stream in trace.streams.values()) - 1)
        if not _fits(trace):
            raise RegardError("the output has the wrong length; this model predicts one label per token of the text")
        return trace


def _fits(trace: Trace) -> bool:
    return len(trace.target.tokens) == len(trace.streams[trace.output_stream].tokens)


def _check(length: int) -> None:
    if length > MAX_TOKENS:
        raise RegardError(f"the text is too long: {length} tokens, the limit is {MAX_TOKENS}")


def _alignment(trace: Trace) -> dict[str, Any] | None:
    """What each unit attends to: the mean over all attention layers between two streams, or within the only one."""
    if not trace.looks:
        return None
    view = AttentionView(trace)
    streams = {"asks": view.asks, "answers": view.answers}
    return {**streams, "rows": view.rows, "columns": view.columns, "weights": _rounded(view.weights)}


def _top_outputs(trace: Trace, step: walk.Step, token: int) -> list[int]:
    """The outputs to show of the last step of a walk: the most probable ones and, if not among them, the target."""
    if step.axes != OUTPUTS:
        return []
    shown, target = walk.top_outputs(step, MAX_OUTPUTS), trace.target.tokens[token]
    return shown if target in shown else [*shown, target]


def _predicted(trace: Trace, outputs: Sequence[int]) -> dict[str, Any]:
    """The output, token by token, with its probabilities; the log-probability is that of the given positions."""
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
        "outputs": outputs,
        "log_probability": _short(float(trace.log_probabilities(logits_BTV)[:, list(outputs)].sum())),
    }


def _shown(stream: Stream) -> dict[str, Any]:
    shown = asdict(stream)
    del shown["tokens"]
    return shown


def _rounded(values: Tensor) -> Any:
    """Numbers with six significant digits; None for masked scores (NaN) and infinite numbers, which JSON lacks."""
    if values.dim() > 1:
        return [_rounded(row) for row in values]
    return [_short(value) for value in values.tolist()]


def _short(value: float) -> float | None:
    return float(f"{value:.6g}") if isfinite(value) else None
