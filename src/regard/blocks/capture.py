"""Read and change attention from outside the model: `capture` and `intervene`.

Both are hooks on the attention cores and on positions; models contain no code for them. Attention modules are named by
their path in the model, such as `decoder.layers.3.cross`. A module that runs several times in depth has one name per
depth, such as `layer.attention@2`. Patterns work like those of file names: `*` matches any text. A pattern without a
depth matches all depths.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.blocks.attend import AttentionCore
from regard.blocks.positions import Positions, Rotary
from regard.blocks.repeated import Hooks, by_depth
from regard.errors import RegardError

Patterns = str | Sequence[str]
M = TypeVar("M", bound=nn.Module)


class Maps(Mapping[str, Tensor]):
    """Captured weights by module path, each of shape (batch, heads, rows, keys).

    Successive calls of a module at one depth, as in recurrent or cached decoding, are concatenated as rows; rows with
    fewer keys are padded with zeros. Rows follow the order of the batch at the time of the call: beam search reorders
    the batch, so capture a second run instead, with the text that the search found.
    """

    def __init__(self, paths: Sequence[str], heads: Sequence[int] | None, rows: Sequence[int] | None) -> None:
        self._heads, self._rows = heads, rows
        self._parts: dict[str, list[Tensor]] = {path: [] for path in paths}
        self._seen = dict.fromkeys(paths, 0)
        self._keys = dict.fromkeys(paths, 0)

    def __getitem__(self, path: str) -> Tensor:
        if path not in self._parts:
            raise KeyError(f"{path!r} was not captured; captured: {', '.join(map(repr, self._parts))}")
        if not self._seen[path]:
            raise KeyError(f"{path!r} did not run; run the model inside the with-block")
        if self._rows is not None and max(self._rows) >= self._seen[path]:
            raise RegardError(f"row {max(self._rows)} of {path!r} does not exist: there were {self._seen[path]} rows")
        parts = self._parts[path]
        if len({part.shape[:2] for part in parts}) > 1:
            raise RegardError(f"{path!r} ran with different batches; use one capture for each run of the model")
        padded = [F.pad(part, (0, self._keys[path] - part.size(3))) for part in parts]
        joined = torch.cat(padded, dim=2)
        if self._rows is None:
            return joined
        order = sorted(self._rows)
        return joined[:, :, [order.index(row) for row in self._rows]]

    def __contains__(self, path: object) -> bool:
        return path in self._seen and self._seen[str(path)] > 0

    def __iter__(self) -> Iterator[str]:
        return (path for path, rows in self._seen.items() if rows)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _record(self, path: str, core: AttentionCore, args: tuple[Any, ...], output: Any) -> None:
        count, keys = core.queries_and_keys(args)
        first, self._seen[path] = self._seen[path], self._seen[path] + count
        self._keys[path] = max(self._keys[path], keys)
        rows = None
        if self._rows is not None:
            rows = [row - first for row in sorted(self._rows) if first <= row < first + count]
            if not rows:
                return
        with torch.no_grad():
            self._parts[path].append(core.weights(args, output, self._heads, rows).detach())


@contextmanager
def capture(
    model: nn.Module,
    layers: Patterns = "*",
    heads: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
) -> Iterator[Maps]:
    """Captures the exact attention weights of everything that runs inside the with-block, for any model.

    The model runs as usual and gives the same result; the weights are computed in addition, only those selected.

    Args:
        layers: patterns of module paths.
        heads: indices of heads, counted from 0; default: all.
        rows: indices of queries, counted from 0 over all calls of the module; default: all.
    """
    for name, numbers in (("heads", heads), ("rows", rows)):
        if numbers is not None and (not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers)):
            raise RegardError(f"{name} should be distinct indices from 0, at least one, got {list(numbers)}")
    cores = find(attention_cores(model), layers, "attention")
    for path, core in cores.items():
        if heads is not None and max(heads) >= core.heads:
            raise RegardError(f"head {max(heads)} of {path!r} does not exist: there are {core.heads} heads")
    maps = Maps(list(cores), heads, rows)
    with Hooks(model) as hooks:
        for path, core in cores.items():
            hooks.after(path, core, partial(maps._record, path))
        yield maps


@contextmanager
def intervene(
    model: nn.Module,
    *,
    drop_heads: Mapping[str, Sequence[int]] | None = None,
    drop_mask: Patterns = (),
    drop_scaling: Patterns = (),
    drop_positions: Patterns = (),
) -> Iterator[None]:
    """Changes attention inside the with-block, and only there.

    Args:
        drop_heads: heads to ablate (their output is set to zero), by patterns of attention paths.
        drop_mask: attention paths without a mask: they see everything, including padding and the future.
        drop_scaling: attention paths whose dot products are not divided by √K.
        drop_positions: position paths (such as `encoder.positions`) that add no positional encoding.
    """
    cores = attention_cores(model)
    with Hooks(model) as hooks:
        for pattern, heads in (drop_heads or {}).items():
            for path, core in find(cores, pattern, "attention").items():
                if not heads or min(heads) < 0 or max(heads) >= core.heads:
                    raise RegardError(f"heads should be indices from 0 to {core.heads - 1}, got {list(heads)}")
                hooks.after(path, core, partial(_change_output, partial(_without_heads, heads)))
        for path, core in find(cores, drop_mask, "attention").items():
            hooks.before(path, core, _see_all)
        for path, core in find(cores, drop_scaling, "attention").items():
            if not core.scaled:
                raise RegardError(f"{path!r} has no scaling to drop: its scores are not dot products")
            hooks.before(path, core, _scale_by_one)
        for path, module in find(position_modules(model), drop_positions, "positions").items():
            hooks.after(path, module, _without_positions)
        yield


@contextmanager
def drop_one_head_each(model: nn.Module, heads: Sequence[tuple[str, int]]) -> Iterator[None]:
    """Ablates the i-th of these heads in sentence i of the batch; a head is an attention path and an index."""
    cores = attention_cores(model)
    with Hooks(model) as hooks:
        for pattern in {path for path, _ in heads}:
            rows = [i for i, (other, _) in enumerate(heads) if other == pattern]
            change = partial(_change_output, partial(_without_one_each, rows, [heads[i][1] for i in rows]))
            for path, core in find(cores, pattern, "attention").items():
                hooks.after(path, core, change)
        yield


def attention_cores(model: nn.Module) -> dict[str, AttentionCore]:
    """The attention cores of a model by the path of their parent module, or by their own if a parent has several."""
    cores = {path: module for path, module in model.named_modules() if isinstance(module, AttentionCore)}
    owners = Counter(path.rpartition(".")[0] for path in cores)
    served = {path if owners[owner := path.rpartition(".")[0]] > 1 else owner: core for path, core in cores.items()}
    return by_depth(model, served)


def position_modules(model: nn.Module) -> dict[str, nn.Module]:
    """The positional encodings of a model, by path."""
    modules = {path: module for path, module in model.named_modules() if isinstance(module, Positions | Rotary)}
    return by_depth(model, modules)


def find(modules: Mapping[str, M], patterns: Patterns, what: str) -> dict[str, M]:
    """The modules whose path matches, at all depths or at the pattern's; a pattern without a match is an error."""
    patterns = [patterns] if isinstance(patterns, str) else patterns
    for pattern in patterns:
        if not any(_matches(path, pattern) for path in modules):
            known = ", ".join(map(repr, modules)) or "none"
            raise RegardError(f"no {what} matches {pattern!r}; this model has {known}")
    return {path: module for path, module in modules.items() if any(_matches(path, pattern) for pattern in patterns)}


def _matches(path: str, pattern: str) -> bool:
    return fnmatchcase(path, pattern) or fnmatchcase(path.partition("@")[0], pattern)


def _without_heads(heads: Sequence[int], attended_BHTK: Tensor) -> Tensor:
    return attended_BHTK.index_fill(1, torch.tensor(heads, device=attended_BHTK.device), 0.0)


def _without_one_each(rows: Sequence[int], heads: Sequence[int], attended_BHTK: Tensor) -> Tensor:
    return attended_BHTK.index_put((torch.tensor(rows), torch.tensor(heads)), attended_BHTK.new_zeros(()))


def _change_output(change: Callable[[Tensor], Tensor], _core: nn.Module, _args: tuple[Any, ...], output: Any) -> Any:
    """Changes the output of a core's heads; its weights, if it returns them, stay the same."""
    if isinstance(output, tuple):
        return (change(output[0]), *output[1:])
    return change(output)


def _see_all(core: AttentionCore, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return core.unmasked(args)


def _scale_by_one(core: AttentionCore, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return core.unscaled(args)


def _without_positions(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
    x: Tensor = args[0]
    if isinstance(module, Positions) and module.merge == "concatenate":
        return F.pad(x, (0, output.size(2) - x.size(2)))
    return x
