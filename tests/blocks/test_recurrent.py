import pytest
import torch
from torch import nn

from helpers import assert_same, randomise
from regard.blocks.recurrent import AttentiveCell, RecurrentEncoder
from regard.blocks.scores import AdditiveScore, LocationAwareScore, ScoredAttention

CELLS = pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
LENGTHS = [6, 2, 4]
IS_PADDING = torch.arange(6) >= torch.tensor(LENGTHS)[:, None]


@CELLS
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_padding_does_not_change_encoder_states(cell, bidirectional, layers) -> None:
    encoder = randomise(RecurrentEncoder(cell, 3, 4, layers=layers, bidirectional=bidirectional))
    x = torch.randn(3, 6, 3, dtype=torch.float64)
    memory, final = encoder(x, IS_PADDING)
    assert memory.shape == (3, 6, encoder.memory_width)
    assert (memory[IS_PADDING] == 0).all()
    for row, length in enumerate(LENGTHS):
        alone, alone_final = encoder(x[row : row + 1, :length], torch.zeros(1, length, dtype=torch.bool))
        assert_same(memory[row, :length], alone[0])
        assert_same(final[row], alone_final[0])


@CELLS
@pytest.mark.parametrize("layers", [1, 2])
def test_the_final_state_is_the_last_state_of_the_top_layer(cell, layers) -> None:
    encoder = randomise(RecurrentEncoder(cell, 3, 4, layers=layers))
    memory, final = encoder(torch.randn(3, 6, 3, dtype=torch.float64), IS_PADDING)
    for row, length in enumerate(LENGTHS):
        assert torch.equal(final[row], memory[row, length - 1])


def test_each_cell_uses_its_torch_kernel_with_dropout_between_layers() -> None:
    for cell, kernel in (("rnn", nn.RNN), ("gru", nn.GRU), ("lstm", nn.LSTM)):
        encoder = RecurrentEncoder(cell, 3, 4, layers=2, dropout=0.25)
        decoder = AttentiveCell(cell, 3, 4, memory_width=5, attention=None, layers=2, dropout=0.25)
        for block in (encoder, decoder):
            assert isinstance(block.kernel, kernel)
            assert block.kernel.dropout == 0.25
    assert RecurrentEncoder("gru", 3, 4, dropout=0.25).kernel.dropout == 0
    assert RecurrentEncoder("gru", 3, 4, layers=2).kernel.dropout == 0


@CELLS
def test_a_bidirectional_encoder_reads_backwards_in_the_second_half(cell) -> None:
    both = randomise(RecurrentEncoder(cell, 3, 4, bidirectional=True))
    forwards, backwards = RecurrentEncoder(cell, 3, 4).double(), RecurrentEncoder(cell, 3, 4).double()
    state = both.state_dict()
    forwards.load_state_dict({name: state[name] for name in forwards.state_dict()})
    backwards.load_state_dict({name: state[f"{name}_reverse"] for name in backwards.state_dict()})
    x, nothing = torch.randn(2, 5, 3, dtype=torch.float64), torch.zeros(2, 5, dtype=torch.bool)
    memory, final = both(x, nothing)
    assert_same(memory[..., :4], forwards(x, nothing)[0])
    assert_same(memory[..., 4:], backwards(x.flip(1), nothing)[0].flip(1))
    assert_same(final, torch.cat((forwards(x, nothing)[1], backwards(x.flip(1), nothing)[1]), dim=1))


def test_an_empty_sentence_raises_an_error() -> None:
    is_padding = IS_PADDING.clone()
    is_padding[1] = True
    with pytest.raises(ValueError, match="sentence 1 of the batch is empty"):
        RecurrentEncoder("gru", 3, 4)(torch.zeros(3, 6, 3), is_padding)


def test_padding_before_a_word_raises_an_error() -> None:
    with pytest.raises(ValueError, match="padding should come after the words"):
        RecurrentEncoder("gru", 3, 4)(torch.zeros(3, 6, 3), IS_PADDING.flip(1))
    with pytest.raises(ValueError, match="is_padding should be bool"):
        RecurrentEncoder("gru", 3, 4)(torch.zeros(3, 6, 3), IS_PADDING.int())


