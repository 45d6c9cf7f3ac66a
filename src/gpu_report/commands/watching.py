"""The command that shows what a training script and the machine do: `gpu-report watch`.

script -> its counts of steps, in a file -> with NVML and psutil one view about once a second, on
standard error

Nothing here needs PyTorch. On a terminal the view takes the last two lines and the script scrolls
above them, as apt does it; else it is one plain line per interval. The script writes to the
terminal itself, so that its progress bars and debugger work; rich.live.Live would overwrite its
lines.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

import psutil

from gpu_report.errors import ProfileError
from gpu_report.measure.telemetry import Device, nvidia_devices
from gpu_report.printing.number_format import duration, memory, percent, quantity, share, throughput
from gpu_report.user_training.step_counts import (
    COUNTS_FILE,
    LINE_TO_ADD,
    StepCounts,
    rates,
    read_counts,
)

_SAMPLE_S: Final = 1.0
_LINES: Final = 2
_FEWEST_ROWS: Final = 6
"""A terminal with fewer gets plain lines."""
_MIB: Final = 2**20
_SIGNAL_STATUS: Final = 128
"""The status of a process that a signal ended is this plus the signal's number, as a shell
has it.
"""
_FORWARDED: Final = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_FROM_KEYBOARD: Final = ("SIGINT", "SIGQUIT")
"""The terminal sends these to the script itself, too."""
_HALF: Final = 0.5
_OF_GPU: Final = {
    "utilisation_percent": "utilization",
    "memory_used_mib": "memory",
    "power_w": "power",
}


def watch(arguments: Namespace) -> None:
    """Run the script, watch it until it ends, and exit with its status.

    Raises:
        ProfileError: there is no such command, none was given, or the interval is not positive.
        SystemExit: when the script has ended.
    """
    command = arguments.script[1:] if arguments.script[:1] == ["--"] else arguments.script
    if not arguments.interval > 0:
        raise ProfileError(
            f"--interval: it is {arguments.interval:g}; expected a positive number of seconds"
        )
    if not command:
        raise ProfileError(
            "watch: no command was given; expected gpu-report watch -- python train.py ARGS"
        )
    with tempfile.TemporaryDirectory(prefix="gpu-report-") as folder, nvidia_devices() as devices:
        counts_file = Path(folder, "steps.json")
        counts_file.touch()
        try:
            process = subprocess.Popen(command, env={**os.environ, COUNTS_FILE: str(counts_file)})
        except OSError as error:
            raise ProfileError(
                f"watch: cannot run {command[0]!r}: {error.strerror}; expected a command, for "
                "instance python train.py"
            ) from error
        with process, _signals_passed_on(process), _view(arguments.interval, devices) as view:
            watched = _Watched(process.pid, counts_file, devices)
            while (status := _ended_within(process, _SAMPLE_S)) is None:
                view.show(watched.sample())
        for line in watched.ending():
            _write(f"{line}\n")
    sys.exit(status if status >= 0 else _SIGNAL_STATUS - status)


def _ended_within(process: "subprocess.Popen[bytes]", seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


@contextmanager
def _signals_passed_on(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """The script decides what a signal ends; this process ends with the script."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    def pass_on_unless_typed(number: int, frame: FrameType | None) -> None:
        if not _is_in_foreground():
            pass_on(number, frame)

    handlers = dict.fromkeys(_FORWARDED, pass_on) | dict.fromkeys(
        _FROM_KEYBOARD, pass_on_unless_typed
    )
    # What is ignored stays ignored, as nohup wants it.
    before = {
        each: signal.signal(each, handlers[each.name])
        for each in map(signal.Signals.__getitem__, handlers)
        if signal.getsignal(each) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _is_in_foreground() -> bool:
    with suppress(OSError), Path("/dev/tty").open("rb") as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False


class _Watched:
    """Samples of the script, with the processes that it started: what they mean since the last
    one.
    """

    def __init__(self, pid: int, counts_file: Path, devices: Mapping[str, Device]) -> None:
        self._pid, self._counts_file, self._devices = pid, counts_file, devices
        self._counts: StepCounts | None = None
        self._rates: dict[str, float] = {}
        """The last that were seen, since a step may take longer than a sample."""
        self._processes: dict[int, psutil.Process] = {}
        self._began_s = time.monotonic()
        self._samples: list[dict[str, float]] = []
        self._of_script()  # psutil's first share of a process is always 0

    def sample(self) -> "dict[str, float]":
        """By name; a value that is not known is left out."""
        found = {**self._of_steps(), **self._of_script(), **self._of_gpu()}
        self._samples.append(found)
        return found

    def ending(self) -> list[str]:
        """What the machine did on average, and what to add where the script has made no step."""
        passed = duration(time.monotonic() - self._began_s).plain()
        lines = []
        if self._samples:
            lines.append(
                f"gpu-report: watched for {passed}; on average {_of_machine(_means(self._samples))}"
            )
        if read_counts(self._counts_file) is None:
            lines.append(
                "gpu-report: insufficient data: no step was seen; to see what limits the script, "
                f"import gpu_report and put `{LINE_TO_ADD}` around its training step"
            )
        return lines

    def _of_steps(self) -> dict[str, float]:
        counts = read_counts(self._counts_file)
        if counts is None:
            return {}
        self._rates = rates(self._counts or counts, counts) or self._rates
        self._counts = counts
        return {"steps": counts.steps, "on_accelerator": counts.on_accelerator, **self._rates}

    def _of_script(self) -> dict[str, float]:
        alive: dict[int, psutil.Process] = {}
        with suppress(psutil.Error):
            script = psutil.Process(self._pid)
            alive = {each.pid: each for each in (script, *script.children(recursive=True))}
        self._processes = {pid: self._processes.get(pid, each) for pid, each in alive.items()}
        cpu_percent = resident_mib = 0.0
        for each in self._processes.values():
            with suppress(psutil.Error):
                cpu_percent += each.cpu_percent()
                resident_mib += each.memory_info().rss / _MIB
        return {"cpu_percent": cpu_percent, "resident_mib": resident_mib}

    def _of_gpu(self) -> dict[str, float]:
        """Of the script's GPU, or of the one with most memory in use where the script does
        not say.
        """
        uuid = self._counts.device_uuid if self._counts is not None else ""
        chosen = [self._devices[uuid]] if uuid in self._devices else [*self._devices.values()]
        readings = [dict(device.read().values) for device in chosen]
        return max(readings, key=lambda values: values.get("memory_used_mib", 0.0), default={})


def _means(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for each in samples for name in each)
    return {
        name: statistics.fmean(each[name] for each in samples if name in each) for name in names
    }


def _of_loop(found: Mapping[str, float]) -> str:
    if "step_time_ms" not in found:
        return "no step seen" if "steps" not in found else "first steps"
    limit = _limit(found)
    parts = [f"limit {limit}"] if limit else []
    parts.append(f"{duration(found['step_time_ms'] / 1e3).plain()} a step")
    if "throughput_per_s" in found:
        parts.append(throughput(found["throughput_per_s"]).plain())
    wait = "host between steps" if found["on_accelerator"] else "data wait"
    return ", ".join([*parts, f"{wait} {share(found['data_wait_share']).plain()}"])


def _limit(found: Mapping[str, float]) -> str:
    """What the counters show of it, empty if nothing; only the card at the end knows the parts of a
    step.
    """
    if not found["on_accelerator"]:
        return "waiting for data" if found["data_wait_share"] > _HALF else "inside the step"
    busy = found.get("utilisation_percent")
    if busy is None:
        return ""
    return "kernels" if busy > 100 * _HALF else "data, launches or Python (low GPU utilization)"


def _of_machine(found: Mapping[str, float]) -> str:
    gpu = [
        percent(found["utilisation_percent"]).plain() if "utilisation_percent" in found else "",
        memory(found["memory_used_mib"]).plain() if "memory_used_mib" in found else "",
        quantity(found["power_w"], "W").plain() if "power_w" in found else "",
    ]
    parts = [f"GPU {', '.join(filter(None, gpu))}"] if any(gpu) else []
    if "cpu_percent" in found:
        parts.append(
            f"CPU {found['cpu_percent']:.0f} %, {memory(found['resident_mib']).plain()} resident"
        )
    return "; ".join(parts) or "nothing was measured"


@contextmanager
def _view(interval_s: float, devices: Mapping[str, Device]) -> "Iterator[_PlainLines | _LastLines]":
    found = {name for device in devices.values() for name in device.read().values}
    if missing := [words for name, words in _OF_GPU.items() if name not in found]:
        why = "a MIG slice does not report them" if devices else "no NVIDIA GPU or driver was found"
        _write(f"gpu-report: not measured: GPU {', '.join(missing)}; {why}\n")
    is_dumb = not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb"
    if is_dumb or _terminal_size().lines < _FEWEST_ROWS:
        yield _PlainLines(interval_s)
        return
    view = _LastLines()

    def stop(_number: int, _frame: FrameType | None) -> None:
        view.give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)  # which returns when SIGCONT has come
        signal.signal(signal.SIGTSTP, stop)
        view.reserve()

    before = signal.getsignal(signal.SIGTSTP)
    if before != signal.SIG_IGN:
        signal.signal(signal.SIGTSTP, stop)
    try:
        yield view
    finally:
        signal.signal(signal.SIGTSTP, before)
        view.give_back()


