from gpu_report.tables.bundle import Tables
from tests.unit.answers.editing import Edit, base, cases, edited, figure


def speedups(lstm: float, p: float = 0.001) -> list[Edit]:
    """Ours of two comparisons that the sources make; the second holds in any case."""
    return [
        Edit(
            table="sources",
            where={"measured": measured},
            cells={**figure("ours", value, 0.1), "ours_p": p_of_it},
        )
        for measured, value, p_of_it in (
            ("LSTM: speedup of the GPU", lstm, p),
            ("ResNet-50: fp16 over fp32", 2.4, 0.001),
        )
    ]


def base_with_sources() -> Tables:
    tables = base()[0]
    for edit in speedups(9.0):
        tables = edited(tables, edit)
    return tables


CASES = [
    *cases(
        "sources_faster_too",
        yes=speedups(9.0),
        no=speedups(0.5),
        unresolved=speedups(1.05),
    ),
    *cases("sources_faster_too", unresolved=speedups(9.0, p=0.06)),
]
