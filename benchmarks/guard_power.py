"""How often `gpu-report guard` finds a planted slowdown of known size, and how often it finds one
that is not there.

`python -m benchmarks.guard_power --device cuda --minutes 25 --results FILE` guards a small training
against itself with a slowdown planted on one side, by the guard's own order, looks and confirming
run: 0, 1, 2, 3, 5 or 10 % of the step (a kernel that spins on a GPU, a loop on the CPU) or of the
peak as memory. The length of the plant is timed by itself first. Guards without a plant are as many
as all others together, since false alarms must be rare. Each guard is a line of FILE, to which
several runs add up; `--minutes 0` prints the table alone.

`--record` measures single processes instead, in rounds that contain the plain training twice and
each plant once, in random order, and the table then has `--draws` guards. Each of their pairs is
drawn from one round, with replacement, so that drift of the machine affects both sides, as in a
live guard. That shows more of a machine in the same time, but guards drawn from the same processes
are not independent.

`--load N` keeps N processes busy beside it: then no verdict is the right answer.
"""

import argparse
import json
import math
import random
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from scipy.stats import binomtest

from benchmarks.spinning import time_spins
from gpu_report.guard.messages import Answer, Task
from gpu_report.guard.sequence import Guarded, Measure
from gpu_report.guard.versions import Version, measure_version
from gpu_report.storage.locks import machine_to_itself
from gpu_report.study.machine import find_machine
from gpu_report.tables.verdicts import IMPROVEMENTS, MEMORY, REGRESSIONS, TIME

SHARES: Final = (0.01, 0.02, 0.03, 0.05, 0.10)
PLANTS: Final = [(kind, share) for kind in ("step", "memory") for share in SHARES]
CALIBRATING: Final = 5
SIDES: Final = ("before", "after")
SET_UP: Final = ("machine", "device", "seconds", "load")
GROUPED_BY: Final = (*SET_UP, "tolerance", "kind", "share")
FEWEST: Final = 10
"""Rounds to draw from: fewer vary too little."""
SESSION: Final = (*SET_UP, "started")
NAME: Final = "benchmarks.guarded"
PLAIN: Final = ("step", 0.0)
"""The training without a plant."""


