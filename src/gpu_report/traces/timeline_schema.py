"""What the picture of one step holds, as a table of a trace: every column with its unit and definition."""

from typing import Final

from gpu_report.columns import Table, number, text, whole

TIMELINE: Final = Table(
    name="timeline",
    meaning=(
        "One row per lane and stretch of one profiled step, that of median wall time. Each lane's time is cut into at "
        "most 300 bins; a bin is of the category that took most of it, and empty if nothing went on in it; bins side "
        "by side of one category, whose busy shares lie in the same quarter, are one stretch."
    ),
    columns=(
        whole("step", "1", "Number of the step in the profiler's schedule."),
        number("wall_ms", "ms", "From the begin to the end of the step on the host."),
        text(
            "lane",
            "phases; host 1, host 2 and host 3, the threads with most time in calls; the busiest streams of the "
            "accelerator by their numbers, such as stream 7: four, or three and other streams together.",
        ),
        text("device", "cpu for phases and threads, or the accelerator's backend as in the trace."),
        number("begin_ms", "ms", "Since the begin of the step."),
        number("end_ms", "ms", "Since the begin of the step."),
        text(
            "category",
            "In the lane phases: data, forward, loss, backward, optimizer, or other. Else one of "
            "gpu_report.traces.categories.CATEGORIES: of the innermost call on a thread, of the work on a stream.",
        ),
        number("busy_share", "1", "Share of the stretch in which anything went on in the lane, whatever its category."),
    ),
)
