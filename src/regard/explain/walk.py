"""Follow one token through a part of a model, step by step, with the numbers of the model at work.

Hooks record what goes into and comes out of the blocks while the model runs as always; each block then tells its steps,
in the order in which the blocks were done. A model of any family can be walked through, as long as it is made of these
blocks. What a fused kernel does not show (dot products, softmax) is computed from what went into it.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.blocks.attend import attend_explicitly, weigh
from regard.blocks.attention import MultiHeadAttention
from regard.blocks.convolution import GatedConvolution
from regard.blocks.embedding import TokenEmbedding
from regard.blocks.feedforward import FeedForward
from regard.blocks.norms import BatchNorm, LayerNorm, Residual
from regard.blocks.positions import Positions
from regard.blocks.recurrent import AttentiveCell, RecurrentEncoder
from regard.blocks.scores import AdditiveScore, DotScore, LocationAwareScore, ScoredAttention
from regard.explain.reading import Reading
from regard.models.conv_seq2seq import HALF, ConvDecoderLayer, ConvEncoderLayer
from regard.models.interface import Observable


@dataclass(frozen=True)
class Code:
    """A line of Regard's source."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Step:
    """One step of the computation, as it was for one token."""

    name: str
    equation: str
    values: Tensor
    """One number for each feature or each key, or a row of features for each key; NaN: may not be seen."""
    axes: tuple[str, ...]
    """What the dimensions of the values are: "features", "keys"."""
    shape: str
    """The shape of the whole tensor, for all tokens and heads."""
    code: Code | None


@dataclass(frozen=True)
class Part:
    """A part of a model that a token goes through."""

    path: str
    stream: str
    block: str
    """What it is made of."""
    call: int
    """Which use of its module it is, where one module serves as several parts."""


def parts(model: nn.Module) -> list[Part]:
    """What the tokens of each stream go through, in order."""
    result, seen = [], dict[int, int]()
    assert isinstance(model, Observable)
    for pattern, stream in model.parts.items():
        for path in _expanded(model, pattern):
            module = _module(model, path)
            if module is not None:
                call = seen.get(id(module), 0)
                seen[id(module)] = call + 1
                result.append(Part(path, stream, type(module).__name__, call))
    return result


def _expanded(model: nn.Module, pattern: str) -> list[str]:
    if not pattern.endswith(".*"):
        return [pattern]
    owner = pattern.removesuffix(".*")
    return [f"{owner}.{name}" for name, _ in model.get_submodule(owner).named_children()]


def _module(model: nn.Module, path: str) -> nn.Module | None:
    owner, _, name = path.rpartition(".")
    return cast(nn.Module | None, getattr(model.get_submodule(owner), name))


@dataclass
class _Call:
    """One use of a block."""

    module: Any
    args: tuple[Any, ...]
    output: Any
    within: Any
    """The block that it is part of."""


@dataclass
class _Walker:
    """What is being followed: a token of a stream, and a head."""

    token: int
    head: int
    calls: dict[int, list[_Call]] = field(default_factory=dict)
    cell: AttentiveCell | None = None
    """The recurrent cell that is at work, if one is."""
    once_a_token: set[int] = field(default_factory=set)
    """The modules that such a cell uses anew for each token."""

    def of(self, module: nn.Module) -> _Call:
        """The use of a module that the token took part in."""
        return self.calls[id(module)][self.token if id(module) in self.once_a_token else 0]

    def row(self, x_BTD: Tensor) -> Tensor:
        """The token's vector; where tokens come one at a time, the only one."""
        return x_BTD[0, self.token if x_BTD.size(1) > 1 else 0]


def walk(reading: Reading, path: str, token: int, head: int = 0) -> list[Step]:
    """The steps of one token through one part of the model, as one head sees them.

    Args:
        path: a part, as `parts` names it.
        token: which token of the part's stream, counted from 0.
    """
    part = next((part for part in parts(reading.model) if part.path == path), None)
    if part is None:
        known = ", ".join(repr(part.path) for part in parts(reading.model))
        raise ValueError(f"no part is at {path!r}; this model has {known}")
    length = len(reading.streams[part.stream].tokens)
    if not 0 <= token < length:
        raise ValueError(f"token {token} of {length} was asked for; they are counted from 0")
    root = reading.model.get_submodule(path)
    for module in root.modules():
        if isinstance(module, MultiHeadAttention) and not 0 <= head < module.heads:
            raise ValueError(f"head {head} of {module.heads} was asked for; they are counted from 0")
    walker, done = _Walker(token, head), list[_Call]()
    with ExitStack() as hooks:
        _watch(root, None, walker, done, hooks)
        reading.run()
    walker.calls[id(root)] = walker.calls[id(root)][part.call :]
    steps: list[Step] = []
    for call in done:
        teller = TELLERS.get(type(call.module))
        if teller is not None and walker.of(call.module) is call:
            steps += teller(walker, call)
    return steps


