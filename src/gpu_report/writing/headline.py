"""The three lines that say what came out, for the terminal."""

from collections.abc import Sequence
from typing import get_args

from gpu_report.findings.finding import Finding, Verdict
from gpu_report.findings.phrases import execution_in_words
from gpu_report.findings.scope import has_whole_twin
from gpu_report.glossary import METRICS, SHOWN, Row, device_words
from gpu_report.study.options import is_bound
from gpu_report.tables.bundle import Tables, best_of_each, rows_of
from gpu_report.writing.words import model_words, titled


def headline(
    tables: Tables, findings: Sequence[Finding], decided: Sequence[Row]
) -> tuple[str, str, str]:
    """What was measured, how much a GPU gains, and what follows; plain text without line ends.

    Args:
        tables: Of one machine.
        findings: Those of the machine.
        decided: The rows of its decision table, see `decisions`.
    """
    variants = rows_of(tables.variants)
    measured = [row for row in variants if row["status"] == "ok"]
    lost = sum(row["status"] == "oom" for row in variants)
    devices = list(dict.fromkeys(device_words(row["device"]) for row in measured))
    dates = [str(row["measured_at"])[:10] for row in measured]
    when = f", newest on {max(dates)}" if dates else ""
    where = f" on {' and '.join(devices)}" if devices else ""
    without = f" ({lost} ran out of memory)" if lost else ""
    counts = {
        verdict: sum(finding.verdict == verdict for finding in findings)
        for verdict in get_args(Verdict)
    }
    verdicts = (
        ", ".join(f"{number} {verdict}" for verdict, number in counts.items() if number) or "none"
    )
    advice = f" First advice: {' '.join(decided[0]['action'].split())}." if decided else ""
    return (
        f"Measured {len(measured)} of {len(variants)} configurations{where}{without}{when}.",
        _gain(tables, variants),
        f"Findings: {verdicts}.{advice}",
    )


def _gain(tables: Tables, variants: Sequence[Row]) -> str:
    found = (_gains_over_the_cpu(rows) for rows in tables.rows_of_experiments.values())
    by_device = next((rows for rows in found if rows), [])
    if by_device:
        gains = [
            f"{model_words(row)} {SHOWN['speedup'].quantity(row).plain()} on "
            f"{device_words(row['device'])}"
            for row in by_device
            if not has_whole_twin(row, by_device)
        ]
        return f"Speedup over the CPU: {'; '.join(dict.fromkeys(gains))}." + _over_one_gpu(
            tables, variants
        )
    trainings = [row for row in variants if row["status"] == "ok" and not is_bound(row["options"])]
    fastest = [
        f"{titled(row)} {SHOWN['throughput'].quantity(row).plain(interval=False)}"
        + (f" on {row['devices']} devices" if row["devices"] > 1 else "")
        + f" ({row['precision']})"
        for row in best_of_each(trainings, "throughput_per_s", "workload")
    ]
    on_cpu = all(row["device"] == "cpu" for row in variants if row["status"] == "ok")
    scope = "No GPU was measured; on the CPU: " if on_cpu else "Throughput: "
    return scope + ("; ".join(fastest) or "nothing") + "." + _over_one_gpu(tables, variants)


def _over_one_gpu(tables: Tables, variants: Sequence[Row]) -> str:
    """The weak scaling of each model on several GPUs, as a further sentence; empty without any.

    Of each model the fastest that was measured in turn with one process.
    """
    known = {row["variant"]: row for row in variants if not is_bound(row["options"])}
    scaled = [
        row
        for row in rows_of(tables.scaling_efficiency)
        if row["is_weak"] and row["variant"] in known
    ]
    weak = [{**known[row["variant"]], **row} for row in scaled]
    shared = [
        row
        for row in weak
        if row["device"] != "cpu" and row["devices"] > 1 and row["base_speedup"] > 0
    ]
    fastest = [
        f"{model_words(row)} {METRICS['base_speedup'].quantity(row).plain()} on {row['devices']} "
        f"GPUs ({execution_in_words(row)}, "
        f"{SHOWN['throughput'].quantity(row).plain(interval=False)})"
        for row in best_of_each(shared, "throughput_per_s", "workload", "size")
    ]
    return f" Speedup over one GPU in weak scaling: {'; '.join(fastest)}." if fastest else ""


def _gains_over_the_cpu(rows: Sequence[Row]) -> list[Row]:
    gains = [
        row
        for row in rows
        if row["device"] != "cpu" and not row["is_baseline"] and SHOWN["speedup"].is_in([row])
    ]
    return [row for row in gains if _compares_devices(row, rows)]


def _compares_devices(row: Row, rows: Sequence[Row]) -> bool:
    """Whether the row's baseline is the CPU."""
    baselines = [other for other in rows if other["group"] == row["group"] and other["is_baseline"]]
    return bool(baselines) and all(other["device"] == "cpu" for other in baselines)
