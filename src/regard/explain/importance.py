"""A weight is not yet a cause: head ablation, attention rollout, and the logit lens.

effect of a head   log p(output) with the head ablated, minus log p(output) of the full model; the output is what the
                   model is used to predict (masked tokens, a continuation, ...), or one chosen token
rollout            R_l = (A_l + I)/2 · R_(l−1): attention through all layers, residuals included
                   (Abnar and Zuidema 2020), A being the mean over heads
early answers      the output layer applied to the hidden states after each layer (the "logit lens")
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.blocks.capture import drop_one_head_each
from regard.blocks.repeated import Hooks, by_depth, repeated
from regard.errors import RegardError
from regard.explain.trace import Trace, mean
from regard.models.interface import Answering

MAX_LOGITS = 2**26  # in one forward pass; 256 MB in float32


def head_effects(trace: Trace, token: int | None = None) -> dict[str, Tensor]:
    """For each attention layer, the change in the output's log-probability when each of its heads is ablated.

    Args:
        token: the position of one target token, from 0; default: all that are predictions (see `Trace.outputs`).
    """
    outputs = list(trace.outputs(token))
    if not outputs:
        raise RegardError(
            "there is no output to explain, because this model predicts nothing for this input; choose a token "
            "(a masked language model predicts masked tokens only)"
        )
    heads = [(look.path, head) for look in trace.looks for head in range(look.heads)]
    if not heads:
        return {}
    tokens = max(len(stream.tokens) for stream in trace.streams.values())
    # upper bound: a token has at most as many logits as the largest matrix has rows
    logits = tokens * max(parameter.size(0) for parameter in trace.model.parameters())
    batch_size = max(1, MAX_LOGITS // logits)
    changes = []
    for start in range(0, len(heads), batch_size):
        chosen = heads[start : start + batch_size]
        with drop_one_head_each(trace.model, chosen):
            logs_BT = _target_log_probability(trace, trace.run(len(chosen) + 1))
        sums_B = logs_BT[:, outputs].sum(1)  # the last copy keeps all heads
        changes.append(sums_B[:-1] - sums_B[-1])
    effects = iter(torch.cat(changes).tolist())
    return {look.path: torch.tensor([next(effects) for _ in range(look.heads)]) for look in trace.looks}


def _target_log_probability(trace: Trace, logits_BTV: Tensor) -> Tensor:
    """The log-probability of each target token; for regression, the predicted number itself."""
    return logits_BTV[..., 0].cpu() if logits_BTV.size(-1) == 1 else trace.log_probabilities(logits_BTV)


def rollouts(trace: Trace) -> list[tuple[str, str]]:
    """The pairs of streams that `rollout` returns: self-attention first, then cross-attention."""
    pairs = dict.fromkeys((look.asks, look.answers) for look in trace.looks)
    return sorted(pairs, key=lambda pair: pair[0] != pair[1])


def rollout(trace: Trace) -> dict[tuple[str, str], Tensor]:
    """How much each input token contributes to each token's hidden state, by (query, key) stream.

    Cross-attention is averaged over its layers and multiplied by the rollout of the stream it attends to.
    """
    maps = trace.weights([look.path for look in trace.looks])
    result: dict[tuple[str, str], Tensor] = {}
    looks = [look for look in trace.looks if look.path in maps]  # a model with adaptive depth may stop early
    for look in looks:
        if look.asks == look.answers:
            mean_TT = maps[look.path].mean(0)
            step_TT = (mean_TT + torch.eye(len(mean_TT), dtype=mean_TT.dtype)) / 2
            before_TT = result.get((look.asks, look.asks))
            result[look.asks, look.asks] = step_TT if before_TT is None else step_TT @ before_TT
    for pair in [pair for pair in rollouts(trace) if pair[0] != pair[1]]:
        mean_TS = mean(maps[look.path] for look in looks if (look.asks, look.answers) == pair)
        within_SS = result.get((pair[1], pair[1]))
        result[pair] = mean_TS if within_SS is None else mean_TS @ within_SS
    return result


@dataclass(frozen=True)
class EarlyAnswer:
    """The prediction at one position if the output layer is applied after one layer."""

    token: int
    probability: float
    target: float
    """The probability of the target token."""


def early_answers(trace: Trace) -> dict[str, list[EarlyAnswer]]:
    """For each layer, by path, the prediction at each position; empty for models without `answering`."""
    model = trace.model
    if not isinstance(model, Answering) or not trace.target.tokens:
        return {}
    outputs: dict[str, Tensor] = {}
    stack = trace.model.get_submodule(model.answering)
    layers = {f"{model.answering}.{name}": layer for name, layer in stack.named_children()}
    if model.answering in repeated(trace.model):
        layers = {model.answering: stack}
    with Hooks(trace.model) as hooks:
        for path, layer in by_depth(trace.model, layers).items():
            hooks.after(path, layer, partial(_keep, outputs, path))
        trace.run()
    return {path: _answers(trace, model, x_BTD) for path, x_BTD in outputs.items()}


def _keep(outputs: dict[str, Tensor], path: str, _layer: nn.Module, _args: tuple[Any, ...], output: Tensor) -> None:
    outputs[path] = output


@torch.no_grad()
def _answers(trace: Trace, model: Answering, x_BTD: Tensor) -> list[EarlyAnswer]:
    logits_BTV = model.answer(x_BTD)
    target_T = trace.log_probabilities(logits_BTV)[0].exp().tolist()
    best_T, tokens_T = logits_BTV[0].softmax(-1).max(-1)
    return [EarlyAnswer(*values) for values in zip(tokens_T.tolist(), best_T.tolist(), target_T, strict=True)]
