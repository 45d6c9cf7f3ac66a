from gpu_report.glossary import SHOWN
from gpu_report.writing.machine_view import MachineView
from gpu_report.writing.summary_table import summary_table
from tests.report.synthetic import results_on


def test_the_summary_tells_the_greatest_gain_and_whole_epochs_before_shortened_ones() -> None:
    machine = MachineView(results=results_on("cpu", "cuda"))
    trained = [
        row for row in summary_table(machine.experiments, most_rows=14).rows if str(row.cells[0]).startswith("device")
    ]

    about_device = next(view for view in machine.decided if view.finding.experiment == "device")
    gains = [view.finding.gain or 0.0 for view in machine.answers("device")]

    assert about_device.finding.gain == max(gains)
    assert len([row for row in trained if "LSTM" in str(row.cells[1])]) == 1
    whole = next(
        row for row in machine.experiments[0].measured if row["variant"].startswith("lstm-cuda-b64-w0-fp32-e5")
    )
    told = next(row for row in trained if "LSTM" in str(row.cells[1]))
    assert str(told.cells[3]).startswith(SHOWN["throughput"].quantity(whole).plain(interval=False, unit=False)[:3])
