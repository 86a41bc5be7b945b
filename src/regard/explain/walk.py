"""Follow one token through a part of a model, step by step, with the actual activations.

Hooks record the inputs and outputs of the blocks during a normal forward pass. Each block then describes its
operations (see `blocks/operations.py`), in the order in which the blocks finished. This works for any model whose
blocks have `operations`. What a fused kernel does not expose (dot products, softmax) is recomputed from its inputs.

The last part, `OUTPUT`, leads from the last hidden state to the prediction: logits, softmax, and the most probable
outputs. The model itself describes it.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from regard.blocks.attend import AttentionCore
from regard.blocks.operations import OUTPUTS, ROWS, Operation
from regard.blocks.repeated import Hooks, by_depth
from regard.errors import RegardError
from regard.explain.trace import Trace
from regard.models.interface import Observable, Predicting

OUTPUT = "output"  # the path of the last part


@dataclass(frozen=True)
class Code:
    """A line of Regard's source."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Step:
    """One step of the computation for one token."""

    name: str
    equation: str
    values: Tensor
    """One number per feature, per key or per possible output, or a row of features per key; NaN: masked."""
    axes: tuple[str, ...]
    """The names of the dimensions of `values`: "features", "keys", "outputs"."""
    shape: str
    """The shape of the whole tensor, for all tokens and heads."""
    code: Code | None


@dataclass(frozen=True)
class ModelPart:
    """A part of a model that tokens pass through."""

    path: str
    """The module path, followed by the depth if the module runs at several depths."""
    stream: str
    block: str
    """The class name of its module."""
    call: int
    """The index of the call, if one module serves as several parts."""


def parts(model: nn.Module) -> list[ModelPart]:
    """The parts that the tokens of each stream pass through, in order."""
    assert isinstance(model, Observable), f"{type(model).__name__} declares no `looks` and `parts`"
    streams = {path: stream for pattern, stream in model.parts.items() for path in _expanded(model, pattern)}
    modules = {path: module for path in streams if (module := _module(model, path)) is not None}
    result, seen = [], Counter[tuple[nn.Module, str]]()
    for name, module in by_depth(model, modules).items():
        path, _, depth = name.partition("@")
        result.append(ModelPart(name, streams[path], type(module).__name__, seen[module, depth]))
        seen[module, depth] += 1
    return result


def output_part(trace: Trace) -> ModelPart | None:
    """The last part, from the last hidden states to the prediction; None if the model predicts nothing."""
    model: nn.Module = trace.model
    if not trace.target.tokens or not isinstance(model, Predicting):
        return None
    return ModelPart(OUTPUT, trace.output_stream, type(model).__name__, 0)


def top_outputs(step: Step, count: int = 5) -> list[int]:
    """The outputs (tokens or labels) with the largest values in a step of the part `OUTPUT`, best first."""
    return step.values.topk(min(count, len(step.values))).indices.tolist()


def _expanded(model: nn.Module, pattern: str) -> list[str]:
    if not pattern.endswith(".*"):
        return [pattern]
    owner = pattern.removesuffix(".*")
    return [f"{owner}.{name}" for name, _ in model.get_submodule(owner).named_children()]


def _module(model: nn.Module, path: str) -> nn.Module | None:
    owner, _, name = path.rpartition(".")
    return cast(nn.Module | None, getattr(model.get_submodule(owner), name))


@dataclass(eq=False)
class _Call:
    """One call of a module, and the calls inside it."""

    module: Any
    args: tuple[Any, ...]
    token: int
    """The index of the token that is followed."""
    output: Any = None
    inside: list["_Call"] = field(default_factory=list)
    is_described: bool = False
    """Whether the enclosing block describes its operations."""

    def followed(self) -> Iterator["_Call"]:
        """The calls inside this one that the token took part in, inner calls first."""
        seen = Counter[nn.Module]()
        for call in self.inside:
            if not getattr(call.module, "takes_one_token", False) or seen[call.module] == self.token:
                yield from call.followed()
                yield call
            seen[call.module] += 1

    def of(self, module: nn.Module) -> "_Call":
        """The call of a module inside this one."""
        return next(call for call in self.followed() if call.module is module)

    def tell(self, module: nn.Module) -> list[Operation]:
        """The operations of a module inside this one, which are then not listed a second time."""
        call = self.of(module)
        call.is_described = True
        return list(call.module.operations(call))


