"""Names that no experiment may take, because the study's own rules, tables, sections and labels have them."""

from typing import Final

_RULES: Final = """
    all calibrate_machine compare_machines compile_report compile_report_alone derive_comparison
    derive_findings derive_findings_alone draw_comparison draw_figures draw_figures_alone draw_study
    figures_in_pgf import_bundle measure_variant tabulate_calibration tabulate_calibration_alone
    tabulate_study tabulate_study_alone tabulate_trace transfer write_image_files write_sections
    write_sections_alone write_tensorboard_logs
"""
_TABLES: Final = """
    category_shares category_speedups comparison consistency convergence crossovers efficiency epochs
    idle_causes losses machine operation_memory own_loops peaks phases sources step_shares telemetry timelines
    top_kernels top_operations trace_advice trace_doubts trace_unanswered transfers variants
"""
_SECTIONS_AND_LABELS: Final = """
    appendix calibration categories ceilings configuration decisions discussion energy first_decisions
    gpu_report hardware idle implementation machines method networks operations recommendations reliability
    roofline software status study summary timeline trace trace_details workloads
"""

RESERVED_NAMES: Final = frozenset(f"{_RULES} {_TABLES} {_SECTIONS_AND_LABELS}".split())
"""A test compares them with what they are the names of."""
