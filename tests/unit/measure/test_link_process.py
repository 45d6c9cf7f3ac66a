"""How two GPUs are connected, from the answers of a stand-in for the driver's library."""

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from gpu_report.measure.link_process import connection


def library(links: list[str]) -> Any:
    """Two GPUs apart on the PCI Express; each NVLink of the first leads to a switch or a GPU, or is
    not active.
    """

    def state(_handle: str, link: int) -> int:
        if link >= len(links):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return int(links[link] != "off")

    def handle(uuid: str) -> str:
        if uuid == "unknown":
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return uuid

    addresses = {
        name: SimpleNamespace(domain=0, bus=bus, device=0)
        for bus, name in enumerate(("second", *links))
    }
    return SimpleNamespace(
        NVMLError=pynvml.NVMLError,
        NVML_NVLINK_MAX_LINKS=pynvml.NVML_NVLINK_MAX_LINKS,
        NVML_P2P_CAPS_INDEX_NVLINK=pynvml.NVML_P2P_CAPS_INDEX_NVLINK,
        NVML_P2P_STATUS_OK=pynvml.NVML_P2P_STATUS_OK,
        nvmlDeviceGetHandleByUUID=handle,
        nvmlDeviceGetNvLinkState=state,
        nvmlDeviceGetPciInfo=addresses.get,
        nvmlDeviceGetNvLinkRemotePciInfo=lambda _, link: addresses[links[link]],
        nvmlDeviceGetP2PStatus=lambda *_: pynvml.NVML_P2P_STATUS_OK if "switch" in links else 5,
        nvmlDeviceGetTopologyCommonAncestor=lambda *_: pynvml.NVML_TOPOLOGY_SYSTEM,
    )


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        (["switch"] * 18, "NV18"),
        (["second", "third", "second", "off"], "NV2"),
        (["third"] * 4, "SYS"),
        ([], "SYS"),
    ],
)
def test_a_connection_is_named_by_its_nvlinks_or_else_by_its_path_over_pci_express(
    links: list[str], expected: str
) -> None:
    assert connection(library(links), "first", "second") == expected


def test_a_connection_that_the_driver_does_not_know_has_no_name() -> None:
    assert connection(library([]), "first", "unknown") is None