def walk(trace: Trace, path: str, token: int, head: int = 0) -> list[Step]:
    """The steps of one token through one part of the model, for one attention head.

    Args:
        path: the path of a part, as in `parts`, or `OUTPUT`.
        token: the index of a token in the part's stream, from 0.
        head: the index of a head, from 0; attention layers with fewer heads have no steps for it.
    """
    last = output_part(trace)
    known = {part.path: part for part in (*parts(trace.model), *([] if last is None else [last]))}
    if path not in known:
        raise RegardError(f"no part {path!r}; this model has {', '.join(map(repr, known))}")
    part = known[path]
    length = len(trace.streams[part.stream].tokens)
    if not 0 <= token < length:
        raise RegardError(f"token {token} is out of range; the stream has {length} tokens, counted from 0")
    root = trace.model if part is last else trace.model.get_submodule(path.partition("@")[0])
    heads = max((module.heads for module in root.modules() if isinstance(module, AttentionCore)), default=head + 1)
    if not 0 <= head < heads:
        raise RegardError(f"head {head} is out of range; there are {heads} heads, counted from 0")
    runs = [call for call in _recorded(trace, part, root, token) if call.module is root][part.call :]
    at = token if getattr(root, "takes_one_token", False) else 0
    if at >= len(runs):
        raise RegardError(f"{path!r} did not run; this model may stop at an earlier layer")
    operations = _output_operations(runs[at]) if part is last else _operations(runs[at])
    assert operations, f"{path!r} has no steps: neither {type(root).__name__} nor its submodules have `operations`"
    return [_step(operation, token, head) for operation in operations if _has_head(operation, head)]


def _recorded(trace: Trace, part: ModelPart, root: nn.Module, token: int) -> list[_Call]:
    """The calls of a part's module and all its submodules during a forward pass, nested."""
    open_calls = [_Call(None, (), token)]

    def begin(module: nn.Module, args: tuple[Any, ...]) -> None:
        open_calls.append(_Call(module, args, token))

    def end(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        call = open_calls.pop()
        call.output = output
        open_calls[-1].inside.append(call)

    with Hooks(trace.model) as hooks:
        for module in root.modules():
            hooks.before(part.path, module, begin)
            hooks.after(part.path, module, end)
        trace.run()
    return open_calls[0].inside


def _operations(root: _Call) -> list[Operation]:
    """The operations of all blocks in a call, in the order in which the blocks finished."""
    if isinstance(root.module, nn.Linear):
        return [Operation("linear layer", "W x + b", root.output, None)]
    order, operations = [*root.followed(), root], dict[_Call, list[Operation]]()
    for call in reversed(order):  # outer blocks first: they may describe inner ones
        if hasattr(call.module, "operations") and not call.is_described:
            operations[call] = list(call.module.operations(call))
    return [operation for call in order for operation in operations.get(call, ())]


def _output_operations(model: _Call) -> list[Operation]:
    """The operations of the model itself, then the softmax; a single number, as in regression, has none."""
    *before, logits = model.module.operations(model)
    if logits.result.size(-1) == 1:
        return [*before, logits]
    equation, where = "p_i = exp(z_i) / Σ_j exp(z_j)", (Trace.token_probabilities, "log_softmax(")
    softmax = Operation("softmax", equation, logits.result.log_softmax(-1).exp(), where, OUTPUTS)
    return [*before, logits, softmax]


def _has_head(operation: Operation, head: int) -> bool:
    return operation.result.dim() == 3 or head < operation.result.size(1)


def _step(operation: Operation, token: int, head: int) -> Step:
    """An operation for one token and one head."""
    whole, values = operation.result, operation.result[0] if operation.result.dim() == 3 else operation.result[0, head]
    if operation.axes != ROWS:
        values = values[token if len(values) > 1 else 0]  # a module that takes one token has only this one
    code = None if operation.where is None else _code(*operation.where)
    shape = " × ".join(map(str, whole.shape[1:]))
    return Step(operation.name, operation.equation, values, operation.axes, shape, code)


@cache
def _code(function: Callable[..., Any], needle: str) -> Code | None:
    """The line of a function that contains the needle, if the function is Regard's."""
    package, path = Path(__file__).parents[1], Path(inspect.getfile(function))
    if not path.is_relative_to(package):
        return None
    lines, first = inspect.getsourcelines(function)
    found = [(first + i, line.strip()) for i, line in enumerate(lines) if needle in line]
    assert len(found) == 1, f"{needle!r} is on {len(found)} lines of {function.__qualname__}"
    return Code(path.relative_to(package.parent).as_posix(), *found[0])
