from tests.unit.findings.editing import Edit, cases, figure

PEAK = "efficiency_nearest/cuda"


def on_cuda(**cells: object) -> Edit:
    return Edit(table="efficiency", where={"device": "cuda"}, cells=cells)


EFFICIENCY_CASES = [
    *cases(
        PEAK,
        yes=[on_cuda(**figure("share_of_peak", 0.7, 0.05))],
        no=[on_cuda(**figure("share_of_peak", 0.3, 0.05))],
        unresolved=[on_cuda(**figure("share_of_peak", 0.5, 0.05))],
        missing=[on_cuda(**figure("share_of_peak", float("nan")))],
    ),
]


PINNED = "transfer_pinned/cuda_to_device"
KIB, GIB = 2**10, 2**30


def copies(memory: str, size: int, rate: float, spread: float = 0.1, share: float = 1.0) -> Edit:
    return Edit(
        table="transfers",
        where={"direction": "to device", "memory": memory, "bytes": size},
        cells={**figure("bandwidth_gb_per_s", rate, spread), "share_of_peak": share},
    )


def only(memory: str) -> Edit:
    return Edit(table="transfers", where={}, cells={"memory": memory})


TRANSFER_CASES = [
    *cases(
        PINNED,
        yes=[copies("pinned", GIB, 50.0), copies("pageable", GIB, 10.0)],
        no=[copies("pinned", GIB, 9.0), copies("pageable", GIB, 10.0)],
        unresolved=[copies("pinned", GIB, 10.0, 1.0), copies("pageable", GIB, 10.0)],
        missing=[only("pinned")],
    ),
]


CASES = [*EFFICIENCY_CASES, *TRANSFER_CASES]
