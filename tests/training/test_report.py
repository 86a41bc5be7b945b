import io
from pathlib import Path

import pytest
from rich.console import Console

from regard.training.report import Report

BEFORE = "loss 12.899", "step 1,092"
SCORES = "valid loss 12.496", "BLEU 10.5"
RATES = "128,254 tokens/s", "118% of peak FLOP/s"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def live_line(folder: Path, width: int, progress: float, *parts: str, run: str = "") -> str:
    """The progress line in a terminal, without its control codes."""
    console = Console(file=Terminal(), width=width, height=25, force_terminal=True, color_system=None)
    report = Report(console)
    report.run = run
    report.open(folder / "log.jsonl", 0)
    report.step(progress, *parts)
    report.close()
    drawn = Console(file=io.StringIO(), width=width, color_system=None)
    drawn.print(report._progress.get_renderable())
    (line,) = drawn.file.getvalue().splitlines()
    return line.strip()


@pytest.mark.parametrize("width", [60, 80, 100, 120])
@pytest.mark.parametrize("scores", [(), SCORES])
def test_the_progress_line_shows_percent_time_left_and_loss_at_any_width(
    tmp_path: Path, width: int, scores: tuple[str, ...]
) -> None:
    line = live_line(tmp_path, width, 0.27, *BEFORE, *scores, *RATES)
    assert len(line) <= width
    assert " 27 % -:--:-- left loss 12.899" in f" {line}"
    assert "…" not in line
    shown = [part for part in (*BEFORE, *scores, *RATES) if part in line]
    assert shown == [*BEFORE, *scores, *RATES][: len(shown)]  # the least important parts are left out
    assert "step 1,092" in shown
    assert width < 80 or shown[-1] == "BLEU 10.5" or not scores or width >= 120


def test_a_wide_terminal_shows_everything_and_a_bar(tmp_path: Path) -> None:
    line = live_line(tmp_path, 140, 0.5, *BEFORE, *SCORES, *RATES)
    assert all(part in line for part in (*BEFORE, *SCORES, *RATES))
    assert "━" in line


def test_the_time_left_of_a_resumed_run_does_not_count_earlier_steps(tmp_path: Path) -> None:
    console = Console(file=Terminal(), width=80, force_terminal=True)
    report, now = Report(console), [0.0]
    report._progress.get_time = lambda: now[0]
    report.open(tmp_path / "log.jsonl", 0, progress=0.5)
    for second, progress in ((1, 0.51), (2, 0.52), (3, 0.53)):
        now[0] = second
        report.step(progress, "loss 1.000")
    report.close()
    assert report._progress.tasks[0].time_remaining == 47


def test_lines_in_a_file_are_whole_and_have_no_control_codes(tmp_path: Path) -> None:
    file = io.StringIO()
    report = Report(Console(file=file, width=40))
    report.open(tmp_path / "log.jsonl", 0)
    text = "step 500  epoch 3  valid loss [1.234]  BLEU 12.3  40%  0.3 min  " + "x" * 40
    report.step(0.5, "loss 1.000")
    report.say(text)
    report.run = "cola-1"
    report.say("took 0.3 min")
    report.close()
    assert file.getvalue() == f"{text}\ncola-1: took 0.3 min\n"
