"""What the notebooks work with: a machine's results out of a bundle, and rows with numbers as the
report prints them.
"""

from collections.abc import Sequence

import pandas as pd

from gpu_report.commands.published import read_bundle as read_bundle
from gpu_report.figures import labels
from gpu_report.glossary import Metric
from gpu_report.tables.bundle import rows_of
from gpu_report.writing.table import metric


def readable(table: pd.DataFrame, columns: Sequence[str | Metric]) -> pd.DataFrame:
    """Rows of `variants`, or of an experiment, by their names in the report, with numbers as the
    report prints them.

    Args:
        table: The rows to show; at least one.
        columns: Keys or columns of the glossary's metrics, such as `step_time`; of any other column
            of numbers what `gpu_report.writing.table.metric` makes of it.

    Raises:
        ReportError: the glossary has no such metric.
    """
    rows = rows_of(table)
    named = labels.full_names(labels.with_labels(labels.with_titles(table, table)))
    metrics = [column if isinstance(column, Metric) else metric(column) for column in columns]
    shown = {
        column.header: [
            each.plain() if each.is_measured else "–" for each in column.quantities(rows)
        ]
        for column in metrics
    }
    return pd.DataFrame(shown, index=pd.Index(named, name="configuration"))
