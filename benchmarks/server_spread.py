"""Whether processes that one server forked are more alike than processes of different servers.

`python -m benchmarks.server_spread --device cuda` starts several servers one after the other and
measures a small training in as many fresh processes of each. Forks share the places of their
server's memory and its seed of hashes. Where the means of the servers differ by more than their
processes explain (F test of a one-way analysis of variance), the interval over processes of one
server is too narrow for a comparison with processes of another.
"""

import argparse
import math
import statistics

from scipy.stats import f_oneway

from gpu_report.measure.run import Stopped
from gpu_report.storage.locks import machine_to_itself
from gpu_report.user_training.process import OwnTraining, own_server, train_in_fresh_process

NAME = "benchmarks.guarded"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--servers", type=int, default=8)
    parser.add_argument("--processes", type=int, default=5, help="of each server")
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing in each process")
    options = parser.parse_args()
    times_ms: list[list[float]] = []
    with machine_to_itself():
        for server in range(options.servers):
            with own_server():
                times_ms.append([_step_ms(options, seed) for seed in range(options.processes)])
            print(
                f"server {server + 1}: {', '.join(f'{time_ms:.3f}' for time_ms in times_ms[-1])} "
                "ms",
                flush=True,
            )
    logs = [[math.log(time_ms) for time_ms in each] for each in times_ms]
    within = math.sqrt(statistics.fmean(statistics.variance(each) for each in logs))
    of_means = statistics.stdev(statistics.fmean(each) for each in logs)
    expected = within / math.sqrt(options.processes)
    print(
        f"processes of a server: {within:.2%} (standard deviation); means of servers: "
        f"{of_means:.2%}, of which processes explain {expected:.2%}; p "
        f"{f_oneway(*logs).pvalue:.3g}"
    )


def _step_ms(options: argparse.Namespace, seed: int) -> float:
    found = train_in_fresh_process(
        OwnTraining(
            build=f"{NAME}:plain",
            make_batch=f"{NAME}:make_batch",
            loss=f"{NAME}:loss",
            device=options.device,
            seconds=options.seconds,
            seed=seed,
        )
    )
    if isinstance(found, Stopped):
        raise SystemExit(found.reason)
    return found.measured.step_ms


if __name__ == "__main__":
    main()
