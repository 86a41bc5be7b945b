"""The training loop: batches, gradient accumulation, EMA, validation, early stopping, checkpoints, resuming.

A run is a folder: the resolved recipe, the codecs, `log.jsonl`, checkpoints, `model/` (the best in validation) and
`last/` (the final weights). The same command resumes an interrupted run, and the result is bit-identical to that of a
run that was never interrupted.
"""

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from regard.blocks.costs import collect
from regard.data.batches import Batch, Position
from regard.errors import RegardError
from regard.folders import write_tensors
from regard.process_memory import keep_memory, peak
from regard.store import checkpoint, models
from regard.store.runs import LOG, claim
from regard.training import budget
from regard.training.card import card
from regard.training.config import TrainConfig
from regard.training.device import Device
from regard.training.distributed import Group
from regard.training.flops import limit
from regard.training.interrupt import Interrupted, Interrupts
from regard.training.machine import threads
from regard.training.optimizer import gradient, make_optimizer
from regard.training.recompute import recompute
from regard.training.report import Report, board_module
from regard.training.schedule import learning_rate
from regard.training.setup import Job, Setup
from regard.training.state import TrainingState
from regard.training.task import SummedLoss, Tally, Task
from regard.training.throughput import Forecast, Throughput, forecast, summarise

LOG_EVERY = 50  # steps
PREDICTED_AFTER = 50  # steps


