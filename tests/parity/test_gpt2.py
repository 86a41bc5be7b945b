"""Regard's GPT-2 gives the same logits and texts as Hugging Face's."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import assert_same, randomise, seeds
from regard.codecs.gpt2 import ByteBpe, CharacterTokenizer
from regard.interop import gpt2
from regard.interop.files import ACTIVATIONS
from regard.models.gpt2 import Gpt2, Gpt2Config
from regard.tasks.completion import Completer

transformers = pytest.importorskip("transformers")

TOKENIZER = ByteBpe.train(270, ["the child eats the bread, the child eats the stone"])
SHAPE = {"n_embd": 16, "n_head": 4, "n_layer": 2, "n_inner": 20, "n_positions": 12, "layer_norm_epsilon": 1e-3}


@st.composite
def shapes(draw: Any) -> dict[str, Any]:
    heads = draw(st.integers(1, 3))
    return {
        "n_embd": heads * draw(st.integers(4, 8)),  # a norm over few numbers may divide by almost zero
        "n_head": heads,
        "n_layer": draw(st.integers(1, 3)),
        "n_inner": draw(st.none() | st.integers(1, 20)),
        "n_positions": draw(st.integers(1, 12)),
        "layer_norm_epsilon": draw(st.sampled_from([1e-5, 1e-3])),
        "activation_function": draw(st.sampled_from(sorted(ACTIVATIONS))),
        "vocab_size": draw(st.integers(1, 30)),
    }


def make_theirs(name: str = "GPT2LMHeadModel", **changes: Any) -> Any:
    config = transformers.GPT2Config(
        **{"vocab_size": 300, "bos_token_id": None, "eos_token_id": None, **SHAPE, **changes}
    )
    return randomise(getattr(transformers, name)(config)).float().eval()


def as_ours(theirs: Any) -> Gpt2:
    config = gpt2.read_config(theirs.config.to_dict())
    model = config.build().eval()
    model.load_state_dict(gpt2.read_weights(theirs.state_dict(), config))
    return model


def make_ours(**changes: Any) -> Gpt2:
    shape = {"width": 16, "heads": 2, "ff_width": 12, "layers": 2, "context": 12, "norm_eps": 1e-3, "dropout": 0.0}
    return randomise(Gpt2Config(vocab_size=300, **{**shape, **changes}).build()).float().eval()


def open_theirs(folder: Path, name: str = "GPT2LMHeadModel") -> Any:
    """The model; fails if Hugging Face reports missing or unexpected tensors."""
    model, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    return model.eval()


def write_ours(folder: Path, model: Gpt2) -> Path:
    folder.mkdir()
    gpt2.write(folder, model.config, model.state_dict(), {"text": TOKENIZER})
    return folder


@torch.no_grad()
def assert_same_logits(ours: Gpt2, theirs: Any) -> None:
    tokens_BT = torch.randint(ours.config.vocab_size, (3, ours.config.context))
    # In float64 only the order of additions matters, so a bug is not mistaken for rounding. Float32 has 24 bits; a few
    # layers, each with sums over some dozen terms and a norm that may divide by a small number, lose about eight.
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 5e-5)):
        ours, theirs = ours.to(dtype), theirs.to(dtype)
        assert_same(ours(tokens_BT), theirs(tokens_BT).logits, tolerance)


# few examples, because each builds two models
@settings(max_examples=15)
@given(shapes(), seeds)
def test_imported_models_of_any_shape_have_the_same_logits(shape, seed) -> None:
    torch.manual_seed(seed)
    theirs = make_theirs(**shape)
    assert_same_logits(as_ours(theirs), theirs)


@settings(max_examples=15)
@given(shapes(), seeds)
def test_exported_models_of_any_shape_have_the_same_logits(tmp_path_factory, shape, seed) -> None:
    torch.manual_seed(seed)
    ours = as_ours(make_theirs(**{**shape, "vocab_size": 300}))
    randomise(ours).float()
    assert_same_logits(ours, open_theirs(write_ours(tmp_path_factory.mktemp("hf") / "hf", ours)))


def test_a_model_without_output_layer_has_the_same_hidden_states(tmp_path: Path) -> None:
    theirs = make_theirs("GPT2Model")
    tokens_BT = torch.randint(300, (2, 12))
    ours = as_ours(theirs)
    with torch.no_grad():
        assert_same(ours.double().hidden(tokens_BT), theirs.double()(tokens_BT).last_hidden_state, 1e-9)
    again = open_theirs(write_ours(tmp_path / "hf", ours.float()), "GPT2Model")
    with torch.no_grad():
        assert_same(again.double()(tokens_BT).last_hidden_state, theirs(tokens_BT).last_hidden_state, 1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_greedy_generation_gives_the_same_tokens(dtype) -> None:
    theirs = make_theirs(n_positions=40).to(dtype)
    with torch.no_grad():
        # otherwise random models repeat themselves
        theirs.transformer.wpe.weight.mul_(8)
        theirs.transformer.ln_f.bias.zero_()
    ours = as_ours(theirs).to(dtype)
    prompts_BT = torch.randint(300, (4, 8))
    expected_BT = theirs.generate(
        prompts_BT, attention_mask=torch.ones_like(prompts_BT), do_sample=False, max_new_tokens=32
    )
    assert expected_BT.shape == (4, 40)
    assert len(set(expected_BT[:, 8:].flatten().tolist())) > 10  # a text varied enough to reveal a mistake
    written = prompts_BT
    with torch.no_grad():
        state = ours.start(prompts_BT[:, :-1])
        for _ in range(32):
            logits_BV, state = ours.step(written[:, -1], state)
            written = torch.cat((written, logits_BV.argmax(-1, keepdim=True)), dim=1)
    assert torch.equal(written, expected_BT)
    tokenizer = CharacterTokenizer.learn(["".join(map(chr, range(300)))])
    for prompt_T, expected_T in zip(prompts_BT.tolist(), expected_BT.tolist(), strict=True):
        (found,) = Completer(ours, tokenizer).complete("".join(map(chr, prompt_T)), tokens=32, temperature=0.0)
        assert [*prompt_T, *found.tokens] == expected_T


@pytest.mark.parametrize("layers", [1, 3])
def test_the_name_map_has_every_tensor_once_on_both_sides(layers) -> None:
    theirs = make_theirs("GPT2Model", n_layer=layers)
    table = gpt2.names(gpt2.read_config(theirs.config.to_dict()))
    assert sorted(table) == sorted(theirs.state_dict())
    assert sorted(part for made in table.values() for part in made.parts) == sorted(as_ours(theirs).state_dict())


def test_import_and_export_restore_every_tensor(tmp_path: Path) -> None:
    theirs = make_theirs().state_dict()
    ours = as_ours(make_theirs())
    ours.load_state_dict(gpt2.read_weights(theirs, ours.config))
    again = open_theirs(write_ours(tmp_path / "hf", ours)).state_dict()
    assert again.keys() == theirs.keys()
    assert all(torch.equal(again[name], theirs[name]) for name in theirs)
