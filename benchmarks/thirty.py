"""Time to 30 BLEU on Multi30k, English to German: Regard and Hugging Face's Marian and Trainer, both from scratch.

    pip install accelerate
    python benchmarks/thirty.py --data multi30k

Both have a *small* model (3+3 layers, width 256), one vocabulary of 6,000 tokens for both languages, batches of about
2,000 target tokens of similar length, label smoothing, 400 steps of warm-up and an inverse-square-root schedule. Every
100 steps all validation sentences are translated by greedy search, which does not count as training time. Regard's
recipe is pre-norm and uses an EMA of the weights; Marian is post-norm, which does not train at high learning rates, so
it has its own rate. Each runs with one thread, and minutes are CPU time, so the two may run at the same time, and other
processes do not count.
"""

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from harness import machine, multi30k
from regard import recipe
from regard.codecs.subword import BEGIN, END, PAD_ID, SubwordTokenizer
from regard.data.batches import in_batches, pad
from regard.data.text import pairs
from regard.evaluation import bleu
from regard.interop.marian import write_config
from regard.models.transformer import TransformerConfig
from regard.recipe import training as training_of
from regard.store.models import load_tensors
from regard.training.report import Report

GOAL, EVAL_EVERY, VOCABULARY, SIZE, WARMUP, MAX_STEPS = 30.0, 100, 6000, 128, 400, 4000
OnScore = Callable[[int, float, float], bool]
"""Called with the step, the minutes and BLEU; returns whether to stop."""


class Clock:
    """CPU minutes of training, excluding the time while the clock is stopped."""

    def __init__(self) -> None:
        self.minutes, self._since = 0.0, time.process_time()

    def stop(self) -> None:
        """Stop the clock."""
        self.minutes += (time.process_time() - self._since) / 60

    def start(self) -> None:
        """Start the clock again."""
        self._since = time.process_time()


def files(data: Path, part: str) -> tuple[Path, Path]:
    """The files of a split of the corpus."""
    return data / f"{part}.en.gz", data / f"{part}.de.gz"


def ours(data: Path, rate: float, on_score: OnScore) -> None:
    """Train with the recipe for Transformers."""
    valid = list(pairs(*files(data, "val")))
    with tempfile.TemporaryDirectory() as run:
        changes = [
            *multi30k(data),
            f"run={run}/run", f"tokenizer.vocab_size={VOCABULARY}", "model.preset=small", f"train.steps={MAX_STEPS}",
            "train.epochs=1000", "train.batch_tokens=2000", f"train.warmup={WARMUP}", f"train.learning_rate={rate}",
            "train.ema=0.99", "threads=1",
        ]  # fmt: skip
        training = training_of(recipe.read("translate/transformer", changes), Report(Console(quiet=True)))
        clock = Clock()
        for step in range(1, MAX_STEPS + 1):
            training.advance()
            if step % EVAL_EVERY == 0:
                clock.stop()
                model: Any = training.validation_model
                load_tensors(model, training._weights(), "the weights so far")
                found = training.task.open(model, training.task.codecs).translate([a for a, _ in valid], beam=1)
                if on_score(step, clock.minutes, score([each[0].text for each in found], valid)):
                    return
                clock.start()


def theirs(data: Path, rate: float, on_score: OnScore) -> None:
    """Train Marian with the Trainer."""
    from transformers import (
        MarianConfig,
        MarianMTModel,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
        TrainerCallback,
    )

    train, valid = (list(pairs(*files(data, part))) for part in ("train", "val"))
    tokenizer = SubwordTokenizer.train("bpe", VOCABULARY, (text for pair in train for text in pair))
    shape = TransformerConfig.preset("small", vocab_size=VOCABULARY)
    model: Any = MarianMTModel(MarianConfig.from_dict(write_config(shape)))
    examples = [
        {
            "input_ids": [*source, END],
            "attention_mask": [1] * (len(source) + 1),
            "decoder_input_ids": [BEGIN, *target],
            "labels": [*target, END],
        }
        for source, target in zip(*(tokenizer.encode(side) for side in zip(*train, strict=True)), strict=True)
    ]
    read = tokenizer.encode([source for source, _ in valid])
    clock = Clock()

    class Evaluate(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            if state.global_step % EVAL_EVERY == 0:
                clock.stop()
                written = translate(model, tokenizer, read)
                control.should_training_stop = on_score(state.global_step, clock.minutes, score(written, valid))
                clock.start()

    def collate(some: Sequence[Any]) -> dict[str, torch.Tensor]:
        fill = {"input_ids": PAD_ID, "attention_mask": 0, "decoder_input_ids": PAD_ID, "labels": -100}
        return {name: pad([example[name] for example in some], number) for name, number in fill.items()}

    with tempfile.TemporaryDirectory() as folder:
        arguments = Seq2SeqTrainingArguments(
            folder, max_steps=MAX_STEPS, per_device_train_batch_size=SIZE, learning_rate=rate, warmup_steps=WARMUP,
            lr_scheduler_type="inverse_sqrt", label_smoothing_factor=0.1, use_cpu=True, report_to="none",
            save_strategy="no", logging_strategy="no", train_sampling_strategy="group_by_length",
            remove_unused_columns=False, dataloader_pin_memory=False, disable_tqdm=True,
        )  # fmt: skip
        Seq2SeqTrainer(model, arguments, collate, train_dataset=examples, callbacks=[Evaluate()]).train()


@torch.no_grad()
def translate(model: Any, tokenizer: SubwordTokenizer, read: Sequence[Sequence[int]]) -> list[str]:
    """Marian's translations by greedy search."""
    model.eval()
    found: dict[int, list[int]] = {}
    for indices in in_batches([len(tokens) for tokens in read], 2048):
        source_BS = pad([read[i] for i in indices], PAD_ID, after=END)
        written = model.generate(source_BS, attention_mask=(source_BS != PAD_ID).long(), num_beams=1, max_new_tokens=60)
        found |= dict(zip(indices, (tokens[1:] for tokens in written.tolist()), strict=True))
    model.train()
    return tokenizer.decode([found[i] for i in range(len(read))])


def score(written: list[str], valid: Sequence[tuple[str, str]]) -> float:
    """BLEU of translations of all validation sentences."""
    return bleu.score(written, [target for _, target in valid]).bleu


def run(name: str, train: Callable[[Path, float, OnScore], None], data: Path, rate: float) -> None:
    """Run one contender, in its own process."""
    torch.set_num_threads(1)
    torch.manual_seed(1)

    def on_score(step: int, minutes: float, found: float) -> bool:
        print(f"{name}, rate {rate:g}: step {step}, {minutes:.2f} min, BLEU {found:.1f}", flush=True)
        return found >= GOAL

    train(data, rate, on_score)


def main() -> None:
    """Train both until they reach the goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Multi30k")
    parser.add_argument(
        "--rates", type=float, nargs=2, default=(3e-3, 1e-3), help="learning rates of Regard and of Marian"
    )
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    print(machine())
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=run, args=(name, train, options.data, rate))
        for (name, train), rate in zip((("Regard", ours), ("Marian", theirs)), options.rates, strict=True)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
