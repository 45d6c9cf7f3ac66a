"""Questions about what a step consists of: is copying the bottleneck (B6), is the GPU idle, and
what the advice of traces asks.

Where the profiler slowed the step too much, the trace's quality gate leaves the parts out.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from gpu_report.answers.estimate import Estimate, gain_over, speedup
from gpu_report.answers.finding import Evidence, Verdict
from gpu_report.answers.phrases import (
    CPU,
    evidence,
    evidence_of_columns,
    how_many,
    shown,
    times,
)
from gpu_report.answers.question import (
    QUESTIONS,
    Answer,
    Question,
    question,
)
from gpu_report.answers.scope import TRACE, Scope, differences, key_of
from gpu_report.glossary import PRECISIONS, Row
from gpu_report.printing.number_format import counted, quantity, share
from gpu_report.study.options import is_bound
from gpu_report.tables.bundle import eager_and_fastest, grouped, rows_of, steps_from_eager
from gpu_report.tables.marks import FLAGS_OF_SPEED, marks_in
from gpu_report.tables.statistics import holm
from gpu_report.traces.advice import ADVICE_OF, ALL_ADVICE, Advice
from gpu_report.words import (
    configuration_in_words,
    described,
    listed,
    model_words,
    optimization_in_words,
)

BOTTLENECK: Final = ADVICE_OF["launch-bound"].threshold

_PROFILED: Final = "profiled configuration"


@question("Is copying, including inside the GPU, the bottleneck of any training?", TRACE)
def transfer_bound(scope: Scope) -> Iterator[Answer]:
    """It is if copies that no kernel hides take at least 20 % of the step: without them it would be
    at least 1.25 times as fast (Amdahl's law), the same limit as for launching. Copies within the
    device count too, because the trace sums all of them.
    """
    return _bottleneck(
        scope,
        "exposed_copy_share",
        holds="Copying was the bottleneck",
        took="copies that no kernel hid, including those inside the GPU, took",
        whether="copying is the bottleneck of a training",
        label="copies that no kernel hid",
    )


@question("Is the GPU idle for at least 20 % of any step?", TRACE)
def idle(scope: Scope) -> Iterator[Answer]:
    """Without this time the step would be at least 1.25 times as fast (Amdahl's law). Of each model
    whose eager baseline on one device is as idle, the fastest configuration is given too.
    """
    return _bottleneck(
        scope,
        "device_idle_share",
        holds=f"The GPU was idle for at least {100 * BOTTLENECK:g} % of the step",
        took="it was idle for",
        whether="the GPU is idle for that long",
        label="idle",
        because=partial(_paced_by_host, scope),
        ending=_idle_models(scope),
    )


def _bottleneck(
    scope: Scope,
    column: str,
    *,
    holds: str,
    took: str,
    whether: str,
    label: str,
    because: Callable[[Row], str] = lambda _: "",
    ending: str = "",
) -> Iterator[Answer]:
    """In how many configurations on a GPU the share of this column is a bottleneck, and the most;
    `because` is said of that one.
    """
    asked = [row for row in scope.rows if row["device"] != CPU]
    if not asked:
        return
    shares = [row for row in asked if not math.isnan(row[column])]
    known = sorted(shares, key=lambda row: -float(row[column]))
    bound = [row for row in known if row[column] >= BOTTLENECK]
    verdict: Verdict = "yes" if bound else "no"
    if known:
        statement = (
            f"{holds} in {how_many(len(bound), len(known), _PROFILED)}: {took} "
            f"at most {shown(known[0], column)} of the step, in {described(known[0])}"
            f"{because(known[0])}{_not_shown(len(asked) - len(known))}.{ending}"
        )
    else:  # traces that do not show it count where there is no other
        verdict = "too close to call"
        doubt = _no_trace_shows(asked[0], _failed_check(scope, asked[0]))
        statement = f"Whether {whether} {doubt}"
    yield Answer(
        verdict=verdict,
        statement=statement,
        evidence=evidence_of_columns(known, {column: label}, scope.table),
    )


def _paced_by_host(scope: Scope, row: Row) -> str:
    """The part of a configuration's idle time in gaps that ended with a late launch or a late
    start, as the end of a sentence about it.
    """
    late = sum(
        gap["share"]
        for gap in rows_of(scope.tables.idle_causes)
        if gap["variant"] == row["variant"] and gap["cause"] in ("host", "launch")
    )
    if not late:
        return ""
    # Waits for other ranks are idle time too, and in no gap.
    part = share(late / row["device_idle_share"]).plain()
    return f"; {part} of this idle time was in gaps with the cause host or launch"


def _idle_models(scope: Scope) -> str:
    """A sentence about the models whose eager baseline is idle for long; empty without any."""
    column = "device_idle_share"
    rows = {row["variant"]: row for row in scope.rows if not math.isnan(row[column])}
    models = [
        f"{model_words(eager)} {shown(eager, column)}, "
        + (
            "and nothing was significantly faster"
            if fastest is eager
            else f"with the fastest configuration {shown(fastest, column)} "
            f"({configuration_in_words(fastest, beside=eager)})"
        )
        for names in eager_and_fastest(scope.tables)
        if rows.keys() >= {*names}
        for eager, fastest in [(rows[names[0]], rows[names[-1]])]
        if eager[column] >= BOTTLENECK
        and not (eager["begins_anew"] or configuration_in_words(eager, beside=eager))
    ]
    return f" With the eager baseline: {'; '.join(models)}." if models else ""


def _not_shown(traces: int) -> str:
    """The end of a sentence that counts traces, about those that it leaves out."""
    return f"; {counted(traces, 'other trace')} could not be judged" if traces else ""


def _no_trace_shows(row: Row, reason: str) -> str:
    """The end of a sentence about what no trace shows, with the reason of the first."""
    return (
        f"is too close to call, because no trace shows it: that of {described(row)} does not, "
        f"since {reason}."
    )


def _failed_check(scope: Scope, row: Row) -> str:
    """The first failed check of the trace's steps, which its table has in whole sentences."""
    for doubt in rows_of(scope.tables.trace_doubts):
        if doubt["variant"] == row["variant"] and "steps" in doubt["spoils"]:
            return f"it failed the check '{doubt['check']}'"
    return "parts of its step are missing"


def _asked(scope: Scope, advice: Advice) -> Sequence[Row]:
    """The configurations of which the advice is asked: all, or those on a GPU, or all that share a
    training, as soon as one of them exchanges.
    """
    if advice.asked_of == "exchanging processes":
        rows = [row for row in scope.rows if row["devices"] > 1]
        return rows if any(row["communication_share"] > 0 for row in rows) else ()
    return [row for row in scope.rows if advice.asked_of == "all" or row["device"] != CPU]


def _advised(scope: Scope, *, advice: Advice) -> Iterator[Answer]:
    """In how many of the configurations whose traces show it the advice applies, and what following
    it gained.
    """
    asked = _asked(scope, advice)
    unanswered = rows_of(scope.tables.trace_unanswered)
    why_open = {row["variant"]: row["reason"] for row in unanswered if row["rule"] == advice.name}
    answered = {row["variant"]: row for row in asked if row["variant"] not in why_open}
    if not asked:
        return
    if not answered:
        reason = why_open[asked[0]["variant"]]
        statement = f"Whether {advice.whether} {_no_trace_shows(asked[0], reason)}"
        yield Answer(verdict="too close to call", statement=statement)
        return
    # Of each configuration with the advice the row of its highest value; the highest of all first.
    rows = [
        row
        for row in rows_of(scope.tables.trace_advice)
        if row["rule"] == advice.name and row["variant"] in answered
    ]
    rows.sort(key=lambda row: (-float(row["value"]), int(row["rank"])))
    given = [alike[0] for alike in grouped(rows, lambda row: row["variant"]).values()]
    statement = f"{advice.holds} in {how_many(len(given), len(answered), _PROFILED)}"
    others = _not_shown(len(asked) - len(answered))
    if not given:
        yield Answer(verdict="no", statement=f"{statement}{others}.")
        return
    first = given[0]
    worst = described(answered[first["variant"]])
    extreme = "the worst is " * (len(given) > 1) + worst
    where = worst + f", the worst of {len(given)}" * (len(given) > 1)
    place = f" ({first['place']})" if first["place"] else ""
    sides = {
        speedup(row, row).against(1.0)
        for of_experiment in scope.tables.rows_of_experiments.values()
        for row in of_experiment
        if row["optimization"] in advice.done_by and row["status"] == "ok"
    }
    pays = "below" not in sides or "above" in sides  # unless one of these options alone slows down
    # Those whose trace does not show it too: an option that gains there is evidence all the same.
    shown_by = {each["variant"] for each in given} | why_open.keys()
    followed = [row for row in asked if pays and row["variant"] in shown_by]
    gain, measured, evidence_of_gain = _followed(scope, followed, advice.helpful)
    yield Answer(
        verdict="yes",
        statement=f"{statement}; {extreme}: {advice.label}, {_value(advice, first)}{place}"
        f"{others}.",
        evidence=(
            *(evidence(advice.label, _value(advice, one), "trace_advice", one) for one in given),
            *evidence_of_gain,
        ),
        advice=f"{advice.remedy.rstrip('.')}{measured or f' (found in {where})'}." if pays else "",
        gain=gain,
    )


def _value(advice: Advice, row: Row) -> str:
    value = row["value"]
    return share(value).plain() if advice.unit == "1" else f"{quantity(value).plain()} times a step"


def _followed(
    scope: Scope, rows: Sequence[Row], helpful: Sequence[str]
) -> tuple[Estimate | None, str, list[Evidence]]:
    """The greatest gain of one of these options or precisions, by itself, in one of these
    trainings, with a clause and its evidence; None without any. Where none was added by itself, the
    clause has the gain of all that was added together, which is not that of following one piece of
    advice.

    The soundest comes first, inside one session and without quality flags of the speed with the
    option (that without it may vary for what the option cures); of these the one nearest to eager
    fp32, because it is nearest to the reader's. The gain is significant among all such comparisons
    (Holm). Precisions are compared with fp32, and custom training loops with nothing.
    """
    measured = [
        row
        for row in rows_of(scope.tables.variants)
        if row["status"] == "ok" and not is_bound(row["options"])
    ]
    own_loops = set(scope.tables.own_loops["variant"])
    together = [
        (before, after, added)
        for before in rows
        for after in measured
        if not {*(added := differences(before, after))}.isdisjoint(helpful)
        and before["variant"] not in own_loops
        and before["precision"] in (PRECISIONS[0], after["precision"])
    ]
    pairs = [pair for pair in together if len(pair[-1]) == 1] or together
    alone = [gain_over(scope.tables, after, before) for before, after, _ in pairs]
    gains = [
        replace(gain, p=p) for gain, p in zip(alone, holm([gain.p for gain in alone]), strict=True)
    ]
    gained = [pair for pair in zip(gains, pairs, strict=True) if pair[0].against(1.0) == "above"]
    if not gained:
        return None, "", []
    gain, (before, after, added) = max(
        gained,
        key=lambda pair: (
            pair[1][0]["session"] == pair[1][1]["session"],
            -len(FLAGS_OF_SPEED & {*marks_in(pair[1][1]["marks"])}),
            -len(steps_from_eager(pair[1][0])),
            pair[0].value,
        ),
    )
    followed = listed(
        [what if what in PRECISIONS else optimization_in_words(what) for what in added]
    )
    throughputs = [
        evidence(label, shown(row, "throughput_per_s"), "variants", row)
        for label, row in (("throughput before", before), (f"throughput with {followed}", after))
    ]
    clause = f"{followed} added to {described(before)}"
    if len(added) == 1:
        return gain, f" (the gain is that of {clause})", throughputs
    return None, f" (measured: {clause}, together {times(gain, short=True)} as fast)", throughputs


for _advice in ALL_ADVICE:
    if not _advice.question:
        continue
    _limit = f"{100 * _advice.threshold:g} %" if _advice.unit == "1" else f"{_advice.threshold:g}"
    QUESTIONS.append(
        Question(
            name=key_of(_advice.name),
            text=_advice.question,
            about=(TRACE,),
            threshold=f"A configuration counts if {_advice.measure} is at least {_limit}. "
            + _advice.reason,
            answers=partial(_advised, advice=_advice),
        )
    )