def _watch(module: nn.Module, within: nn.Module | None, walker: _Walker, done: list[_Call], hooks: ExitStack) -> None:
    """Records what a module and all below it do."""

    def begin(module: nn.Module, _args: tuple[Any, ...]) -> None:
        if isinstance(module, AttentiveCell):
            walker.cell = module

    def record(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        call = _Call(module, args, output, within)
        walker.calls.setdefault(id(module), []).append(call)
        done.append(call)
        if walker.cell is not None:
            walker.once_a_token.add(id(module))
        if walker.cell is module:
            walker.cell = None

    hooks.callback(module.register_forward_pre_hook(begin).remove)
    hooks.callback(module.register_forward_hook(record).remove)
    for child in module.children():
        _watch(child, module, walker, done, hooks)


# what each block tells


def _embedding(walker: _Walker, call: _Call) -> Iterator[Step]:
    module: TokenEmbedding = call.module
    scale = "" if module.scale == 1 else " · √D"
    code = _code(TokenEmbedding.forward, "F.embedding(")
    yield Step("embedding", f"x = E[token]{scale}", walker.row(call.output), FEATURES, _shape(call.output), code)


def _positions(walker: _Walker, call: _Call) -> Iterator[Step]:
    module: Positions = call.module
    encoding = module.encoding(*call.args)[None]
    yield Step(
        "position", "e_t", walker.row(encoding), FEATURES, _shape(encoding), _code(Positions.forward, "self.encoding(")
    )
    beside = module.merge == "concatenate"
    equation, needle = ("[x, e_t]", "torch.cat(") if beside else ("x + e_t", "return x_BTD + encoding_TE")
    code = _code(Positions.forward, needle)
    yield Step(
        "beside position" if beside else "plus position",
        equation,
        walker.row(call.output),
        FEATURES,
        _shape(call.output),
        code,
    )


def _norm(walker: _Walker, call: _Call) -> Iterator[Step]:
    if isinstance(call.within, Residual) and call.within.placement == "post":
        code = _code(Residual.forward, "return self.norm(x_BTD + ")
        yield Step("add", "x + sublayer(x)", walker.row(call.args[0]), FEATURES, _shape(call.args[0]), code)
    is_layer = isinstance(call.module, LayerNorm)
    code = _code(LayerNorm.forward, "F.layer_norm(") if is_layer else _code(BatchNorm.forward, "return (x_BTD - mean")
    yield Step("norm", "g ⊙ (x − μ)/σ + b", walker.row(call.output), FEATURES, _shape(call.output), code)


def _residual(walker: _Walker, call: _Call) -> Iterator[Step]:
    if call.module.placement == "pre":
        code = _code(Residual.forward, "return x_BTD + ")
        yield Step("add", "x + sublayer(norm(x))", walker.row(call.output), FEATURES, _shape(call.output), code)


def _attention(walker: _Walker, call: _Call) -> Iterator[Step]:
    module: MultiHeadAttention = call.module
    core = walker.of(module.attend)
    query_BHTK, key_BHSK, value_BHSK, allowed, scale = core.args
    head, row = walker.head, walker.token
    forward, remember = MultiHeadAttention.forward, MultiHeadAttention.remember
    answers = "x" if len(call.args) < 2 or call.args[1] is None else "m"

    def step(name: str, equation: str, values: Tensor, axes: tuple[str, ...], whole: Tensor, code: Code) -> Step:
        return Step(name, equation, values, axes, _shape(whole), code)

    if module.rotary is None:
        line = _code(forward, "self._split(self.query(")
        yield step("query", "q = W_Q x + b", query_BHTK[0, head, row], FEATURES, query_BHTK, line)
        line = _code(remember, "self._split(self.key(")
        yield step("keys", f"k_i = W_K {answers}_i + b", key_BHSK[0, head], ROWS, key_BHSK, line)
    else:
        raw_BHTK = module._split(walker.of(module.query).output)
        line = _code(forward, "self._split(self.query(")
        yield step("query", "q = W_Q x + b", raw_BHTK[0, head, row], FEATURES, raw_BHTK, line)
        line = _code(forward, "query_BHTK = self.rotary(")
        yield step("query, turned", "q ← R_t q", query_BHTK[0, head, row], FEATURES, query_BHTK, line)
        line = _code(remember, "key_BHSK = self.rotary(")
        yield step("keys, turned", f"k_i = R_i (W_K {answers}_i + b)", key_BHSK[0, head], ROWS, key_BHSK, line)
    line = _code(remember, "return KeyValue(key_BHSK, self._split(")
    yield step("values", f"v_i = W_V {answers}_i + b", value_BHSK[0, head], ROWS, value_BHSK, line)
    line = _code(attend_explicitly, "scores_BHTS = query_BHTK @")
    dots_BHTS = query_BHTK @ key_BHSK.mT
    yield step("dot products", "q · k_i", dots_BHTS[0, head, row], KEYS, dots_BHTS, line)
    scores_BHTS = dots_BHTS * scale
    if scale != 1:
        yield step("scaled", "s_i = q · k_i / √K", scores_BHTS[0, head, row], KEYS, scores_BHTS, line)
    found_BHTK, weights_BHTS = attend_explicitly(query_BHTK, key_BHSK, value_BHSK, allowed, scale)
    yield from _weighed(scores_BHTS, allowed, weights_BHTS, head, row)
    line = _code(weigh, "return weights_BHTS @ value")
    yield step("weighted sum", "Σ_i α_i v_i", found_BHTK[0, head, row], FEATURES, found_BHTK, line)
    joined_BTD = core.output.transpose(1, 2).flatten(2)
    line = _code(forward, "return self.out(")
    yield Step("heads joined", "[head_1, …, head_H]", walker.row(joined_BTD), FEATURES, _shape(joined_BTD), line)
    yield Step("W_O", "W_O [head_1, …, head_H] + b", walker.row(call.output), FEATURES, _shape(call.output), line)


def _weighed(scores_BHTS: Tensor, allowed: Tensor | None, weights_BHTS: Tensor, head: int, row: int) -> Iterator[Step]:
    """Mask and softmax."""
    if allowed is not None and not bool(allowed.all()):
        masked_BHTS = scores_BHTS.masked_fill(~allowed, torch.nan)
        line = _code(weigh, "weights_BHTS = scores_BHTS.masked_fill(")
        yield Step("mask", "s_i, or nothing", masked_BHTS[0, head, row], KEYS, _shape(scores_BHTS), line)
    else:
        line = _code(weigh, "weights_BHTS = scores_BHTS.softmax(")
    yield Step("softmax", "α = softmax(s)", weights_BHTS[0, head, row], KEYS, _shape(weights_BHTS), line)


def _feedforward(walker: _Walker, call: _Call) -> Iterator[Step]:
    module: FeedForward = call.module
    inner_BTF = walker.of(module.inner).output
    line = _code(FeedForward.forward, "hidden_BTF = ")
    hidden_BTF = module.activation(inner_BTF)
    yield Step("feed-forward, inner", "h = f(W_1 x + b_1)", walker.row(hidden_BTF), FEATURES, _shape(hidden_BTF), line)
    line = _code(FeedForward.forward, "return self.outer(")
    yield Step("feed-forward", "W_2 h + b_2", walker.row(call.output), FEATURES, _shape(call.output), line)


def _scored(walker: _Walker, call: _Call) -> Iterator[Step]:
    module: ScoredAttention = call.module
    core = walker.of(module.weigh)
    scores_B1TS, value_B1SM, allowed = core.args
    context_B1TM, weights_B1TS = core.output
    line = _code(ScoredAttention.forward, "scores_BTS = self.score(")
    state_BTD = call.args[0]
    yield Step("state", "s_(t−1)", walker.row(state_BTD), FEATURES, _shape(state_BTD), line)
    yield Step("memory", "h_i", value_B1SM[0, 0], ROWS, _shape(value_B1SM), line)
    equations: dict[type, str] = {
        AdditiveScore: "e_i = vᵀ tanh(W s + U h_i)",
        LocationAwareScore: "e_i = vᵀ tanh(W s + U h_i + Z f_i + b)",
    }
    divided = " / √M" if isinstance(module.score, DotScore) and module.score.scale != 1 else ""
    equation = equations.get(type(module.score), f"e_i = (W s)ᵀ h_i{divided}")
    yield Step("scores", equation, scores_B1TS[0, 0, 0], KEYS, _shape(scores_B1TS), line)
    yield from _weighed(scores_B1TS, allowed, weights_B1TS, 0, 0)
    line = _code(weigh, "return weights_BHTS @ value")
    yield Step("context", "c = Σ_i α_i h_i", context_B1TM[0, 0, 0], FEATURES, _shape(context_B1TM), line)


def _cell(walker: _Walker, call: _Call) -> Iterator[Step]:
    module: AttentiveCell = call.module
    kernel = walker.of(module.kernel)
    attentive = module.attention is not None
    line = _code(AttentiveCell.forward, "torch.cat((x_BE" if attentive else "self.kernel(x_BE[:, None]")
    given, _ = kernel.args
    equation = "[x_t, c_t]" if attentive else "x_t"
    yield Step("what the cell is given", equation, walker.row(given), FEATURES, _shape(given), line)
    state = kernel.output[0]
    yield Step("new state", f"s_t = cell({equation}, s_(t−1))", walker.row(state), FEATURES, _shape(state), line)


def _encoder(walker: _Walker, call: _Call) -> Iterator[Step]:
    memory_BSM, _ = call.output
    line = _code(RecurrentEncoder.forward, "states, last = self.kernel(")
    yield Step("read in order", "h_t = cell(x_t, h_(t∓1))", walker.row(memory_BSM), FEATURES, _shape(memory_BSM), line)


def _convolution(walker: _Walker, call: _Call) -> Iterator[Step]:
    module: GatedConvolution = call.module
    values_BTD, gates_BTD = walker.of(module.filters).output.mT.chunk(2, dim=2)
    line = _code(GatedConvolution._gate, "F.glu(")
    yield Step("convolution", "x ∗ A + a", walker.row(values_BTD), FEATURES, _shape(values_BTD), line)
    gates_BTD = gates_BTD.sigmoid()
    yield Step("gate", "σ(x ∗ B + b)", walker.row(gates_BTD), FEATURES, _shape(gates_BTD), line)
    yield Step("gated", "(x ∗ A + a) ⊙ σ(x ∗ B + b)", walker.row(call.output), FEATURES, _shape(call.output), line)


def _linear(walker: _Walker, call: _Call) -> Iterator[Step]:
    if call.within is None:  # or else it belongs to a block that tells of it
        yield Step("linear layer", "W x + b", walker.row(call.output), FEATURES, _shape(call.output), None)


def _conv_encoder(walker: _Walker, call: _Call) -> Iterator[Step]:
    line = _code(ConvEncoderLayer.forward, "return ")
    yield Step("add", "(x + y) · √½", walker.row(call.output), FEATURES, _shape(call.output), line)


def _conv_decoder(walker: _Walker, call: _Call) -> Iterator[Step]:
    module: ConvDecoderLayer = call.module
    gated_BTD, found_BTD = walker.of(module.convolution).output, walker.of(module.attention).output
    joined_BTD = (gated_BTD + found_BTD) * HALF
    line = _code(ConvDecoderLayer.join, "y_BTD = ")
    yield Step("add", "y = (y + c) · √½", walker.row(joined_BTD), FEATURES, _shape(joined_BTD), line)
    line = _code(ConvDecoderLayer.join, "return ")
    yield Step("add", "(x + y) · √½", walker.row(call.output), FEATURES, _shape(call.output), line)


FEATURES, KEYS, ROWS = ("features",), ("keys",), ("keys", "features")
TELLERS: dict[type, Callable[[_Walker, _Call], Iterator[Step]]] = {
    TokenEmbedding: _embedding,
    Positions: _positions,
    LayerNorm: _norm,
    BatchNorm: _norm,
    Residual: _residual,
    MultiHeadAttention: _attention,
    FeedForward: _feedforward,
    ScoredAttention: _scored,
    AttentiveCell: _cell,
    RecurrentEncoder: _encoder,
    GatedConvolution: _convolution,
    ConvEncoderLayer: _conv_encoder,
    ConvDecoderLayer: _conv_decoder,
    nn.Linear: _linear,
}


def _shape(x: Tensor) -> str:
    return " × ".join(map(str, x.shape[1:]))


@cache
def _code(function: Callable[..., Any], needle: str) -> Code:
    """The line of a function that holds the needle."""
    lines, first = inspect.getsourcelines(function)
    found = [(first + i, line.strip()) for i, line in enumerate(lines) if needle in line]
    assert len(found) == 1, f"{needle!r} is on {len(found)} lines of {function.__qualname__}"
    path = Path(inspect.getfile(function)).relative_to(Path(__file__).parents[2])
    return Code(path.as_posix(), *found[0])