class Training:
    """One run of a job."""

    def __init__(self, job: Job, report: Report) -> None:
        self.job, self.config, self.report, self.run = job, job.train, report, job.run
        if self.config.tensorboard:
            board_module()  # fails before anything is written
        keep_memory()
        self.device = Device(job.device, job.train.precision)
        self.group = Group(self.device)
        torch.set_num_threads(job.threads or threads())
        setup = Setup(job, report.say)
        with self.group.first_process_first():
            if self.group.is_first:
                claim(self.run, job.recipe)
            self.task: Task = job.prepare(setup)
        self.batches, self.counts = self.task.batches, setup.counts
        # a second model, because validation uses other weights, such as the EMA;
        # on the CPU if the model is sharded, because it may be too large for one GPU
        self.validation_device = torch.device("cpu") if self.config.shard else self.device.torch
        self.validation_model = self.task.config.build().to(self.validation_device) if self.group.is_first else None
        torch.manual_seed(job.seed)
        self.model = self.task.config.build()
        max_length = max(batches.examples.max_length for batches in (self.batches, self.task.valid))
        if self.model.limit is not None and max_length > self.model.limit:
            remedy = "lower data.max_length" + (
                ", or raise model.context" if hasattr(job.model, "context") and not job.start else ""
            )
            raise RegardError(
                f"a text has {max_length} tokens, end token included, but the model's limit is {self.model.limit}; "
                f"{remedy}"
            )
        if job.start:
            job.start.load(self.model)
        if self.config.recompute:
            recompute(self.model)
        if self.config.shard:
            self.group.shard(self.model)
        else:
            self.model.to(self.device.torch)
        self.parameters = dict(self.model.named_parameters())
        self.ema = {name: p.detach().clone() for name, p in self.parameters.items()} if self.config.ema else {}
        self.optimizer = make_optimizer(self.parameters.values(), self.config)
        self.state = TrainingState()
        self.throughput = Throughput(limit(self.device.torch, self.device.dtype))
        self._clock = time.perf_counter()
        self._recent, self._recent_seconds = Tally(), 0.0
        """Metrics and time of the steps since the last line of the log."""
        self._interrupts, self._stopped_by = Interrupts(), 0
        self._validated: list[str] = []
        """The result of the last validation, for the progress line."""
        self._resume()

    # checkpoints

    def _tensors(self) -> dict[str, Tensor]:
        result = {f"model.{name}": tensor for name, tensor in models.tensors(self.model).items()}
        result |= {f"average.{name}": tensor for name, tensor in self.ema.items()}
        for name, parameter in self.parameters.items():
            for key, value in self.optimizer.state[parameter].items():
                result[f"optimizer.{key}.{name}"] = value
        return result

    def save(self) -> None:
        """Writes a checkpoint."""
        with self.throughput.timing("checkpoint"):
            self._save()

    def _save(self) -> None:
        self._tick()
        random = {
            f"random.{kind}.{rank}": state
            for kind, own in self.device.random_states().items()
            for rank, state in enumerate(self.group.gather(own))
        }
        tensors = self.group.whole(self._tensors())
        if self.group.is_first:
            state = dataclasses.asdict(self.state)
            checkpoint.save(
                self.run, self.state.step, {**tensors, **random}, state, max(2, self.config.average_checkpoints)
            )
        self.group.wait()

    def _resume(self) -> None:
        found = checkpoint.load(self.run, self.report.say)
        if found:
            tensors, state = found
            if missing := [name for name in models.tensors(self.model) if f"model.{name}" not in tensors]:
                raise RegardError(
                    f"{self.run}: the checkpoint has no tensor {missing[0]}, so another version of Regard wrote it; "
                    "choose another folder with run=..."
                )
            self.state = TrainingState(**state)
            self.batches.position = Position(self.state.epoch, self.state.batch)
            for name, own in models.tensors(self.model).items():
                self.group.put(tensors[f"model.{name}"], own)
            for name, own in self.ema.items():
                self.group.put(tensors[f"average.{name}"], own)
            for name, parameter in self.parameters.items():
                moments = {key: torch.zeros_like(parameter) for key in ("exp_avg", "exp_avg_sq")}
                for key, own in moments.items():
                    self.group.put(tensors[f"optimizer.{key}.{name}"], own)
                self.optimizer.state[parameter] = {"step": tensors[f"optimizer.step.{name}"], **moments}
            self._resume_random(tensors)
            self.report.say(f"resuming from step {self.state.step:,}")
        elif self.group.rank:
            torch.manual_seed(self.job.seed + self.group.rank)  # otherwise dropout would be the same in all processes
        if self.group.is_first:
            self.report.open(self.run / LOG, self.state.step, self.progress)
            if self.config.tensorboard:
                self.report.board = board_module().Board(self.run / "tensorboard", self.state.step)
            for counts in self.counts if not self.state.step else ():
                self.report.log(step=0, **counts)

    def _resume_random(self, tensors: dict[str, Tensor]) -> None:
        names = {kind: f"random.{kind}.{self.group.rank}" for kind in self.device.random_states()}
        if tensors.keys() >= set(names.values()) and f"random.cpu.{self.group.world}" not in tensors:
            self.device.set_random_states({kind: tensors[name] for kind, name in names.items()})
        else:
            # the number of processes has changed, and with it the split of batches: new, still deterministic seeds
            torch.manual_seed(self.job.seed + 1_000_003 * self.state.step + self.group.rank)

    # training

    @property
    def progress(self) -> float:
        """The fraction of the budget that is used up; of several budgets, the largest fraction."""
        return min(1.0, max(self._used.values()))

    @property
    def _used(self) -> dict[str, float]:
        """The used fraction of each budget."""
        return budget.shares(self.config, self.state, len(self.batches.plan(self.state.epoch)))

    @property
    def ended_by(self) -> str | None:
        """What ended training: a budget that is used up, or early stopping; None: it is not over."""
        return budget.ended_by(self.config, self.state, self._used)

    @property
    def is_over(self) -> bool:
        """Whether training has finished."""
        return self.ended_by is not None

    def train(self) -> Path:
        """Trains until the budget is used up or early stopping ends it; returns the folder of the best model."""
        try:
            if self.is_over:
                self.report.say(f"{self.run}: already finished at step {self.state.step:,}, ended by {self.ended_by}")
            elif self.group.is_first and (text := budget.first_to_end(self.config, self.steps_per_epoch)):
                self.report.say(text)
            self._clock = time.perf_counter()
            with self._interrupts.remembered():
                while not self.is_over:
                    self.advance()
                    if self.is_over or self.state.step % self.config.validate_every == 0:
                        self.validate()
                        self._tick()
                    if self.is_over or self._stopped_by or self.state.step % self.config.checkpoint_every == 0:
                        self.save()
                    if self._stopped_by and not self.is_over:
                        raise Interrupted(self._stopped_by, self.state.step)
            if self.group.is_first and self.throughput.steps:
                self._summarise()
        finally:
            self.report.close()
        weights = self._weights()
        if self.group.is_first:
            self._write_model(self.run / "last", weights, {})
            self._draw_curves()
        if self.config.average_checkpoints:
            self._average_checkpoints()
        self.group.wait()
        return self.run / "model"

    def _average_checkpoints(self) -> None:
        """Checkpoint averaging: saves the mean weights of the last checkpoints if they beat the best model so far."""
        best = self.state.best
        if self.group.is_first:
            weights = checkpoint.mean(self.run, self.config.average_checkpoints, "model.", self.report.say)
            values = self._validation_values(weights)
            selection_loss = self.task.selection_loss(values)
            outcome = "saved" if selection_loss < best else "not better than the best model"
            self.report.say(f"mean of the last checkpoints: {self.task.describe(values)}, {outcome}")
            if selection_loss < best:
                self._write_model(self.run / "model", weights, values)
                self.state.best = selection_loss
        (self.state.best,) = self.group.from_first([self.state.best])
        if self.state.best < best:
            self.save()  # so that a run that is extended later knows the best score

    def _draw_curves(self) -> None:
        try:
            from regard.explain import figures
        except ImportError:
            return
        figures.save(figures.learning_curves(self.run / LOG, self.task.curves), self.run / "curves.png")

    def advance(self) -> None:
        """Takes one training step and reports it."""
        start = time.perf_counter()
        progress = self.progress
        rate = learning_rate(self.config, self.state.step, progress)
        count = self.config.accumulate
        tally = self.throughput.step(lambda: self.step([next(self.batches) for _ in range(count)], rate))
        self._tick()
        self.state.step += 1
        self.state.epoch, self.state.batch = self.batches.position.epoch, self.batches.position.batch
        if not self.group.is_first:
            return
        self._recent.merge(tally)
        self._recent_seconds += self._clock - start
        values = self._recent.means()
        values["tokens_per_second"] = self._recent.counts["tokens"] / self._recent_seconds
        values["utilisation"] = self.throughput.utilisation(values["tokens_per_second"])
        rates = f"{values['tokens_per_second']:,.0f} tokens/s", f"{values['utilisation']:.0%} of peak FLOP/s"
        self.report.step(
            self.progress, f"loss {values['loss']:.3f}", f"step {self.state.step:,}", *self._validated, *rates
        )
        if self.state.step % LOG_EVERY == 0:
            self.report.log(**self._place, rate=rate, **values, peak_memory=peak(self.device.torch))
            self._recent, self._recent_seconds = Tally(), 0.0
        if self.throughput.steps == PREDICTED_AFTER:
            self._predict()

    def _predict(self) -> None:
        """Reports the predicted time of the whole run, estimated from its first steps."""
        predicted = self.forecast(self.config)
        self.state.predicted_steps, self.state.predicted_seconds = predicted.steps, predicted.seconds
        self.report.log(step=self.state.step, predicted_steps=predicted.steps, predicted_minutes=predicted.seconds / 60)
        self.report.say(str(predicted))

    @property
    def _place(self) -> dict[str, float]:
        """The progress of training, for a line of the log."""
        state = self.state
        epoch = state.epoch + state.batch / len(self.batches.plan(state.epoch))
        return {"step": state.step, "epoch": epoch, "minutes": state.seconds / 60}

    @property
    def steps_per_epoch(self) -> float:
        """The number of steps in the current epoch."""
        return len(self.batches.plan(self.state.epoch)) / self.config.accumulate

    def forecast(self, config: TrainConfig) -> Forecast:
        """The predicted steps and time of a whole run with these budgets, at the speed measured so far."""
        step = self.throughput.seconds("step")
        # validation has no backward pass, which takes two thirds of the time of a step
        estimate = step / config.accumulate / 3 * len(self.task.valid.plan(0))
        validation = self.throughput.seconds("validation") or estimate
        return forecast(config, self.steps_per_epoch, step, validation, self.throughput.seconds("checkpoint"))

    def _summarise(self) -> None:
        """Reports the time and memory the run took, and the error of the prediction."""
        state = self.state
        predicted = Forecast(state.predicted_steps, state.predicted_seconds) if state.predicted_steps else None
        values, text = summarise(predicted, state.step, state.seconds, peak(self.device.torch))
        self.report.log(step=state.step, **values, ended_by=self.ended_by)
        self.report.say(f"ended by {self.ended_by}")
        self.report.say(text)

    def _tick(self) -> None:
        """Adds the time since the last call, validation included, and checks for signals.

        All processes follow the clock of the first and the signals of any, so that they stop at the same step.
        """
        now = time.perf_counter()
        own = (now - self._clock) * self.group.is_first
        seconds, stopped_by = self.group.maxima([own, self._interrupts.number])
        self.state.seconds, self._clock = self.state.seconds + seconds, now
        self._stopped_by = int(stopped_by)

    def step(self, batches: Sequence[Batch], rate: float) -> Tally:
        """One optimizer step on several batches (gradient accumulation); returns their metrics."""
        tally = Tally()
        for batch in batches:
            tally.counts.update(self.task.units(batch))
        for whole in batches:
            batch = whole.share(self.group.rank, self.group.world)
            with self.device.autocast(), collect() as costs:
                parts = self.task.loss(self.model, batch.to(self.device.torch))
            loss = torch.stack([part.loss / max(1, tally.counts[unit]) for unit, part in parts.items()]).sum()
            for name, cost in costs.sums().items():
                # with fewer examples than processes, some get a placeholder, which has no loss and so no cost
                own = cost * (self.group.rank < len(whole))
                loss = loss + own / max(1, tally.counts["tokens"])
                tally.add({"tokens": SummedLoss(own, {name: own.detach()})})
            if not torch.isfinite(loss):
                self._stop_for_nan([batch], "loss")
            loss.backward()
            tally.add(parts)
        sums = torch.tensor(list(tally.sums.values()), dtype=torch.float64)
        gradients = [gradient(parameter) for parameter in self.parameters.values()]
        # sharded gradients were already summed in the backward pass
        self.group.sum_([sums] if self.config.shard else [sums, *gradients])
        tally.sums.update(zip(tally.sums, sums.tolist(), strict=True))
        norm = torch.nn.utils.get_total_norm(gradients)
        size = float(norm.full_tensor() if isinstance(norm, DTensor) else norm)
        if not math.isfinite(size):
            self._stop_for_nan(batches, "gradient")
        if size > self.config.clip_norm:
            torch.nn.utils.clip_grads_with_norm_(self.parameters.values(), self.config.clip_norm, norm)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.ema:
            # the decay of the EMA is lower in the first steps, so that the random initial weights are soon forgotten
            decay = min(self.config.ema, (1 + self.state.step) / (10 + self.state.step))
            update = get_ema_multi_avg_fn(decay)
            update(list(self.ema.values()), list(self.parameters.values()), None)
        return tally

    def _stop_for_nan(self, batches: Sequence[Batch], what: str) -> None:
        path = self.run / "bad-batch.safetensors"
        if what == "loss" or self.group.is_first:  # the gradient is the same in all processes
            tensors = {f"{name}.{i}": x for i, batch in enumerate(batches) for name, x in batch.tensors().items()}
            write_tensors(path, tensors)
        raise RegardError(
            f"the {what} of step {self.state.step:,} is not a finite number; the batch was saved in {path}. "
            f"Start a new run (run=...) with a lower train.learning_rate or a longer train.warmup"
        )

    def _weights(self) -> dict[str, Tensor]:
        """The weights to validate and save: the EMA, if there is one."""
        return self.group.whole({**models.tensors(self.model), **self.ema})

    def validate(self) -> None:
        """Evaluates the weights on the validation data and saves the best model so far."""
        weights = self._weights()
        if self.group.is_first:
            with self.throughput.timing("validation"):
                self._validate(weights)
        self.state.best, stale = self.group.from_first([self.state.best, self.state.stale])
        self.state.stale = int(stale)

    def _validate(self, weights: Mapping[str, Tensor]) -> None:
        values = self._validation_values(weights)
        selection_loss = self.task.selection_loss(values)
        if selection_loss < self.state.best:
            self.state.best, self.state.stale = selection_loss, 0
            self._write_model(self.run / "model", weights, values)
        else:
            self.state.stale += 1
        self.report.log(**self._place, **values)
        text = self.task.describe(values)
        self._validated = text.split("  ")
        self.report.say(
            f"step {self.state.step:,}  epoch {budget.current_epoch(self.config, self.state)}  {text}  "
            f"{self.progress:.0%}  {self.state.seconds / 60:.1f} min"
        )

    @torch.no_grad()
    def _validation_values(self, weights: Mapping[str, Tensor]) -> dict[str, float]:
        assert self.validation_model is not None
        models.load_tensors(self.validation_model, weights, "weights to validate")
        return self.task.validate(self.validation_model.eval())

    def _write_model(self, folder: Path, weights: Mapping[str, Tensor], values: Mapping[str, float]) -> None:
        results = [f"Trained with Regard for {self.state.step:,} steps.", ""]
        results += self.task.card(values) if values else []
        models.save(
            folder,
            task=self.task.name,
            config=self.task.config,
            weights=weights,
            codecs=self.task.codecs,
            card=card(self.run.absolute().name, results, self.job.recipe),
        )
