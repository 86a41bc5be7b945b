"""The fast decoder gives the same results as the model itself under any reordering of rows."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_same, padded, padded_tokens, randomise, seeds
from regard.blocks.capture import capture, intervene
from regard.decoding import fast_decoder as module
from regard.decoding.beam import Beam, top_few
from regard.decoding.fast_decoder import FastDecoderState, fast_decoder, join
from regard.models.gpt2 import Gpt2Config
from regard.models.rnn_seq2seq import RnnSeq2SeqConfig
from regard.models.transformer import TransformerConfig

SHAPE = {"vocab_size": 11, "width": 8, "heads": 2, "ff_width": 12, "encoder_layers": 1, "decoder_layers": 2}
MODELS: dict[str, Any] = {
    "sinusoidal": TransformerConfig(**SHAPE),
    "after": TransformerConfig(**SHAPE, norm_placement="post", positions="learned", activation="gelu"),
    "rotary": TransformerConfig(**SHAPE, positions="rotary", tied=False),
    "concatenated": TransformerConfig(**SHAPE, position_merge="concatenate", tied=False, output_bias=True),
    "unplaced": TransformerConfig(**SHAPE, positions="none"),
    "gpt2": Gpt2Config(vocab_size=11, width=8, heads=2, ff_width=12, layers=2, context=64),
}
models = pytest.mark.parametrize("name", MODELS)


def make(name: str, seed: int) -> Any:
    torch.manual_seed(seed)
    return randomise(MODELS[name].build()).eval()


def assert_same_steps(model: Any, fast: Any, states: list[Any], rows: int) -> list[Any]:
    """Feeds both the same tokens and compares their logits."""
    tokens_B = torch.randint(1, 11, (rows,))
    (expected_BV, expected), (got_BV, got) = (
        each.step(tokens_B, state) for each, state in zip((model, fast), states, strict=True)
    )
    assert_same(got_BV, expected_BV)
    return [expected, got]


@st.composite
def moves(draw: Any, rows: int) -> list[list[int]]:
    """Sequences of row indices: reordered beams, sentences that leave the batch, rows that are added."""
    found = []
    for _ in range(draw(st.integers(1, 6))):
        index = draw(
            st.one_of(
                st.just(list(range(rows))),
                st.permutations(range(rows)),
                st.integers(2, 3).map(lambda width, rows=rows: [row for row in range(rows) for _ in range(width)]),
                st.lists(st.integers(0, rows - 1), min_size=1, max_size=6),
                st.lists(st.integers(0, rows - 1), min_size=1, max_size=6).map(sorted),
            )
        )
        found.append(index[:12])
        rows = len(found[-1])
    return found


@models
@given(moves(3), seeds)
def test_steps_agree_with_the_model_under_any_reordering_of_rows(name, moves, seed) -> None:
    model = make(name, seed)
    fast = fast_decoder(model)
    inputs = (torch.randint(1, 11, (3, seed % 4)),) if name == "gpt2" else padded([4, 1, 3])
    with torch.no_grad():
        expected, got = model.start(*inputs), fast.start(*inputs)
        assert isinstance(got, FastDecoderState)
        for index in moves:
            states = [state.reorder(torch.tensor(index)) for state in (expected, got)]
            expected, got = assert_same_steps(model, fast, states, len(index))


@models
def test_the_cache_grows_with_the_text(name) -> None:
    model = make(name, 1)
    fast = fast_decoder(model)
    inputs = (torch.randint(1, 11, (2, 3)),) if name == "gpt2" else padded([2, 4])
    rows = torch.tensor([0, 0, 0, 1, 1, 1])
    with torch.no_grad():
        states = [each.start(*inputs).reorder(rows) for each in (model, fast)]
        blocks = set()
        for _ in range(3 * module.ROOM):
            states = assert_same_steps(model, fast, states, len(rows))
            blocks.add(states[1].block.size(4))
    assert len(blocks) > 1


@models
def test_reordering_the_rows_of_a_sentence_copies_nothing(name) -> None:
    model = make(name, 1)
    inputs = (torch.randint(1, 11, (2, 3)),) if name == "gpt2" else padded([2, 4])
    fast = fast_decoder(model)
    with torch.no_grad():
        state = fast.start(*inputs).reorder(torch.tensor([0, 0, 1, 1]))
        _, state = fast.step(torch.tensor([1, 2, 3, 4]), state)
        block = state.block
        _, state = fast.step(torch.tensor([1, 2, 3, 4]), state.reorder(torch.tensor([1, 0, 3, 3])))
    assert state.block is block
    assert state.width == 2


@models
def test_the_cache_grows_once_if_the_number_of_tokens_is_known(name) -> None:
    model, tokens = make(name, 1), 2 * module.ROOM
    inputs = (torch.randint(1, 11, (2, 3)),) if name == "gpt2" else padded([2, 4])
    fast, blocks = fast_decoder(model, tokens), set()
    with torch.no_grad():
        state = fast.start(*inputs).reorder(torch.tensor([0, 0, 1, 1]))
        for _ in range(tokens):
            _, state = fast.step(torch.tensor([1, 2, 3, 4]), state)
            blocks.add(state.block.data_ptr())
    assert len(blocks) == 1
    assert state.block.size(4) <= (3 if name == "gpt2" else 0) + 2 * (tokens + 1)


@models
def test_autocast_falls_back_to_the_model(name) -> None:
    model = make(name, 1).float()
    inputs = (torch.randint(1, 11, (2, 3)),) if name == "gpt2" else padded([2, 4])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        state = fast_decoder(model).start(*inputs)
        assert not isinstance(state, FastDecoderState)
        assert fast_decoder(model).step(torch.tensor([1, 2]), state)[0].isfinite().all()


def test_too_many_rows_of_a_sentence_are_separated() -> None:
    model = make("gpt2", 1)
    with torch.no_grad():
        state = fast_decoder(model).start(torch.ones(1, 2, dtype=torch.long))
        assert state.reorder(torch.zeros(module.MAX_WIDTH, dtype=torch.long)).width == module.MAX_WIDTH
        state = fast_decoder(model).start(torch.ones(1, 2, dtype=torch.long))
        assert state.reorder(torch.zeros(module.MAX_WIDTH + 1, dtype=torch.long)).width == 1


@pytest.mark.parametrize("name", ["sinusoidal", "after", "rotary"])
@given(seeds, st.integers(1, 4))
def test_beam_search_with_the_fast_decoder_gives_the_same_result(name, seed, width) -> None:
    model = make(name, seed)
    inputs, max_length = padded([4, 1, 3, 2]), [6, 4, 9, 7]
    how = Beam(1, 2, width, n_best=width)
    got, expected = how.search(fast_decoder(model), inputs, max_length), how.search(model, inputs, max_length)
    for mine, theirs in zip(got, expected, strict=True):
        assert [each.tokens for each in mine] == [each.tokens for each in theirs]
        for one, other in zip(mine, theirs, strict=True):
            assert one.token_scores == pytest.approx(other.token_scores, abs=1e-9)


def test_hooks_fall_back_to_the_model() -> None:
    model = make("after", 1)
    fast, source = fast_decoder(model), padded_tokens([3])
    with torch.no_grad(), capture(model) as maps:
        _, state = fast.step(torch.tensor([1]), fast.start(source))
    assert not isinstance(state, FastDecoderState)
    assert maps["decoder.layers.1.cross"].shape == (1, 2, 1, 3)


@pytest.mark.parametrize("change", ["drop_mask", "drop_scaling"])
def test_interventions_take_effect(change) -> None:
    model, how = make("after", 1), Beam(1, 2, width=2)
    inputs, max_length = padded([4, 2]), [6, 6]
    with intervene(model, **{change: "*"}):
        assert how.search(fast_decoder(model), inputs, max_length) == how.search(model, inputs, max_length)


def test_a_source_of_padding_only_is_fully_masked() -> None:
    model = make("after", 1)
    inputs = torch.ones(1, 3, dtype=torch.long), torch.ones(1, 3, dtype=torch.bool)
    tokens_B = torch.tensor([1])
    with torch.no_grad():
        expected_BV, _ = model.step(tokens_B, model.start(*inputs))
        got_BV, _ = fast_decoder(model).step(tokens_B, fast_decoder(model).start(*inputs))
    assert_same(got_BV, expected_BV)


def test_separated_rows_keep_only_the_slots_they_attend_to() -> None:
    fast = fast_decoder(make("gpt2", 1))
    with torch.no_grad():
        state = fast.start(torch.ones(1, 2, dtype=torch.long)).reorder(torch.tensor([0, 0, 0]))
        for _ in range(4):
            _, state = fast.step(torch.tensor([1, 2, 3]), state)
        assert state.slots == 2 + 3 * 4
        state = state.reorder(torch.tensor([2]))
    assert (state.slots, state.unseen) == (2 + 4, None)


@pytest.mark.parametrize("changes", [{"norm": "batch"}, {}])
def test_batch_norm_and_dropout_fall_back_to_the_model(changes) -> None:
    model = TransformerConfig(**{**SHAPE, **changes}).build().train(not changes)
    with torch.no_grad():
        assert not isinstance(fast_decoder(model).start(padded_tokens([3])), FastDecoderState)


def test_other_models_are_returned_unchanged() -> None:
    model = RnnSeq2SeqConfig(vocab_size=11).build()
    assert fast_decoder(model) is model


@models
def test_adjacent_matrices_have_the_same_values(name) -> None:
    model = make(name, 1)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    join(model)
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[key])
    block = fast_decoder(model).blocks[0].attention
    joined, _ = module._joined(block)
    assert joined.data_ptr() == block.query.weight.data_ptr()
    assert torch.equal(joined, torch.cat([block.query.weight, block.key.weight, block.value.weight]))


@given(st.integers(1, 3), st.integers(1, 700) | st.integers(2**14, 2**15 + 99), st.integers(1, 9), seeds)
def test_top_few_agrees_with_topk(rows, length, count, seed) -> None:
    x_BV = torch.rand(rows, length, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    expected = x_BV.topk(min(count, length))
    values_BC, indices_BC = top_few(x_BV, count)
    assert torch.equal(values_BC, expected.values)
    assert torch.equal(indices_BC, expected.indices)