def _terminal_size() -> os.terminal_size:
    return os.get_terminal_size(sys.stderr.fileno())  # standard output may be a file


def _write(text: str) -> None:
    """To standard error at once, so that nothing of the script comes between; if it is broken, the
    script goes on.
    """
    with suppress(OSError):
        os.write(sys.stderr.fileno(), text.encode())


class _PlainLines:
    """One line per interval with the means of its samples."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._due_s = time.monotonic() + interval_s
        self._samples: list[dict[str, float]] = []

    def show(self, found: dict[str, float]) -> None:
        self._samples.append(found)
        if time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + self._interval_s
        means = _means(self._samples)
        self._samples.clear()
        _write(f"gpu-report: {_of_loop(means)}; {_of_machine(means)}\n")


class _LastLines:
    """The terminal's last lines; what the script prints scrolls above them, and its cursor stays
    where it was.
    """

    def __init__(self) -> None:
        self.reserve()
        self._draw("waiting for the first step")

    def show(self, found: dict[str, float]) -> None:
        with suppress(OSError):  # the terminal is gone
            if _terminal_size() != self._size:
                self._scroll_above()
        self._draw(_of_loop(found), _of_machine(found))

    def reserve(self) -> None:
        """Scroll until the last lines are empty, and keep them."""
        _write("\n" * _LINES + f"\x1b[{_LINES}A")
        self._scroll_above()

    def give_back(self) -> None:
        rows = self._size.lines
        erased = "".join(f"\x1b[{rows - line};1H\x1b[2K" for line in range(_LINES))
        _write(f"\x1b7{erased}\x1b[r\x1b8")

    def _scroll_above(self) -> None:
        self._size = _terminal_size()
        _write(f"\x1b7\x1b[1;{self._size.lines - _LINES}r\x1b8")

    def _draw(self, *lines: str) -> None:
        from rich.cells import set_cell_size

        first = self._size.lines - _LINES + 1
        drawn = "".join(
            f"\x1b[{first + number};1H\x1b[2K\x1b[7m"
            f"{set_cell_size(f' {line}', self._size.columns)}\x1b[0m"
            for number, line in enumerate(lines)
        )
        _write(f"\x1b7{drawn}\x1b8")
