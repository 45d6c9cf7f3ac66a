"""The picture of the workflow, held against the rule graph that Snakemake itself gives."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from matplotlib.patches import FancyBboxPatch

from gpu_report.figures.style import SMALL_FONT_SIZE_PT, TEXT_WIDTH_IN
from gpu_report.figures.workflow import RULES, Counts, MachineShown, counts_of, rules_of, study_figures, workflow_figure
from tests.factories import make_record
from tests.unit.figures.drawn import texts_of

PROJECT: Final = Path(__file__).parents[3]
COUNTS: Final = Counts(
    measured=12,
    imported=0,
    image_files=True,
    trace_tables=15,
    calibration_tables=2,
    study_tables=20,
    networks=7,
    sections=23,
)
SHOWN: Final = {
    "[here]": COUNTS,
    "[published]": replace(COUNTS, measured=0, imported=86),
    "[here, published]": replace(COUNTS, imported=86),
}


def rule_graph(project: Path, machines: str) -> dict[str, set[str]]:
    """What each rule needs, as Snakemake says."""
    command = [sys.executable, "-m", "snakemake", "--rulegraph", "--dry-run", "--forceall", "--nolock"]
    run = subprocess.run(
        [*command, "--config", f"machines={machines}"], cwd=project, check=True, capture_output=True, text=True
    )
    names = dict(re.findall(r'(\d+)\[label = "(\w+)"', run.stdout))
    needs: dict[str, set[str]] = {name: set() for name in names.values()}
    for need, node in re.findall(r"(\d+) -> (\d+)", run.stdout):
        needs[names[node]].add(names[need])
    return {name: found for name, found in needs.items() if name != "all"}


@pytest.mark.parametrize("machines", SHOWN)
def test_the_rules_drawn_and_what_they_need_are_those_of_the_workflow(machines: str, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    for name in ("Snakefile", "workflow", "config", "src", "report", "results/published"):
        (tmp_path / name).symlink_to(PROJECT / name)

    drawn = rules_of(SHOWN[machines])

    assert {name: set(needs) for name, needs in drawn.items()} == rule_graph(tmp_path, machines)


def test_a_rule_stands_after_those_that_it_needs() -> None:
    before: set[str] = set()

    for name, rule in RULES.items():
        assert set(rule.needs) <= before
        before.add(name)


def test_without_image_files_no_rule_writes_them() -> None:
    assert "write_image_files" not in rules_of(replace(COUNTS, image_files=False))


def test_each_box_says_how_much_its_rule_hands_on_in_this_study() -> None:
    texts = texts_of(workflow_figure(COUNTS).draw()).split("\n")

    assert {"12 records, traces", "20 tables", "this, 7 networks", "23 sections"} <= set(texts)
    assert "20 tables" in workflow_figure(COUNTS).alt


@pytest.mark.parametrize("counts", SHOWN.values())
def test_boxes_do_not_touch_and_lie_on_the_page(counts: Counts) -> None:
    figure = workflow_figure(counts).draw()

    (axes,) = figure.axes
    boxes = [patch.get_path().get_extents() for patch in axes.findobj(FancyBboxPatch)]
    assert figure.get_figwidth() == TEXT_WIDTH_IN
    assert all(box.x0 >= 0 and box.x1 <= TEXT_WIDTH_IN and box.y0 >= 0 for box in boxes)
    assert not any(box.overlaps(other) for number, box in enumerate(boxes) for other in boxes[:number])
    assert all(float(text.get_fontsize()) >= SMALL_FONT_SIZE_PT for text in axes.texts)


def test_a_machine_that_is_compared_alone_has_neither_a_network_nor_a_calibration_table_in_the_picture() -> None:
    ours = MachineShown(records=[make_record("lstm-cpu-b64-w0-fp32-e3")], is_imported=False, experiments=1)
    other = MachineShown(records=[make_record("unet-64px-cpu-b8-w0-fp32-e3")], is_imported=True, experiments=1)

    alone, beside = (study_figures(machines, sections=1) for machines in ([ours], [ours, other]))
    count_alone, count_beside = (counts_of(machines, networks=0, sections=1) for machines in ([ours], [ours, other]))

    assert [spec.name for spec in beside] == [spec.name for spec in alone]
    assert count_beside.calibration_tables == count_alone.calibration_tables == 2
    assert (count_beside.measured, count_beside.imported) == (1, 1)
