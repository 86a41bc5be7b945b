"""Generating 64 tokens with a GPT-2 of 124 million weights, compared with Hugging Face's `generate`.

    python benchmarks/generate.py

Both have the same random weights in float32, read the same prompt and decode greedily; the outputs are checked to be
the same. Regard runs `Completer.complete`, whose samples form the batch. At batch size 1 each weight is read once per
token, so memory bandwidth is the limit: it is measured by summing a tensor of the same size. The peak memory of
generation is measured in a separate process that does nothing else.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch

from harness import interleave, machine, report
from regard import library
from regard.codecs.gpt2 import CharacterTokenizer
from regard.interop import gpt2
from regard.models.gpt2 import Gpt2Config
from regard.store.models import tensors
from regard.tasks.completion import Completer

PROMPT, TOKENS, BATCHES = "The child picked up a small stone.", 64, (1, 8)
MEGABYTE = 10**6


def make(folder: Path) -> None:
    """Save a Regard model with random weights."""
    torch.manual_seed(1)
    model = Gpt2Config.preset("small", vocab_size=50257).build()
    for layer in model.layers:
        for parameter in layer.parameters():
            parameter.data.mul_(2)  # otherwise the model would repeat one word
    tokenizer = CharacterTokenizer.learn("".join(map(chr, range(32, 32 + model.config.vocab_size))))
    library.save(folder, model.config, tensors(model), {"text": tokenizer}, "# Random")


def theirs(ours: Completer) -> Any:
    """Hugging Face's model with the same weights."""
    from transformers import GPT2Config, GPT2LMHeadModel  # imported here because it takes memory

    model: Any = GPT2LMHeadModel(GPT2Config(eos_token_id=None)).eval()
    weights = {name: made.join(ours.model.state_dict()) for name, made in gpt2.names(ours.model.config).items()}
    model.transformer.load_state_dict(weights)
    return model


def regard_tokens(ours: Completer, batch: int) -> list[list[int]]:
    """The tokens that Regard generates for each text."""
    return [list(found.tokens) for found in ours.complete(PROMPT, samples=batch, tokens=TOKENS, temperature=0.0)]


@torch.no_grad()
def hugging_face_tokens(model: Any, read: list[int], batch: int) -> list[list[int]]:
    """The tokens that Hugging Face generates for each text."""
    read_BT = torch.tensor(read).expand(batch, -1)
    written = model.generate(read_BT, attention_mask=torch.ones_like(read_BT), max_new_tokens=TOKENS, do_sample=False)
    texts: list[list[int]] = written[:, read_BT.size(1) :].tolist()
    return texts


def peak(folder: str, batch: int) -> None:
    """Print the peak memory of generation in megabytes: weights + cache + everything else."""
    ours = library.load(folder, Completer)
    weights = sum(p.numel() for p in ours.model.parameters()) * 4
    length, config = ours.count({"text": PROMPT}) + TOKENS, ours.model.config
    cache = 2 * config.layers * batch * length * config.width * 4
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak, to exclude that of loading the model
    regard_tokens(ours, batch)
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    used = int(line.split()[1]) * 1024
    print(f"{weights / MEGABYTE:,.0f} + {cache / MEGABYTE:,.0f} + {(used - weights - cache) / MEGABYTE:,.0f} MB")


def main() -> None:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peak", nargs=2, help="only print the peak memory, given a model folder and a batch size")
    if (arguments := parser.parse_args().peak) is not None:
        peak(arguments[0], int(arguments[1]))
        return
    with tempfile.TemporaryDirectory() as parent:
        make(Path(parent) / "model")
        measure(f"{parent}/model")


def measure(folder: str) -> None:
    """Compare a Regard model with Hugging Face's with the same weights."""
    ours = library.load(folder, Completer)
    model, (read,) = theirs(ours), ours.tokenizer.encode([PROMPT])
    print(machine())
    for batch in BATCHES:
        assert regard_tokens(ours, batch) == hugging_face_tokens(model, read, batch), "the two outputs differ"
        contenders = {
            "Regard": partial(regard_tokens, ours, batch),
            "Hugging Face": partial(hugging_face_tokens, model, read, batch),
        }
        seconds = interleave(contenders)
        print(f"\nbatch {batch}\n\n{report(seconds, batch * TOKENS, 'tokens')}")
        if batch == 1:
            count = sum(p.numel() for p in ours.model.parameters())
            bound = statistics.median(interleave({"sum": torch.ones(count).sum})["sum"])
            reached = bound * TOKENS / statistics.median(seconds["Regard"])
            print(f"\nmemory bandwidth allows {1 / bound:.0f} tokens/s, of which {reached:.0%} is reached")
        memory = subprocess.run(
            [sys.executable, __file__, "--peak", folder, str(batch)], check=True, capture_output=True, text=True
        )
        print(f"memory: weights + cache + everything else = {memory.stdout.strip()}")


if __name__ == "__main__":
    main()
