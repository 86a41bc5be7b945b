"""The training loop: batches in, weights out.

A run is a folder: the resolved recipe, the tokenizer, `log.jsonl`, checkpoints, `model/` (the best by validation loss)
and `last/`. The same command on a run that was interrupted goes on where it was, with the same result to the bit.
"""

import dataclasses
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from regard import library
from regard.data.batches import Batch, Batches, Position
from regard.data.corpus import Corpus, encoded
from regard.data.sources import Part
from regard.data.tokenizer import PAD, Tokenizer
from regard.evaluation import bleu
from regard.folders import write_tensors
from regard.library import AnyModelConfig
from regard.recipe import Recipe
from regard.tasks import translation
from regard.training import checkpoint
from regard.training.claim import claim, claim_text
from regard.training.device import Device
from regard.training.distributed import Group
from regard.training.memory import keep_memory
from regard.training.report import Report
from regard.training.schedule import learning_rate

SAMPLE = 2_000_000  # pairs that a tokenizer learns from at most
BLEU_SENTENCES = 200
LOG_EVERY = 50  # steps


@dataclass
class State:
    """Where training is. With the tensors, all that a checkpoint holds."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    best: float = float("inf")
    stale: int = 0
    """Validations since the best one."""


class Training:
    """One run, from its recipe."""

    def __init__(self, recipe: Recipe, report: Report) -> None:
        self.recipe, self.config, self.report = recipe, recipe.train, report
        keep_memory()
        self.device = Device(recipe.device, recipe.train.precision)
        self.group = Group(self.device)
        self.run = Path(recipe.run)
        self.counts: list[dict[str, Any]] = []
        """What became of the pairs of each source."""
        if recipe.threads:
            torch.set_num_threads(recipe.threads)
        with self.group.one_after_the_other():
            if self.group.is_first:
                claim(self.run, recipe)
            parts, valid_parts = recipe.data.parts(), recipe.data.valid_parts()
            if self.group.is_first:
                claim_text(self.run, [part.key for part in (*parts, *valid_parts)])
            self.source, self.target = self._tokenizers()
            corpora = [(self._corpus(part, "training"), part.weight) for part in parts]
            valid = [(self._corpus(part, "validation"), 1.0) for part in valid_parts]
        if not any(len(corpus) for corpus, _ in valid):
            raise ValueError("there are no sentence pairs to validate with; give some with data.valid")
        self.batches = Batches(corpora, self.config.batch_tokens, recipe.seed)
        self.valid = Batches(valid, self.config.batch_tokens, seed=0)
        self.valid_pairs = list(islice(self._fitting(valid_parts), BLEU_SENTENCES))
        self.model_config = self._model_config()
        # a model that validates, with whatever weights are to be judged
        # one that is too large for a process is judged where there is room
        self.judge_device = torch.device("cpu") if self.config.shard else self.device.torch
        self.judge = self.model_config.build().to(self.judge_device) if self.group.is_first else None
        torch.manual_seed(recipe.seed)
        self.model = self.model_config.build()
        longest = max(int(part.max()) for batches in (self.batches, self.valid) for part in batches.lengths.values())
        if self.model.limit is not None and longest > self.model.limit:
            raise ValueError(
                f"a sentence of {longest - 1} tokens and its end are more than the model can take, {self.model.limit}; "
                f"lower data.longest, or raise model.context"
            )
        if recipe.init:
            library.load_tensors(self.model, library.read(recipe.init).weights, f"the weights of {recipe.init}")
        if self.config.shard:
            self.group.shard(self.model)
        else:
            self.model.to(self.device.torch)
        self.parameters = dict(self.model.named_parameters())
        self.average = {name: p.detach().clone() for name, p in self.parameters.items()} if self.config.average else {}
        self.optimizer = self._optimizer()
        self.state = State()
        self._clock = time.perf_counter()
        self._recent: list[tuple[float, int, float]] = []
        """Loss, tokens and seconds of the steps since the last line of the log."""
        self._validated = ""
        """What the last validation said, for the live line."""
        self._resume()

    def _tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        if any(self.run.glob("tokenizer*.json")):
            return library.load_tokenizers(self.run)
        if self.recipe.init:
            contents = library.read(self.recipe.init)
            library.save_tokenizers(self.run, contents.source, contents.target)
            return contents.source, contents.target
        config = self.recipe.tokenizer
        self.report.say(f"learning a vocabulary of {config.vocab_size:,} tokens")

        def texts(*sides: int) -> Iterator[str]:
            pairs = islice(chain.from_iterable(part.read() for part in self.recipe.data.parts()), SAMPLE)
            return (pair[side] for pair in pairs for side in sides)

        if config.joint:
            source = target = Tokenizer.train(config.kind, config.vocab_size, texts(0, 1))
        else:
            source, target = (Tokenizer.train(config.kind, config.vocab_size, texts(side)) for side in (0, 1))
        library.save_tokenizers(self.run, source, target)
        return source, target

    def _corpus(self, part: Part, what: str) -> Corpus:
        cache = Path(os.environ.get("REGARD_CACHE", Path.home() / ".cache" / "regard"))
        corpus = encoded(part.read, part.key, self.source, self.target, self.recipe.data.longest, cache)
        about = corpus.about
        self.counts.append({"pairs": what, **dataclasses.asdict(about)})
        self.report.say(
            f"{what}: {about.kept:,} pairs; dropped {about.empty:,} with an empty side "
            f"and {about.long:,} with more than {self.recipe.data.longest} tokens"
        )
        return corpus

    def _fitting(self, parts: Sequence[Part]) -> Iterator[tuple[str, str]]:
        """The pairs that are not dropped from a corpus."""
        for pair in chain.from_iterable(part.read() for part in parts):
            lengths = [len(t.encode([text])[0]) for t, text in zip((self.source, self.target), pair, strict=True)]
            if all(text.strip() for text in pair) and max(lengths) <= self.recipe.data.longest:
                yield pair

    def _model_config(self) -> AnyModelConfig:
        """The model's config with the vocabulary that the tokenizer really has."""
        if self.recipe.init:
            return self.recipe.model
        source_size = None if self.source is self.target else self.source.vocab_size
        return replace(self.recipe.model, vocab_size=self.target.vocab_size, source_vocab_size=source_size)

    def _optimizer(self) -> torch.optim.AdamW:
        """AdamW, with decay for matrices only."""
        matrices = [p for p in self.parameters.values() if p.dim() > 1]
        others = [p for p in self.parameters.values() if p.dim() <= 1]
        groups = [
            {"params": matrices, "weight_decay": self.config.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), eps=1e-9)

    # what a checkpoint holds

    def _tensors(self) -> dict[str, Tensor]:
        result = {f"model.{name}": tensor for name, tensor in library.tensors(self.model).items()}
        result |= {f"average.{name}": tensor for name, tensor in self.average.items()}
        for name, parameter in self.parameters.items():
            for key, value in self.optimizer.state[parameter].items():
                result[f"optimizer.{key}.{name}"] = value
        return result

    def save(self) -> None:
        """Writes a checkpoint."""
        self._tick()
        random = {
            f"random.{kind}.{rank}": state
            for kind, own in self.device.random_states().items()
            for rank, state in enumerate(self.group.gather(own))
        }
        tensors = self.group.whole(self._tensors())
        if self.group.is_first:
            state = dataclasses.asdict(self.state)
            checkpoint.save(self.run, self.state.step, {**tensors, **random}, state, max(2, self.config.average_last))
        self.group.wait()

    def _resume(self) -> None:
        found = checkpoint.load(self.run, self.report.say)
        if found:
            tensors, state = found
            if missing := [name for name in library.tensors(self.model) if f"model.{name}" not in tensors]:
                raise ValueError(
                    f"{self.run}: its checkpoints lack {missing[0]}; they are of another version of Regard"
                )
            self.state = State(**state)
            self.batches.position = Position(self.state.epoch, self.state.batch)
            for name, own in library.tensors(self.model).items():
                self.group.put(tensors[f"model.{name}"], own)
            for name, own in self.average.items():
                self.group.put(tensors[f"average.{name}"], own)
            for name, parameter in self.parameters.items():
                moments = {key: torch.zeros_like(parameter) for key in ("exp_avg", "exp_avg_sq")}
                for key, own in moments.items():
                    self.group.put(tensors[f"optimizer.{key}.{name}"], own)
                self.optimizer.state[parameter] = {"step": tensors[f"optimizer.step.{name}"], **moments}
            self._resume_random(tensors)
            self.report.say(f"going on from step {self.state.step:,}")
        elif self.group.rank:
            torch.manual_seed(self.recipe.seed + self.group.rank)  # or else all would drop out the same
        if self.group.is_first:
            self.report.open(self.run / "log.jsonl", self.state.step)
            for counts in self.counts if not self.state.step else ():
                self.report.log(step=0, **counts)

    def _resume_random(self, tensors: dict[str, Tensor]) -> None:
        names = {kind: f"random.{kind}.{self.group.rank}" for kind in self.device.random_states()}
        if tensors.keys() >= set(names.values()) and f"random.cpu.{self.group.world}" not in tensors:
            self.device.set_random_states({kind: tensors[name] for kind, name in names.items()})
        else:
            # another number of processes than before: what is drawn is another, as are the shares of a batch
            torch.manual_seed(self.recipe.seed + 1_000_003 * self.state.step + self.group.rank)

    # training

    @property
    def progress(self) -> float:
        """The share of the budget that is used up: of the one that is nearest to its end."""
        config, state = self.config, self.state
        shares = []
        if config.steps:
            shares.append(state.step / config.steps)
        if config.epochs:
            done = self.state.batch / len(self.batches.plan(state.epoch))
            shares.append((state.epoch + done) / config.epochs)
        if config.minutes:
            shares.append(state.seconds / 60 / config.minutes)
        return min(1.0, max(shares))

    @property
    def is_over(self) -> bool:
        """Nothing is left to do."""
        patience = self.config.patience
        return self.progress >= 1 or (patience is not None and self.state.stale >= patience)

    def train(self) -> Path:
        """Trains until the budget is used up; gives the folder of the best model."""
        try:
            if self.is_over:
                self.report.say(f"{self.run}: finished at step {self.state.step:,}")
            self._clock = time.perf_counter()
            while not self.is_over:
                self._timed_step()
                if self.is_over or self.state.step % self.config.validate == 0:
                    self.validate()
                if self.is_over or self.state.step % self.config.checkpoint == 0:
                    self.save()
        finally:
            self.report.close()
        weights = self._weights()
        if self.group.is_first:
            self._write_model(self.run / "last", weights, {})
            self._draw_curves()
        if self.config.average_last:
            self._try_mean_of_last()
        self.group.wait()
        return self.run / "model"

    def _try_mean_of_last(self) -> None:
        """Keeps the mean weights of the last checkpoints, if they are better than the best so far."""
        best = self.state.best
        if self.group.is_first:
            weights = checkpoint.mean(self.run, self.config.average_last, "model.", self.report.say)
            values = self._validation_values(weights)
            better = values["valid_loss"] < best
            self.report.say(
                f"mean of the last checkpoints: valid loss {values['valid_loss']:.3f}  BLEU {values['bleu']:.1f}, "
                + ("kept" if better else f"not better than {best:.3f}")
            )
            if better:
                self._write_model(self.run / "model", weights, values)
                self.state.best = values["valid_loss"]
        (self.state.best,) = self.group.from_first([self.state.best])
        if self.state.best < best:
            self.save()  # so that a longer run knows what it has to better

    def _draw_curves(self) -> None:
        try:
            from regard.explain import figures
        except ImportError:
            return
        figures.save(figures.learning_curves(self.run / "log.jsonl"), self.run / "curves.png")

    def _timed_step(self) -> None:
        start = time.perf_counter()
        progress = self.progress
        rate = learning_rate(self.config, self.state.step, progress)
        loss, tokens = self.step([next(self.batches) for _ in range(self.config.accumulate)], rate)
        self._tick()
        self.state.step += 1
        self.state.epoch, self.state.batch = self.batches.position.epoch, self.batches.position.batch
        if not self.group.is_first:
            return
        self._recent.append((loss * tokens, tokens, self._clock - start))
        total, count, time_spent = map(sum, zip(*self._recent, strict=True))
        values = {"loss": total / count, "tokens_per_second": count / time_spent}
        self.report.step(
            self.progress,
            f"step {self.state.step:,}  loss {values['loss']:.3f}{self._validated}  "
            f"{values['tokens_per_second']:,.0f} tokens/s",
        )
        if self.state.step % LOG_EVERY == 0:
            self.report.log(step=self.state.step, rate=rate, **values)
            self._recent.clear()

    def _tick(self) -> None:
        """Counts the time since it was last counted, validation and all."""
        now = time.perf_counter()
        (seconds,) = self.group.from_first([now - self._clock])
        self.state.seconds, self._clock = self.state.seconds + seconds, now

    def step(self, batches: Sequence[Batch], rate: float) -> tuple[float, int]:
        """One step on several batches: the loss of a token, and the number of target tokens."""
        self.model.train()
        tokens = sum(int((batch.next_BT != PAD).sum()) for batch in batches)
        total = torch.zeros(1, dtype=torch.float64)
        for batch in (whole.share(self.group.rank, self.group.world) for whole in batches):
            with self.device.autocast():
                smooth, plain, _ = translation.loss(self.model, batch.to(self.device.torch), self.config.smoothing)
            if not torch.isfinite(smooth):
                self._stop_for_nan([batch], "loss")
            (smooth / tokens).backward()
            total += float(plain)
        # sharded gradients are summed already, where they came about
        gradients = [] if self.config.shard else [_gradient(parameter) for parameter in self.parameters.values()]
        self.group.sum_([total, *gradients])
        norm = torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.config.clip)
        if not torch.isfinite(norm.full_tensor() if isinstance(norm, DTensor) else norm):
            self._stop_for_nan(batches, "gradient")
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.average:
            # in the first steps a shorter memory, so that the random beginning is soon forgotten
            keep = min(self.config.average, (1 + self.state.step) / (10 + self.state.step))
            with torch.no_grad():
                torch._foreach_lerp_(list(self.average.values()), list(self.parameters.values()), 1 - keep)
        return float(total) / tokens, tokens

    def _stop_for_nan(self, batches: Sequence[Batch], what: str) -> None:
        path = self.run / "bad-batch.safetensors"
        if what == "loss" or self.group.is_first:  # a gradient is the same for all
            tensors = {f"{name}.{i}": x for i, batch in enumerate(batches) for name, x in vars(batch).items()}
            write_tensors(path, tensors)
        raise ValueError(
            f"the {what} of step {self.state.step:,} is not a finite number; the batch is in {path}. "
            f"Another run=... with a lower train.learning_rate or a longer train.warmup may help"
        )

    def _weights(self) -> dict[str, Tensor]:
        """The weights that count: averaged ones, if there is an average."""
        return self.group.whole({**library.tensors(self.model), **self.average})

    def validate(self) -> None:
        """Loss and BLEU on the validation pairs; the best model so far is kept."""
        weights = self._weights()
        if self.group.is_first:
            self._validate(weights)
        self.state.best, stale = self.group.from_first([self.state.best, self.state.stale])
        self.state.stale = int(stale)

    def _validate(self, weights: Mapping[str, Tensor]) -> None:
        values = self._validation_values(weights)
        if values["valid_loss"] < self.state.best:
            self.state.best, self.state.stale = values["valid_loss"], 0
            self._write_model(self.run / "model", weights, values)
        else:
            self.state.stale += 1
        self.report.log(step=self.state.step, **values)
        self._validated = f"  valid loss {values['valid_loss']:.3f}  BLEU {values['bleu']:.1f}"
        self.report.say(
            f"step {self.state.step:,}  epoch {self.state.epoch + 1}{self._validated}  "
            f"{self.progress:.0%}  {self.state.seconds / 60:.1f} min"
        )

    @torch.no_grad()
    def _validation_values(self, weights: Mapping[str, Tensor]) -> dict[str, Any]:
        assert self.judge is not None
        library.load_tensors(self.judge, weights, "weights to validate")
        translator = translation.Translator(self.judge, self.source, self.target)
        total = count = 0.0
        for indices in self.valid.plan(0):
            _, plain, tokens = translation.loss(self.judge, self.valid.fetch(indices).to(self.judge_device))
            total, count = total + float(plain), count + tokens
        found = translator.translate([source for source, _ in self.valid_pairs], beam=1)
        scores = bleu.score([best[0].text for best in found], [target for _, target in self.valid_pairs])
        return {"valid_loss": total / count, "bleu": scores.bleu, "chrf": scores.chrf, "exact": scores.exact}

    def _write_model(self, folder: Path, weights: Mapping[str, Tensor], values: dict[str, Any]) -> None:
        lines = [f"# {self.run.name}", "", f"Trained with Regard for {self.state.step:,} steps.", ""]
        if values:
            count = len(self.valid_pairs)
            lines += [f"Loss a token on all validation pairs; scores of greedy search on {count} of them:", ""]
        lines += [f"- {name}: {value:.3f}" for name, value in values.items()]
        lines += [f"- {name}: `{signature}`" for name, signature in bleu.signatures().items()] if values else []
        lines += ["", "The recipe:", "", "```json", self.recipe.to_json().rstrip(), "```", ""]
        library.save(folder, self.model_config, weights, self.source, self.target, "\n".join(lines))


def _gradient(parameter: torch.nn.Parameter) -> Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