class Plant:
    """What side 1 has more than side 0, in microseconds or MiB, and how to measure both."""

    def __init__(self, kind: str, amount: int, options: argparse.Namespace) -> None:
        self.kind, self.amount, self._options = kind, amount, options

    def tasks(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields of each side's task."""
        planted = f"{'larger' if self.kind == 'memory' else 'slowed'}_by_{self.amount}_" + (
            "mib" if self.kind == "memory" else "us"
        )
        batch = "make_batch" if self._options.device == "cpu" else "make_large_batch"
        names = ("plain", planted if self.amount else "plain")
        return tuple(
            {
                "configuration": f"{NAME}:{name}",
                "training": {
                    "build": f"{NAME}:{name}",
                    "make_batch": f"{NAME}:{batch}",
                    "loss": f"{NAME}:loss",
                    "device": self._options.device,
                    "seconds": self._options.seconds,
                },
            }
            for name in names
        )  # type: ignore[return-value]

    def measure(self, side: int, _: str, index: int) -> Answer:
        """A process of one side, as a guard asks for it."""
        version = Version(name=SIDES[side], folder=Path.cwd(), words=SIDES[side])
        return measure_version(version, Task(**self.tasks()[side], index=index))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--minutes", type=float, default=25.0)
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing in each process")
    parser.add_argument("--tolerance", type=float, default=1.0, help="in percent")
    parser.add_argument(
        "--plants", nargs="+", type=_plant, default=PLANTS, metavar="step|memory:SHARE"
    )
    parser.add_argument("--only-plain", action="store_true", help="no plant at all")
    parser.add_argument(
        "--record", action="store_true", help="single processes, to draw guards from"
    )
    parser.add_argument(
        "--draws", type=int, default=1000, help="guards of each plant, from recorded processes"
    )
    parser.add_argument(
        "--load", type=int, default=0, help="processes that keep a core busy beside it"
    )
    parser.add_argument("--results", type=Path, default=Path("build/guard_power.jsonl"))
    options = parser.parse_args()
    if options.record and options.only_plain:
        parser.error("--record draws from the plants, too; leave out --only-plain")
    end_s = time.monotonic() + 60 * options.minutes
    if options.minutes > 0:
        options.results.parent.mkdir(parents=True, exist_ok=True)
        options.results.touch()  # the first step times may take all of --minutes
        with ExitStack() as stack:
            stack.enter_context(machine_to_itself())
            stack.enter_context(_busy(options.load))
            _measure(options, end_s)
    lines = [json.loads(line) for line in options.results.read_text("utf-8").splitlines()]
    _print_table([line for line in lines if "answer" not in line])
    _print_table(list(_drawn([line for line in lines if "answer" in line], options)))


def _plant(text: str) -> tuple[str, float]:
    """`step:0.03` -> its kind and its share."""
    kind, _, share = text.partition(":")
    if kind not in ("step", "memory"):
        raise argparse.ArgumentTypeError(
            f"{text}: expected step or memory with a share, such as step:0.03"
        )
    return kind, float(share)


def _measure(options: argparse.Namespace, end_s: float) -> None:
    generator = random.Random(time.time_ns())
    wholes = _calibrated(options)
    for kind, share in options.plants:
        if kind != "memory":
            wanted_us = share * wholes[kind]
            takes_us = time_spins(torch.device(options.device), wanted_us)
            print(
                f"plant {kind}:{share:g} is to take {wanted_us:.0f} us, and takes {takes_us:.0f} us"
            )
    if options.record:
        _record(wholes, options, end_s)
    while time.monotonic() < end_s:
        kind, share = generator.choice(options.plants)
        if options.only_plain or generator.random() < 0.5:
            kind, share = PLAIN
        started_s = time.monotonic()
        plant = Plant(kind, round(share * wholes[kind]), options)
        found = _guarded(
            {**_set_up(options), "kind": kind, "share": share},
            plant.amount,
            plant.measure,
            options,
        )
        if found is None:
            continue
        line = {**found, "took_s": round(time.monotonic() - started_s, 1)}
        with options.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(
            f"{kind} {share:.0%}: {line['verdict']}, {line['change']:+.2%}, {line['pairs']} pairs, "
            f"{line['took_s']:.0f} s  {line['why']}",
            flush=True,
        )


def _guarded(
    of: dict[str, Any], amount: int, measure: Measure, options: argparse.Namespace
) -> dict[str, Any] | None:
    """What a guard says of these processes; None where one of them failed."""
    guarded = Guarded(
        ["guarded"], measure, tolerance=options.tolerance / 100, on_pair=lambda *_: None
    )
    rows = guarded.run()
    compared = MEMORY if of["kind"] == "memory" else TIME
    row = next((row for row in rows if row["compared"] == compared), None)
    if row is None:
        print(f"{of['kind']} {of['share']:.0%}: {rows[0]['why']}", flush=True)
        return None
    return {
        **of,
        "tolerance": options.tolerance,
        "planted": amount / (row["before"] if of["kind"] == "memory" else 1e3 * row["before"]),
        "verdict": row["verdict"],
        "why": row["why"],
        "alarms": sorted(
            {each["verdict"] for each in rows if each["verdict"] in REGRESSIONS | IMPROVEMENTS}
        ),
        "change": row["change"],
        "detectable": row["detectable"],
        "pairs": len(guarded.pairs["guarded"]),
    }


def _set_up(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "machine": find_machine().id,
        "device": options.device,
        "seconds": options.seconds,
        "load": options.load,
    }


def _record(wholes: dict[str, float], options: argparse.Namespace, end_s: float) -> None:
    """A round contains the plain training twice, as guards of it alone need both sides, and each
    plant once.
    """
    generator, started, index = random.Random(time.time_ns()), round(time.time()), 0
    arms, left = [PLAIN, PLAIN, *options.plants], list[tuple[str, float]]()
    while time.monotonic() < end_s:
        left = left or generator.sample(arms, len(arms))
        kind, share = left.pop()
        plant = Plant(kind, round(share * wholes[kind]), options)
        answer = plant.measure(1, "", index)
        line = {**_set_up(options), "started": started, "round": index // len(arms)}
        line |= {"kind": kind, "share": share, "planted": plant.amount}
        with options.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "answer": msgspec.to_builtins(answer)}) + "\n")
        print(
            f"{kind} {share:.0%}: {_only(answer.step_times_ms)} ms, "
            f"{_only(answer.memory_mib)} MiB  "
            f"{answer.reason}",
            flush=True,
        )
        index += 1


