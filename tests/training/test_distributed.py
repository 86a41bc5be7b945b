"""Two processes give the same result as one, with the same global batches, in float64, without dropout."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from helpers import assert_same
from regard.cli.main import main
from regard.data.parallel import pair_batch
from regard.models.rnn_seq2seq import RnnSeq2SeqConfig
from regard.models.transformer import TransformerConfig
from regard.tasks import translation
from regard.training.device import Device
from regard.training.distributed import Group

SCRIPT = """
import atexit, os, sys, torch
# handlers run in reverse order; a process group that still exists would sometimes abort Python
atexit.register(lambda: torch.distributed.is_initialized() and os._exit(3))
torch.set_default_dtype(torch.float64)
from rich.console import Console
from regard.recipe import read
from regard.recipe import training as training_of
from regard.training.loop import Training
from regard.training.report import Report
training_of(read("translate/dates", sys.argv[1:]), Report(Console(quiet=True))).train()
"""
REPEATED = """
import torch
from torch.distributed.fsdp import FSDPModule
torch.set_default_dtype(torch.float64)
from regard.training.device import Device
from regard.training.distributed import Group
from repeating import LoopedConfig
group = Group(Device("cpu", "float32"))
torch.manual_seed(1)
model = LoopedConfig().build()
tokens = torch.randint(1, 9, (2, 5))
model(tokens).logsumexp(-1).sum().backward()
expected = {name: parameter.grad for name, parameter in model.named_parameters()}
model.zero_grad()
group.shard(model)
assert [name for name, module in model.named_modules() if isinstance(module, FSDPModule)] == ["", "layer"]
model(tokens[group.rank : group.rank + 1]).logsumexp(-1).sum().backward()
for name, parameter in model.named_parameters():
    torch.testing.assert_close(parameter.grad.full_tensor(), expected[name], rtol=1e-12, atol=1e-12)
