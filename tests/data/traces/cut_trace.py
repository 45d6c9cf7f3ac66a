"""Cuts a small fixture out of a real trace: `python cut_trace.py SOURCE TARGET --step 5 --every 1`.

Kept, with all their arguments: one profiled step, the operations, annotations and allocator's
events that begin in it, the Python functions that run in it, of its launches every n-th with the
device work of the same correlation id, the driver calls that launch nothing likewise. Left out:
flow arrows, and the name of the folder the trace came from.
"""

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

DRIVER = {"cuda_runtime", "cuda_driver"}
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--step", type=int, required=True)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    trace = json.loads(gzip.decompress(options.source.read_bytes()))
    small = {
        key: value
        for key, value in trace.items()
        if key not in {"traceEvents", "traceName", "host_name"}
    }
    small["traceEvents"] = cut(trace["traceEvents"], step=options.step, every=options.every)
    text = json.dumps(small, separators=(",", ":"))
    options.target.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def cut(events: list[dict[str, Any]], *, step: int, every: int) -> list[dict[str, Any]]:
    spans = [event for event in events if event.get("ph") == "X"]
    window = next(
        event
        for event in spans
        if event["name"] == f"ProfilerStep#{step}" and event["cat"] == "user_annotation"
    )
    begin, end = window["ts"], window["ts"] + window["dur"]
    inside = [event for event in spans if begin <= event["ts"] < end]
    driver = [event for event in inside if event["cat"] in DRIVER][::every]
    launched = {event["args"]["correlation"] for event in driver}
    device = [
        event
        for event in spans
        if event["cat"] in DEVICE and event["args"]["correlation"] in launched
    ]
    host = [event for event in inside if event["cat"] in {"cpu_op", "user_annotation"}]
    functions = [
        event
        for event in spans
        if event["cat"] == "python_function"
        and event["ts"] < end
        and event["ts"] + event["dur"] > begin
    ]
    memory = [
        event for event in events if event.get("name") == "[memory]" and begin <= event["ts"] < end
    ]
    return [*host, *functions, *memory, *driver, *device]


if __name__ == "__main__":
    main()
