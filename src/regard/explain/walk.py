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
from regard.errors import RegardError
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

    def vector(self, name: str, equation: str, x_BTD: Tensor, code: Code | None) -> Step:
        """A step that gives the token a vector; where tokens come one at a time, it is the only one."""
        return _step(name, equation, x_BTD, x_BTD[0, self.token if x_BTD.size(1) > 1 else 0], FEATURES, code)


def walk(reading: Reading, path: str, token: int, head: int = 0) -> list[Step]:
    """The steps of one token through one part of the model, as one head sees them.

    Args:
        path: a part, as `parts` names it.
        token: which token of the part's stream, counted from 0.
    """
    part = next((part for part in parts(reading.model) if part.path == path), None)
    if part is None:
        known = ", ".join(repr(part.path) for part in parts(reading.model))
        raise RegardError(f"no part is at {path!r}; this model has {known}")
    length = len(reading.streams[part.stream].tokens)
    if not 0 <= token < length:
        raise RegardError(f"token {token} of {length} was asked for; they are counted from 0")
    root = reading.model.get_submodule(path)
    for module in root.modules():
        if isinstance(module, MultiHeadAttention) and not 0 <= head < module.heads:
            raise RegardError(f"head {head} of {module.heads} was asked for; they are counted from 0")
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


def _step(name: str, equation: str, whole: Tensor, values: Tensor, axes: tuple[str, ...], code: Code | None) -> Step:
    return Step(name, equation, values, axes, " × ".join(map(str, whole.shape[1:])), code)


def _embedding(walker: _Walker, call: _Call) -> Iterator[Step]:
    scale = "" if call.module.scale == 1 else " · √D"
    code = _code(TokenEmbedding.forward, "F.embedding(")
    yield walker.vector("embedding", f"x = E[token]{scale}", call.output, code)


def _positions(walker: _Walker, call: _Call) -> Iterator[Step]:
    encoding = call.module.encoding(*call.args)[None]
    yield walker.vector("position", "e_t", encoding, _code(Positions.forward, "self.encoding("))
    if call.module.merge == "concatenate":
        yield walker.vector("beside position", "[x, e_t]", call.output, _code(Positions.forward, "torch.cat("))
    else:
        code = _code(Positions.forward, "return x_BTD + encoding_TE")
        yield walker.vector("plus position", "x + e_t", call.output, code)


def _norm(walker: _Walker, call: _Call) -> Iterator[Step]:
    if isinstance(call.within, Residual) and call.within.placement == "post":
        code = _code(Residual.forward, "return self.norm(x_BTD + ")
        yield walker.vector("add", "x + sublayer(x)", call.args[0], code)
    is_layer = isinstance(call.module, LayerNorm)
    code = _code(LayerNorm.forward, "F.layer_norm(") if is_layer else _code(BatchNorm.forward, "return (x_BTD - mean")
    yield walker.vector("norm", "g ⊙ (x − μ)/σ + b", call.output, code)


def _residual(walker: _Walker, call: _Call) -> Iterator[Step]:
    if call.module.placement == "pre":
        code = _code(Residual.forward, "return x_BTD + ")
        yield walker.vector("add", "x + sublayer(norm(x))", call.output, code)


def _attention(walker: _Walker, call: _Call) -> Iterator[Step]:
    module: MultiHeadAttention = call.module
    core = walker.of(module.attend)
    query_BHTK, key_BHSK, value_BHSK, allowed, scale = core.args
    head, row = walker.head, walker.token
    forward, remember = MultiHeadAttention.forward, MultiHeadAttention.remember
    seen = "x_i" if len(call.args) < 2 or call.args[1] is None else "m_i"
    straight_BHTK = walker.of(module.query).output.unflatten(2, (module.heads, -1)).transpose(1, 2)
    code = _code(forward, "self._split(self.query(")
    yield _step("query", "q = W_Q x + b", straight_BHTK, straight_BHTK[0, head, row], FEATURES, code)
    if module.rotary is None:
        code = _code(remember, "self._split(self.key(")
        yield _step("keys", f"k_i = W_K {seen} + b", key_BHSK, key_BHSK[0, head], ROWS, code)
    else:
        code = _code(forward, "query_BHTK = self.rotary(")
        yield _step("query, turned", "q ← R_t q", query_BHTK, query_BHTK[0, head, row], FEATURES, code)
        code = _code(remember, "key_BHSK = self.rotary(")
        yield _step("keys, turned", f"k_i = R_i (W_K {seen} + b)", key_BHSK, key_BHSK[0, head], ROWS, code)
    code = _code(remember, "return KeyValue(key_BHSK, self._split(")
    yield _step("values", f"v_i = W_V {seen} + b", value_BHSK, value_BHSK[0, head], ROWS, code)
    code = _code(attend_explicitly, "scores_BHTS = query_BHTK @")
    dots_BHTS = query_BHTK @ key_BHSK.mT
    yield _step("dot products", "q · k_i", dots_BHTS, dots_BHTS[0, head, row], KEYS, code)
    scores_BHTS = dots_BHTS * scale
    if scale != 1:
        yield _step("scaled", "s_i = q · k_i / √K", scores_BHTS, scores_BHTS[0, head, row], KEYS, code)
    found_BHTK, weights_BHTS = attend_explicitly(query_BHTK, key_BHSK, value_BHSK, allowed, scale)
    yield from _weighed(scores_BHTS, allowed, weights_BHTS, head, row)
    code = _code(weigh, "return weights_BHTS @ value")
    yield _step("weighted sum", "Σ_i α_i v_i", found_BHTK, found_BHTK[0, head, row], FEATURES, code)
    code = _code(forward, "return self.out(")
    yield walker.vector("heads joined", "[head_1, …, head_H]", core.output.transpose(1, 2).flatten(2), code)
    yield walker.vector("W_O", "W_O [head_1, …, head_H] + b", call.output, code)


