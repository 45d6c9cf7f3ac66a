"""What hosts exchange is data, whoever wrote it, and the port is open where it was named."""

import os
import pickle
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from gpu_report.errors import GpuReportError, MachineError
from gpu_report.measure.hosts import Hosts
from gpu_report.measure.rendezvous import Rendezvous, Verdict, Weight, meet
from gpu_report.measure.run import Run, Stopped
from gpu_report.records.record import OutOfMemory
from tests.unit.measure.test_hosts import free_port
from tests.unit.measure.trainings import measurement, run_of

FINISHED = Verdict(weight=Weight.FINISHED)
LACKS_MEMORY = Stopped(
    status="oom",
    reason="no room",
    out_of_memory=OutOfMemory(asked_mib=1.0, free_mib=None, total_mib=2.0),
)


class _Opens:
    """Pickled, it opens a file where it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.open, (str(self.path), os.O_CREAT)


@pytest.fixture(autouse=True)
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")


def run_on(index: int, port: int) -> Run:
    return run_with(Hosts(count=2, index=index, address="127.0.0.1", port=port))


def run_with(hosts: Hosts) -> Run:
    asked = measurement("Tiny", strategy="ddp", devices=2, epochs=1)
    return run_of(asked, patience_s=20, hosts=hosts)


@pytest.fixture
def met() -> Iterator[list[Rendezvous]]:
    port = free_port()
    with ThreadPoolExecutor() as agents:
        yield list(agents.map(lambda index: meet(run_on(index, port)), range(2)))


def third_party(port: int) -> TCPStore:
    return TCPStore("127.0.0.1", port, wait_for_workers=False, timeout=timedelta(seconds=10))


ENDED = Stopped(status="failed", reason="é", interrupted_by="SIGTERM")


@pytest.mark.parametrize("message", [None, LACKS_MEMORY, ENDED, MachineError("no such device")])
def test_hosts_agree_on_what_one_of_them_says(
    message: Stopped | MachineError | None, met: list[Rendezvous]
) -> None:
    verdict = Verdict(weight=Weight.CAUSE, message=message) if message else FINISHED
    with ThreadPoolExecutor() as agents:
        found = list(agents.map(Rendezvous.agree, met, (FINISHED, verdict)))
    if isinstance(message, MachineError):
        assert all(isinstance(each.message, GpuReportError) for each in found)
        assert [str(each.message) for each in found] == ["no such device"] * 2
    else:
        assert found == [verdict, verdict]


@pytest.mark.parametrize("written", [b"pickle", b"\xff", b'{"weight": 3, "message": [1]}'])
def test_what_a_third_party_writes_as_an_end_is_refused_in_a_line_and_never_run(
    written: bytes, met: list[Rendezvous], tmp_path: Path
) -> None:
    if written == b"pickle":
        written = pickle.dumps(_Opens(tmp_path / "ran"))
    store = third_party(int(met[0].endpoint.rpartition(":")[2]))
    store.set(f"{met[0].run_id}/ended/all_read", "")
    is_over = threading.Event()

    def overwrite() -> None:
        while not is_over.is_set():
            store.set(f"{met[0].run_id}/ended1", written)  # type: ignore[arg-type]

    (overwriting := threading.Thread(target=overwrite)).start()
    found = met[0].agree(FINISHED)
    is_over.set()
    overwriting.join()

    assert isinstance(found.message, MachineError)
    assert "host 1" in str(found.message)
    assert "\n" not in str(found.message)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("written", ["", '{"asked": {"machine": 1}, "reached": "::1"}'])
def test_what_a_third_party_writes_as_the_coming_of_a_host_is_refused_in_a_line(
    written: str,
) -> None:
    port = free_port()
    with ThreadPoolExecutor() as agents:
        meeting = agents.submit(meet, run_on(0, port))
        store = third_party(port)
        run_id = f"{run_on(0, port).measurement.variant.slug}.0"
        store.set(f"{run_id}/came1", written)
        store.set(f"{run_id}/came/all_read", "")
        with pytest.raises(MachineError, match="host 1") as error:
            meeting.result()
    assert "\n" not in str(error.value)


def listening(port: int) -> set[str]:
    connections = psutil.Process().net_connections(kind="tcp")
    return {
        each.laddr.ip
        for each in connections
        if each.status == psutil.CONN_LISTEN and each.laddr.port == port
    }


@pytest.mark.parametrize("name", ["localhost", "interface"])
def test_the_store_listens_on_the_interface_that_was_named(name: str) -> None:
    address = name
    if name == "interface":
        of_all = [each for of_one in psutil.net_if_addrs().values() for each in of_one]
        addresses = [each.address for each in of_all if each.family == socket.AF_INET]
        address = next((each for each in addresses if not each.startswith("127.")), "127.0.0.1")
    port = free_port()
    alone, rendezvous = meet(run_with(Hosts())), meet(run_with(Hosts(address=address, port=port)))
    assert listening(int(alone.endpoint.rpartition(":")[2])) <= {"127.0.0.1", "::1"}
    assert listening(port) <= ({"127.0.0.1", "::1"} if name == "localhost" else {address})
    assert rendezvous.endpoint.endswith(f":{port}")


def test_a_name_of_no_interface_opens_the_port_on_all_of_them_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    port = free_port()
    rendezvous = meet(run_with(Hosts(address="service.invalid", port=port)))
    assert listening(port) <= {"::", "0.0.0.0"}
    assert rendezvous.endpoint == f"localhost:{port}"
    (line,) = capsys.readouterr().err.splitlines()
    assert f"service.invalid leads to no address of this host's interfaces, so port {port}" in line