def test_an_unknown_cell_raises_an_error() -> None:
    with pytest.raises(ValueError, match="cell should be one of 'rnn', 'gru', 'lstm', got 'gruu'"):
        RecurrentEncoder("gruu", 3, 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cell should be one of"):
        AttentiveCell("gruu", 3, 4, memory_width=5, attention=None)  # type: ignore[arg-type]


def make_cell(cell: str, attention: str, layers: int) -> AttentiveCell:
    scores = {
        "additive": lambda: ScoredAttention(AdditiveScore(4, 5, 4)),
        "location-aware": lambda: ScoredAttention(LocationAwareScore(4, 5, 4, channels=2, kernel=3)),
        "none": lambda: None,
    }
    return randomise(AttentiveCell(cell, 3, 4, memory_width=5, attention=scores[attention](), layers=layers))


@CELLS
@pytest.mark.parametrize("attention", ["additive", "location-aware", "none"])
@pytest.mark.parametrize("layers", [1, 2])
def test_sentences_of_a_batch_are_independent_and_can_be_reordered(cell, attention, layers) -> None:
    decoder = make_cell(cell, attention, layers)
    x = torch.randn(3, 4, 3, dtype=torch.float64)
    memory, final = torch.randn(3, 6, 5, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    index = torch.tensor([2, 2, 0])
    state = decoder.start(memory, final, IS_PADDING)
    _, state = decoder(x[:, 0], state)
    moved, _ = decoder(x[index, 1], state.reorder(index))
    assert moved.shape == (3, decoder.out_width)
    for row, origin in enumerate(index.tolist()):
        length, one = LENGTHS[origin], slice(origin, origin + 1)
        alone = decoder.start(memory[one, :length], final[one], IS_PADDING[one, :length])
        _, alone = decoder(x[one, 0], alone)
        out, _ = decoder(x[one, 1], alone)
        assert_same(moved[row], out[0])


@CELLS
@pytest.mark.parametrize("attention", ["additive", "none"])
def test_a_mask_without_padding_equals_no_mask(cell, attention) -> None:
    encoder = randomise(RecurrentEncoder(cell, 3, 5, layers=2, bidirectional=True))
    x, nothing = torch.randn(3, 6, 3, dtype=torch.float64), torch.zeros(3, 6, dtype=torch.bool)
    for one, other in zip(encoder(x), encoder(x, nothing), strict=True):
        assert_same(one, other)
    decoder, memory, final = make_cell(cell, attention, 1), *(part[..., :5] for part in encoder(x))
    outputs = [decoder(x[:, 0], decoder.start(memory, final, mask))[0] for mask in (None, nothing)]
    assert_same(*outputs)


@CELLS
@pytest.mark.parametrize("attention", ["additive", "location-aware", "none"])
def test_unrolling_a_text_equals_single_steps(cell, attention) -> None:
    decoder = make_cell(cell, attention, 2)
    x = torch.randn(3, 4, 3, dtype=torch.float64)
    memory, final = torch.randn(3, 6, 5, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    state = decoder.start(memory, final, IS_PADDING)
    whole, last = decoder.unroll(x, state)
    assert whole.shape == (3, 4, decoder.out_width)
    for place in range(4):
        out, state = decoder(x[:, place], state)
        assert_same(whole[:, place], out)
    for one, other in zip(last.hidden, state.hidden, strict=True):
        assert_same(one, other)
    again, _ = decoder.unroll(x, last)
    assert_same(again[:, 0], decoder(x[:, 0], state)[0])


def test_the_attention_query_is_the_state_of_the_top_layer() -> None:
    decoder = make_cell("gru", "additive", 2)
    state = decoder.start(torch.randn(3, 6, 5).double(), torch.randn(3, 5).double(), IS_PADDING)
    assert decoder.attention is not None
    expected = decoder.attention(state.hidden[0][1][:, None], state.memory, state.weights_BS)[1]
    assert_same(decoder(torch.randn(3, 3).double(), state)[1].weights_BS, expected)


@CELLS
def test_without_attention_only_the_initial_state_depends_on_the_source(cell) -> None:
    decoder = make_cell(cell, "none", 1)
    final = torch.randn(2, 5, dtype=torch.float64)
    nothing = torch.zeros(2, 6, dtype=torch.bool)
    x = torch.randn(2, 3, dtype=torch.float64)
    one, _ = decoder(x, decoder.start(torch.randn(2, 6, 5, dtype=torch.float64), final, nothing))
    other, _ = decoder(x, decoder.start(torch.randn(2, 6, 5, dtype=torch.float64), final, nothing))
    assert torch.equal(one, other)
    assert one.shape == (2, 4)


@CELLS
def test_gradients_flow_through_time_to_the_first_input(cell) -> None:
    encoder, decoder = randomise(RecurrentEncoder(cell, 3, 5)), make_cell(cell, "additive", 2)
    x = torch.randn(1, 6, 3, dtype=torch.float64, requires_grad=True)
    nothing = torch.zeros(1, 6, dtype=torch.bool)
    state = decoder.start(*encoder(x, nothing), nothing)
    for _ in range(4):
        out, state = decoder(torch.zeros(1, 3, dtype=torch.float64), state)
    out.sum().backward()
    assert x.grad is not None
    assert (x.grad.abs().sum(-1) > 0).all()


def test_wrong_widths_raise_an_error() -> None:
    with pytest.raises(ValueError, match=r"x should have shape \(3, 6, 3\), got \(3, 6, 4\)"):
        RecurrentEncoder("gru", 3, 4)(torch.zeros(3, 6, 4), IS_PADDING)
    decoder = make_cell("gru", "additive", 1)
    with pytest.raises(ValueError, match=r"final should have shape \(batch, 5\), got \(3, 4\)"):
        decoder.start(torch.zeros(3, 6, 5).double(), torch.zeros(3, 4).double(), IS_PADDING)
    state = decoder.start(torch.zeros(3, 6, 5).double(), torch.zeros(3, 5).double(), IS_PADDING)
    with pytest.raises(ValueError, match=r"x should have shape \(batch, 3\), got \(3, 2\)"):
        decoder(torch.zeros(3, 2).double(), state)