print("equal")
"""
SHARD = "train.shard=true"
SMALL = [
    "data.pairs=200", "tokenizer.vocab_size=300", "model.width=16", "model.ff_width=16", "model.dropout=0.0",
    "train.epochs=9", "train.batch_tokens=300", "train.validate_every=5", "train.checkpoint_every=5", "train.warmup=3",
    "train.accumulate=2", "threads=1",
]  # fmt: skip


def train(folder: Path, run: Path, processes: int, *changes: str) -> Path:
    """Trains in this number of processes; 0: without torchrun."""
    script = folder / "train.py"
    script.write_text(SCRIPT)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(launcher if processes else []), str(script), *SMALL, f"run={run}", *changes]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return run


def losses(run: Path) -> list[float]:
    lines = (run / "log.jsonl").read_text().splitlines()
    return [json.loads(line)["valid_loss"] for line in lines if "valid_loss" in line]


def test_all_reduces_are_in_the_order_of_the_tensors(monkeypatch) -> None:
    group, order = Group(Device("cpu", "float32")), []
    group.world = 2

    def double(tensor: torch.Tensor) -> None:
        order.append(tensor.dtype)
        tensor.mul_(2)

    monkeypatch.setattr("torch.distributed.all_reduce", double)
    kinds = [torch.float64, torch.int64, torch.float32, torch.float16, torch.int32, torch.float64]
    tensors = [torch.full((2, 3), i + 1).to(kind) for i, kind in enumerate(kinds)]
    group.sum_(tensors)
    assert order == kinds[:-1]
    assert [tensor[0, 0].item() for tensor in tensors] == [2, 4, 6, 8, 10, 12]


def test_the_command_runs_under_torchrun(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "regard"]
    result = subprocess.run(
        [*command, "train", "translate/dates", *SMALL, "model.dropout=0.1", "train.steps=3", f"run={tmp_path / 'run'}"],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("trained model. Try") == 1
    assert result.stderr.count("learning a vocabulary") == 1


def test_an_error_of_all_processes_is_printed_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "regard"]
    result = subprocess.run(
        [*command, "train", "translate/dates", "model.heads=3", f"run={tmp_path / 'run'}"],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr.count("not divisible by heads = 3") == 1


def test_an_error_of_another_process_alone_is_printed_after_a_while(monkeypatch, capsys) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr("regard.cli.main.WAIT", 0.0)
    monkeypatch.setattr("sys.argv", ["regard", "describe", "no-such-recipe"])
    monkeypatch.setattr("regard.cli.main.protect", lambda: None)
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.startswith("regard: ")


def is_running(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has ended")
def test_processes_of_a_killed_torchrun_save_a_checkpoint_and_end(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "regard"]
    changes = ["train.epochs=100000", "train.checkpoint_every=100000", f"run={tmp_path / 'run'}"]
    with subprocess.Popen(
        [*command, "train", "translate/dates", *SMALL, *changes], env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert any(line.startswith("predicted") for line in process.stderr)
        workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(workers) == 2
        process.send_signal(signal.SIGKILL)
        assert "run the same command again to resume from step" in process.stderr.read()
    deadline = time.monotonic() + 60
    while any(is_running(int(worker)) for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert list((tmp_path / "run" / "checkpoints").iterdir())


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("single")
    return train(folder, folder / "run", 0, "train.steps=12")


def assert_same_weights(one: Path, other: Path) -> None:
    expected, got = (load_file(run / "last" / "model.safetensors") for run in (one, other))
    for name, tensor in expected.items():
        # two halves are summed in another order than one batch, and the difference grows over twelve steps
        assert_same(got[name], tensor, tolerance=1e-9)


def test_two_processes_give_the_losses_and_weights_of_one(single: Path, tmp_path: Path) -> None:
    double = train(tmp_path, tmp_path / "run", 2, "train.steps=12")
    assert losses(double) == pytest.approx(losses(single), abs=1e-9)
    assert len(losses(single)) == 3
    assert_same_weights(single, double)


@pytest.mark.parametrize("processes", [1, 2])
def test_sharded_training_gives_the_same_losses_and_weights(single: Path, tmp_path: Path, processes) -> None:
    sharded = train(tmp_path, tmp_path / "run", processes, "train.steps=12", "train.shard=true")
    assert losses(sharded) == pytest.approx(losses(single), abs=1e-9)
    assert_same_weights(single, sharded)


def test_a_layer_that_runs_three_times_is_sharded_and_has_the_same_gradients(tmp_path: Path) -> None:
    script = tmp_path / "repeated.py"
    script.write_text(REPEATED)
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("equal") == 2


def test_sharding_needs_several_processes(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="train.shard = true needs several processes; start them with torchrun"):
        train(tmp_path, tmp_path / "run", 0, "train.shard=true")


def test_a_batch_of_fewer_sentences_than_processes_is_distributed() -> None:
    batch = pair_batch([[5, 6]], [[7]])
    assert torch.equal(batch.share(0, 2).next_BT, batch.next_BT)
    for model in (TransformerConfig(vocab_size=9, width=8, heads=2), RnnSeq2SeqConfig(vocab_size=9, width=8)):
        smooth, plain, count = translation.loss(model.build(), batch.share(1, 2))
        smooth.backward()
        assert (smooth.item(), plain.item(), count) == (0.0, 0.0, 0)


@pytest.mark.parametrize(
    ("before", "after"), [(["2"], ["0"]), (["0"], ["2"]), (["2", SHARD], ["0"]), (["0"], ["2", SHARD])]
)
def test_a_checkpoint_resumes_with_another_number_of_processes(tmp_path: Path, before, after) -> None:
    # a schedule that does not depend on the length of the run, so that the run can be split in two
    changes = ["train.schedule=constant", "train.cooldown=0.0"]
    uninterrupted = train(tmp_path, tmp_path / "uninterrupted", 0, "train.steps=12", *changes)
    run = train(tmp_path, tmp_path / "run", int(before[0]), "train.steps=6", *changes, *before[1:])
    train(tmp_path, run, int(after[0]), "train.steps=12", *changes, *after[1:])
    assert_same_weights(uninterrupted, run)


def test_an_interrupted_run_of_two_processes_resumes_with_bit_identical_weights(tmp_path: Path) -> None:
    changes = ["train.schedule=constant", "train.cooldown=0.0", "model.dropout=0.2"]
    uninterrupted = train(tmp_path, tmp_path / "uninterrupted", 2, "train.steps=10", *changes)
    run = train(tmp_path, tmp_path / "run", 2, "train.steps=5", *changes)
    train(tmp_path, run, 2, "train.steps=10", *changes)
    one, other = ((path / "last" / "model.safetensors").read_bytes() for path in (uninterrupted, run))
    assert one == other
