"""Modules that run several times in depth, such as one layer that a model applies three times.

A model declares them in an attribute `repeated`, which maps the path of such a module to the maximum number of runs in
one call of its parent module. Its depth is the number of runs since that call started, and is part of names:
`layer.attention@2` is the attention of the third run. After the last run the depth is 0 again, so that a loop outside
of any `forward` is counted, too, provided that it never stops early. Calls at the same depth are successive in time.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


def repeated(model: nn.Module) -> Mapping[str, int]:
    """The modules that run several times in depth, by path, with their maximum number of runs."""
    return getattr(model, "repeated", {})


def by_depth(model: nn.Module, modules: Mapping[str, M]) -> dict[str, M]:
    """Modules by path, with one name per depth at which they run, in the order of their runs."""
    owners, counts, result = _owners(model), repeated(model), dict[str, M]()
    for owner, group in groupby(modules.items(), key=lambda item: owners.get(item[1])):
        named = dict(group)
        if owner is None:
            result |= named
        else:
            result |= {f"{path}@{depth}": named[path] for depth in range(counts[owner]) for path in named}
    return result


def layers(model: nn.Module) -> list[nn.Module]:
    """The layers of a model, each once, inner ones first: members of its lists, and modules repeated in depth."""
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    found = {layer for members in lists for layer in members} | {model.get_submodule(path) for path in repeated(model)}
    return [module for module in reversed(list(model.modules())) if module in found]


class Hooks(ExitStack):
    """Hooks on modules of a model, each for the depth in the module's name, until the with-block ends."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._owners = _owners(model)
        self._depths = dict.fromkeys(repeated(model), -1)
        for path, count in repeated(model).items():
            begin, enter = partial(self._begin, path), partial(self._enter, path, count)
            self.callback(_holder(model, path).register_forward_pre_hook(begin).remove)
            self.callback(model.get_submodule(path).register_forward_pre_hook(enter).remove)

    def before(self, name: str, module: nn.Module, hook: Callable[..., Any]) -> None:
        """Calls the hook with the module and its arguments before each run."""
        self.callback(module.register_forward_pre_hook(self._at_depth(name, module, hook)).remove)

    def after(self, name: str, module: nn.Module, hook: Callable[..., Any]) -> None:
        """Calls the hook with the module, its arguments and its output after each run."""
        self.callback(module.register_forward_hook(self._at_depth(name, module, hook)).remove)

    def _at_depth(self, name: str, module: nn.Module, hook: Callable[..., Any]) -> Callable[..., Any]:
        owner, (_, _, depth) = self._owners.get(module), name.partition("@")
        if owner is None or not depth:
            return hook
        return lambda *call: hook(*call) if self._depths[owner] == int(depth) else None

    def _begin(self, path: str, _holder: nn.Module, _args: tuple[Any, ...]) -> None:
        self._depths[path] = -1

    def _enter(self, path: str, count: int, _module: nn.Module, _args: tuple[Any, ...]) -> None:
        self._depths[path] = (self._depths[path] + 1) % count


def _owners(model: nn.Module) -> dict[nn.Module, str]:
    """The repeated module that each of its submodules belongs to."""
    owners: dict[nn.Module, str] = {}
    for path in repeated(model):
        for module in model.get_submodule(path).modules():
            assert module not in owners, f"{path!r} and {owners[module]!r} are repeated, but one is inside the other"
            owners[module] = path
    return owners


def _holder(model: nn.Module, path: str) -> nn.Module:
    """The module that calls the one at that path: its nearest parent that is not a list."""
    module = model.get_submodule(path.rpartition(".")[0])
    return _holder(model, path.rpartition(".")[0]) if isinstance(module, nn.ModuleList) else module