def _drawn(lines: list[dict[str, Any]], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Lines of guards whose pairs are drawn from the rounds of recorded processes."""
    sessions: dict[tuple[Any, ...], dict[int, dict[tuple[str, float], list[dict[str, Any]]]]] = {}
    for line in lines:
        rounds = sessions.setdefault(tuple(line[name] for name in SESSION), {})
        rounds.setdefault(line["round"], {}).setdefault((line["kind"], line["share"]), []).append(
            line
        )
    generator = random.Random(0)
    for rounds in sessions.values():
        for arm in sorted({arm for each in rounds.values() for arm in each}):
            whole = [
                each
                for each in rounds.values()
                if arm in each and len(each.get(PLAIN, [])) == len(SIDES)
            ]
            if len(whole) < FEWEST:
                print(f"{arm[0]} {arm[1]:.0%}: {len(whole)} rounds, too few to draw from")
                continue
            for _ in range(options.draws):
                found = _guarded(
                    whole[0][arm][0],
                    whole[0][arm][0]["planted"],
                    _drawn_pairs(whole, arm, generator),
                    options,
                )
                if found is not None:
                    yield found


def _drawn_pairs(
    rounds: list[dict[tuple[str, float], list[dict[str, Any]]]],
    arm: tuple[str, float],
    generator: random.Random,
) -> Measure:
    pairs: dict[int, list[dict[str, Any]]] = {}

    def measure(side: int, _: str, index: int) -> Answer:
        if index not in pairs:
            drawn = generator.choice(rounds)
            before, other = generator.sample(drawn[PLAIN], len(SIDES))
            pairs[index] = [before, other if arm == PLAIN else drawn[arm][0]]
        return msgspec.convert(pairs[index][side]["answer"], Answer)

    return measure


def _only(values: Mapping[Any, float]) -> float:
    """The number of one process, 0 where it failed."""
    return sum(values.values())


def _calibrated(options: argparse.Namespace) -> dict[str, float]:
    """What a plant's share refers to: the median time of a step without one in microseconds, or the
    peak in MiB.
    """
    plain = Plant(PLAIN[0], 0, options)
    answers = [plain.measure(0, "", index) for index in range(CALIBRATING)]
    failed = [answer.reason for answer in answers if answer.status != "ok"]
    if failed:
        raise SystemExit(failed[0])
    times_ms = [_only(answer.step_times_ms) for answer in answers]
    print(
        f"without a plant: {', '.join(f'{each:.2f}' for each in times_ms)} ms a step, "
        f"{_only(answers[0].memory_mib)} MiB"
    )
    return {
        "step": 1e3 * statistics.median(times_ms),
        "memory": statistics.median(_only(answer.memory_mib) for answer in answers),
    }


@contextmanager
def _busy(processes: int) -> Iterator[None]:
    started = [
        get_context("spawn").Process(target=_spin_for_ever, daemon=True) for _ in range(processes)
    ]
    for each in started:
        each.start()
    try:
        yield
    finally:
        for each in started:
            each.kill()


def _spin_for_ever() -> None:
    while True:
        pass


def _print_table(lines: list[dict[str, Any]]) -> None:
    """Of each kind and size of plant: how many guards said what, with the Clopper-Pearson
    interval.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for each in lines:
        groups.setdefault(tuple(each[name] for name in GROUPED_BY), []).append(each)
    print("-" * shutil.get_terminal_size().columns)
    for key, of_it in sorted(groups.items()):
        machine, device, seconds, load, tolerance, kind, share = key
        if share:
            found = sum(each["verdict"] in REGRESSIONS for each in of_it)
        else:
            found = sum(bool(each["alarms"]) for each in of_it)
        is_drawn = "took_s" not in of_it[0]  # and not independent of each other
        ends = binomtest(found, len(of_it)).proportion_ci(method="exact")
        undecided = sum(each["verdict"] == "no verdict" for each in of_it)
        measured = statistics.median(each["change"] for each in of_it)
        known = [each["detectable"] for each in of_it if not math.isnan(each["detectable"])]
        detectable = f"{statistics.median(known):.1%}" if known else "unknown"
        print(
            f"{machine} {device}, {seconds:g} s a process, load {load}, tolerance {tolerance:g} "
            f"%, {kind} {share:.0%}: found {found} of "
            f"{len(of_it)}{'' if is_drawn else f' ({ends.low:.1%} to {ends.high:.1%})'}, no "
            f"verdict {undecided}, measured {measured:+.2%}, detectable {detectable}, "
            f"{statistics.median(each['pairs'] for each in of_it):.0f} pairs"
            + (
                ", drawn"
                if is_drawn
                else f", {statistics.median(each['took_s'] for each in of_it):.0f} s"
            )
        )


if __name__ == "__main__":
    main()
