from dataclasses import replace

from tests.unit.figures.drawn import draw_named, specs_by_name, study_and_tables, texts_of


def test_both_directions_show_both_kinds_of_memory_and_their_peak() -> None:
    study, tables = study_and_tables("device")

    text = texts_of(draw_named("study_transfer", tables, study))

    for words in ("CUDA, to device", "CUDA, to host", "pageable host memory", "pinned host memory", "peak, "):
        assert words in text


def test_copies_draw_without_a_peak() -> None:
    study, tables = study_and_tables("device")
    tables = replace(tables, peaks=tables.peaks.iloc[:0])

    assert "peak" not in texts_of(draw_named("study_transfer", tables, study))


def test_a_machine_without_accelerator_has_no_copies_to_show() -> None:
    study, tables = study_and_tables("device", devices=("cpu",))

    assert "study_transfer" not in specs_by_name(tables, study)
