"""Tests of every system in the registry, so that a new system is tested automatically."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import small
from commands import run as command
from helpers import assert_same
from regard import library, recipe
from regard.blocks.capture import attention_cores
from regard.config import read_toml
from regard.explain.importance import early_answers, head_effects, rollout
from regard.explain.trace import looks
from regard.explain.walk import OUTPUT, output_part, parts, top_outputs, walk
from regard.models.interface import Answering, Observable, Predicting, Transferable
from regard.serve.explorer import Explorer
from regard.systems import SYSTEMS, data_configs, model_configs
from regard.tasks.pipeline import Pipeline
from regard.training.loop import Training
from regard.training.task import Task
from shapes import shapes_checked
from small import CASES, INPUTS, NAMES

ANSWERS: dict[str, Callable[[Any, list[str]], list[Any]]] = {
    "translate": lambda opened, texts: [best[0].text for best in opened.translate(texts)],
    "complete": lambda opened, texts: [opened.complete(text, tokens=4)[0].text for text in texts],
    "classify": lambda opened, texts: [found.label for found in opened.classify(texts)],
    "tag": lambda opened, texts: opened.tag(texts),
    "embed": lambda opened, texts: [[round(x, 3) for x in row] for row in opened.embed(texts).tolist()],
    "fill": lambda opened, texts: [opened.fill(f"{text} [MASK]")[0][0].word for text in texts],
}
"""The predictions of a loaded model, by the first verb of its task."""
OPTIONS = {"complete": ("--max-tokens", "4")}
"""Options that make the commands fast."""
CONVERTIBLE = {
    "transformer": {"model": {"positions": "sinusoidal_split", "norm_placement": "post", "norm": "layer"}},
    "roformer": {"data": {"next_sentence": False}},
    "vit": {"model": {"pool": "class"}},
}
"""Recipe changes for kinds of which Hugging Face supports only some variants."""


def inputs(opened: Any) -> tuple[str, str]:
    """Two inputs of a loaded model."""
    (medium,) = set(opened.accepts.values()) if hasattr(opened, "accepts") else {"text"}
    return INPUTS[medium]


@pytest.fixture(scope="module", params=range(len(CASES)), ids=NAMES)
def case(request, tmp_path_factory) -> tuple[Any, Any, Path, set[str]]:
    """A system and a task, trained for a few steps, and the names whose shapes were checked meanwhile."""
    system, task, data = CASES[request.param]
    folder = tmp_path_factory.mktemp("system")
    threads = torch.get_num_threads()
    training = small.start(small.small_recipe(system, task, data, folder))
    with shapes_checked() as seen:
        training.advance()
    training.train()
    torch.set_num_threads(threads)
    return system, task, folder / "run", seen


def test_shape_suffixes_match_the_shapes(case) -> None:
    *_, seen = case
    assert seen


def test_model_and_task_have_the_required_protocols(case) -> None:
    system, task, run, _ = case
    opened = library.load(str(run))
    model: Any = opened.model
    assert isinstance(opened, Pipeline), "a loaded model is a subclass of Pipeline"
    assert model.config.kind == system.name
    assert model.limit is None or model.limit > 0
    assert isinstance(model, Observable), "a model declares `looks` and `parts`"
    assert isinstance(model, Predicting), "a model declares `operations`, those between its last part and its logits"
    assert isinstance(model, Transferable), "a model declares `fresh` and `optional`"
    assert {part.stream for part in parts(model)}, "the paths in `parts` are those of modules"
    training = small.start(small.small_recipe(system, task, _data(case), run.parent))
    (batch, *_) = training.task.valid.epoch(0)
    assert training.task.units(batch)["tokens"] > 0, "speed is counted in tokens"
    assert isinstance(batch.inputs, tuple)


def test_kinds_of_configs_are_unique() -> None:
    for configs in (model_configs(), data_configs()):
        kinds = [config.kind for config in configs]  # type: ignore[attr-defined]
        assert len(set(kinds)) == len(kinds)


@pytest.mark.usefixtures("restore_threads")
def test_an_interrupted_run_resumes_with_bit_identical_weights(case, tmp_path: Path) -> None:
    system, task, run, _ = case
    made = small.small_recipe(system, task, _data(case), run.parent, run=str(tmp_path / "run"))
    training = small.start(made)

    def dying_step(*arguments: Any) -> Any:
        if training.state.step == 3:
            raise KeyboardInterrupt
        return Training.step(training, *arguments)

    training.step = dying_step  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        training.train()
    small.start(made).train()
    one, other = (load_file(folder / "last" / "model.safetensors") for folder in (run, tmp_path / "run"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def _data(case: Any) -> Any:
    """The config of the data that a case was trained on."""
    system, task, run, _ = case
    kind = read_toml(run / "recipe.toml")["data"]["kind"]
    return next(data for one, other, data in CASES if (one, other, data.kind) == (system, task, kind))


def test_a_loaded_model_predicts_a_batch_like_single_texts(case) -> None:
    _, task, run, _ = case
    assert library.read(str(run)).task == task.name
    opened = library.load_for(task.verbs[0], str(run))
    assert task.verbs[0] in ANSWERS, "give tests/test_systems.py a way to ask this verb"
    answer = ANSWERS[task.verbs[0]]
    with shapes_checked():
        together = answer(opened, list(inputs(opened)))
    assert together == [answer(opened, [one])[0] for one in inputs(opened)]


def test_the_first_verb_of_the_task_accepts_the_run(case) -> None:
    _, task, run, _ = case
    one, _ = inputs(library.load(str(run)))
    text = f"{one} [MASK]" if task.verbs[0] == "fill" else one
    assert command(task.verbs[0], "--model", run, text, *OPTIONS.get(task.verbs[0], ()))


def test_a_model_can_be_initialised_from_a_run(case) -> None:
    _, _, run, _ = case
    contents = library.read(str(run))
    model = contents.config.build()
    library.load_initial(model, contents)
    mine = library.tensors(model)
    assert all(torch.equal(mine[name], tensor) for name, tensor in contents.weights.items())
    tables = recipe._codecs(contents)
    assert tables.keys() == {codec.slot for codec in contents.codecs.values()}


def subject(task: type[Task], run: Path) -> Any:
    """The loaded model; skips the test if it does not support `regard look`."""
    if "look" not in task.verbs:
        pytest.skip("this task does not support `regard look`")
    return library.load_for("look", str(run))


def read(task: type[Task], run: Path) -> Any:
    opened = subject(task, run)
    opened.model.double()
    return opened.trace(dict.fromkeys(opened.accepts, inputs(opened)[0]))


def test_every_attention_core_declares_its_streams(case) -> None:
    _, _, run, _ = case
    model = library.load(str(run)).model
    assert {look.path.partition("@")[0] for look in looks(model)} == set(attention_cores(model))
    for look in looks(model):
        assert look.heads >= 1


def test_a_walk_ends_with_the_output_of_the_module(case) -> None:
    _, task, run, _ = case
    with shapes_checked():
        trace = read(task, run)
        for part in parts(trace.model):
            expected = module_output(trace.model, part.path, part.call, trace.run)
            for token in {0, len(trace.streams[part.stream].tokens) - 1}:
                steps = walk(trace, part.path, token)
                assert steps
                assert_same(steps[-1].values, expected[token][: len(steps[-1].values)])


def test_a_walk_ends_with_the_prediction_and_its_probability(case) -> None:
    _, task, run, _ = case
    trace = read(task, run)
    assert (output_part(trace) is None) == (not trace.target.tokens)
    logits_BTV = trace.run()
    found = trace.token_probabilities(logits_BTV)
    for token, target in enumerate(trace.target.tokens):
        *_, logits, softmax = walk(trace, OUTPUT, token)
        assert torch.equal(logits.values, logits_BTV[0, token])
        assert [(i, float(softmax.values[i])) for i in top_outputs(softmax)] == list(found[token].others)
        assert float(softmax.values[target]) == found[token].probability
        assert_same(softmax.values.sum(), torch.ones((), dtype=torch.float64))


def module_output(model: nn.Module, path: str, call: int, run: Callable[[], Any]) -> torch.Tensor:
    """The output of the module of a part in a forward pass: (tokens, width)."""
    seen: list[Any] = []
    module = model.get_submodule(path.partition("@")[0])
    handle = module.register_forward_hook(lambda _m, _a, output: seen.append(output))
    with torch.no_grad():
        run()
    handle.remove()
    seen = [output[0] if isinstance(output, tuple) else output for output in seen]
    # a cell runs once for each token
    return torch.cat(seen) if seen[0].dim() == 2 else seen[call][0]


def test_head_effects_rollout_and_early_answers_can_be_computed(case) -> None:
    _, task, run, _ = case
    trace = read(task, run)
    model = trace.model
    if trace.looks:
        effects = head_effects(trace, None if trace.outputs() else 0)  # the text has no masked token
        assert {path: len(values) for path, values in effects.items()} == {x.path: x.heads for x in trace.looks}
        for flow in rollout(trace).values():
            assert_same(flow.sum(1), torch.ones(len(flow), dtype=flow.dtype))
    if isinstance(model, Answering) and trace.target.tokens:
        assert early_answers(trace)


def test_the_explorer_answers_every_request(case) -> None:
    _, task, run, _ = case
    opened = subject(task, run)
    explorer = Explorer(opened, "it")
    asked = {"inputs": dict.fromkeys(opened.accepts, inputs(opened)[0])}
    about = explorer.answer("model", {})
    assert explorer.answer("read", asked)["streams"]
    for look in about["looks"]:
        assert explorer.answer("attention", {**asked, "path": look["path"]}).values.dim() == 3
    for part in about["parts"]:
        assert explorer.answer("walk", {**asked, "path": part["path"], "token": 0})["steps"]
    last = explorer.answer("read", asked)["output_part"]
    assert not last or explorer.answer("walk", {**asked, "path": last["path"], "token": 0})["outputs"]
    assert explorer.answer("what-if", asked)["changed"]


@pytest.mark.parametrize("system", [each for each in SYSTEMS if each.family], ids=lambda system: system.name)
def test_conversion_to_hugging_face_and_back_keeps_weights_and_predictions(system, tmp_path: Path) -> None:
    torch.manual_seed(1)
    task, data = next((task, data) for one, task, data in CASES if one is system)
    made = small.small_recipe(system, task, data, tmp_path, **CONVERTIBLE.get(system.name, {}))
    training = small.start(made)
    weights = library.tensors(training.model)
    library.save(tmp_path / "ours", training.task.config, weights, training.task.codecs, "")
    library.convert(str(tmp_path / "ours"), f"hf:{tmp_path / 'theirs'}")
    library.convert(f"hf:{tmp_path / 'theirs'}", str(tmp_path / "back"))
    back = library.read(str(tmp_path / "back"))
    assert all(torch.equal(back.weights[name], tensor) for name, tensor in weights.items())
    ours, theirs = (library.load(str(tmp_path / name)) for name in ("ours", "back"))
    answer = ANSWERS[task.verbs[0]]
    assert answer(theirs, list(inputs(theirs))) == answer(ours, list(inputs(ours)))
