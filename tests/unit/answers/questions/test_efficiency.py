from tests.unit.answers.editing import Edit, cases, figure

PEAK = "efficiency_nearest/cuda"


def on_cuda(**cells: object) -> Edit:
    return Edit(table="efficiency", where={"device": "cuda"}, cells=cells)


CASES = [
    *cases(
        PEAK,
        yes=[on_cuda(**figure("share_of_peak", 0.7, 0.05))],
        no=[on_cuda(**figure("share_of_peak", 0.3, 0.05))],
        unresolved=[on_cuda(**figure("share_of_peak", 0.5, 0.05))],
        missing=[on_cuda(**figure("share_of_peak", float("nan")))],
    ),
]