def _weighed(scores_BHTS: Tensor, allowed: Tensor | None, weights_BHTS: Tensor, head: int, row: int) -> Iterator[Step]:
    """Mask and softmax."""
    if allowed is not None and not bool(allowed.all()):
        masked_BHTS = scores_BHTS.masked_fill(~allowed, torch.nan)
        code = _code(weigh, "weights_BHTS = scores_BHTS.masked_fill(")
        yield _step("mask", "s_i, or nothing", masked_BHTS, masked_BHTS[0, head, row], KEYS, code)
    else:
        code = _code(weigh, "weights_BHTS = scores_BHTS.softmax(")
    yield _step("softmax", "α = softmax(s)", weights_BHTS, weights_BHTS[0, head, row], KEYS, code)


def _feedforward(walker: _Walker, call: _Call) -> Iterator[Step]:
    module: FeedForward = call.module
    hidden_BTF = module.activation(walker.of(module.inner).output)
    code = _code(FeedForward.forward, "hidden_BTF = ")
    yield walker.vector("feed-forward, inner", "h = f(W_1 x + b_1)", hidden_BTF, code)
    yield walker.vector("feed-forward", "W_2 h + b_2", call.output, _code(FeedForward.forward, "return self.outer("))


def _scored(walker: _Walker, call: _Call) -> Iterator[Step]:
    module: ScoredAttention = call.module
    core = walker.of(module.weigh)
    scores_B1TS, value_B1SM, allowed = core.args
    context_B1TM, weights_B1TS = core.output
    code = _code(ScoredAttention.forward, "scores_BTS = self.score(")
    yield walker.vector("state", "s_(t−1)", call.args[0], code)
    yield _step("memory", "h_i", value_B1SM, value_B1SM[0, 0], ROWS, code)
    equations: dict[type, str] = {
        AdditiveScore: "e_i = vᵀ tanh(W s + U h_i)",
        LocationAwareScore: "e_i = vᵀ tanh(W s + U h_i + Z f_i + b)",
    }
    divided = " / √M" if isinstance(module.score, DotScore) and module.score.scale != 1 else ""
    equation = equations.get(type(module.score), f"e_i = (W s)ᵀ h_i{divided}")
    yield _step("scores", equation, scores_B1TS, scores_B1TS[0, 0, 0], KEYS, code)
    yield from _weighed(scores_B1TS, allowed, weights_B1TS, 0, 0)
    code = _code(weigh, "return weights_BHTS @ value")
    yield _step("context", "c = Σ_i α_i h_i", context_B1TM, context_B1TM[0, 0, 0], FEATURES, code)


def _cell(walker: _Walker, call: _Call) -> Iterator[Step]:
    module: AttentiveCell = call.module
    kernel = walker.of(module.kernel)
    attentive = module.attention is not None
    code = _code(AttentiveCell.forward, "torch.cat((x_BE" if attentive else "self.kernel(x_BE[:, None]")
    equation = "[x_t, c_t]" if attentive else "x_t"
    yield walker.vector("what the cell is given", equation, kernel.args[0], code)
    yield walker.vector("new state", f"s_t = cell({equation}, s_(t−1))", kernel.output[0], code)


def _encoder(walker: _Walker, call: _Call) -> Iterator[Step]:
    memory_BSM, _ = call.output
    code = _code(RecurrentEncoder.forward, "states, last = self.kernel(")
    yield walker.vector("read in order", "h_t = cell(x_t, h_(t∓1))", memory_BSM, code)


def _convolution(walker: _Walker, call: _Call) -> Iterator[Step]:
    values_BTD, gates_BTD = walker.of(call.module.filters).output.mT.chunk(2, dim=2)
    code = _code(GatedConvolution._gate, "F.glu(")
    yield walker.vector("convolution", "x ∗ A + a", values_BTD, code)
    yield walker.vector("gate", "σ(x ∗ B + b)", gates_BTD.sigmoid(), code)
    yield walker.vector("gated", "(x ∗ A + a) ⊙ σ(x ∗ B + b)", call.output, code)


def _linear(walker: _Walker, call: _Call) -> Iterator[Step]:
    if call.within is None:  # or else it belongs to a block that tells of it
        yield walker.vector("linear layer", "W x + b", call.output, None)


def _conv_encoder(walker: _Walker, call: _Call) -> Iterator[Step]:
    yield walker.vector("add", "(x + y) · √½", call.output, _code(ConvEncoderLayer.forward, "return "))


def _conv_decoder(walker: _Walker, call: _Call) -> Iterator[Step]:
    gated_BTD, found_BTD = (walker.of(part).output for part in (call.module.convolution, call.module.attention))
    joined_BTD = (gated_BTD + found_BTD) * HALF
    yield walker.vector("add", "y = (y + c) · √½", joined_BTD, _code(ConvDecoderLayer.join, "y_BTD = "))
    yield walker.vector("add", "(x + y) · √½", call.output, _code(ConvDecoderLayer.join, "return "))


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


@cache
def _code(function: Callable[..., Any], needle: str) -> Code:
    """The line of a function that holds the needle."""
    lines, first = inspect.getsourcelines(function)
    found = [(first + i, line.strip()) for i, line in enumerate(lines) if needle in line]
    assert len(found) == 1, f"{needle!r} is on {len(found)} lines of {function.__qualname__}"
    path = Path(inspect.getfile(function)).relative_to(Path(__file__).parents[2])
    return Code(path.as_posix(), *found[0])
