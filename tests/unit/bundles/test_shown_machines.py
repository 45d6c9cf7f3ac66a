import copy
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_report.bundles.packing import pack
from gpu_report.bundles.shown_machines import (
    IMPORTED,
    MACHINES,
    Shown,
    choose_machines,
    find_bundles,
)
from gpu_report.errors import BundleError, ConfigError
from gpu_report.study.cluster import Request, description_file
from gpu_report.study.config import read_config
from gpu_report.study.machine import Accelerator, Machine, write_description
from tests.factories import CONFIG, make_study
from tests.machine_results import write_results

H100 = "h100-80gb-x1-xeon-16c"
LAPTOP = "ryzen-8c"
DEFAULT = read_config(CONFIG)
IN_HAND = Machine(cpu_model="Xeon", cores=2, memory_gib=8.0)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundles of an H100 with part of the study, and of a laptop without an accelerator."""
    folder = tmp_path_factory.mktemp("published")
    for machine, devices in ((H100, ["cpu", "cuda"]), (LAPTOP, ["cpu"])):
        study = make_study(devices=devices)
        slugs = [variant.slug for variant in study.variants][:6]
        results = write_results(folder / "machines", study, machine=machine, variants=slugs)
        pack(
            results,
            folder / f"{machine}.tar.xz",
            machine=machine,
            study="default",
            with_traces=False,
        )
    return folder


def asked(machines: list[str], **changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(DEFAULT), "machines": machines, **changes}


def never() -> Machine:
    raise AssertionError("PyTorch was asked for devices")


def choose(
    machines: list[str],
    published: Path,
    find_here: Callable[[], Machine] = lambda: IN_HAND,
    **changes: Any,
) -> Shown:
    return choose_machines(asked(machines, **changes), published=published, find_here=find_here)


def test_a_bundle_that_was_packed_for_another_study_is_shown_with_how_much_of_it(
    published: Path,
) -> None:
    def said(**changes: Any) -> list[str]:
        return [each for each in choose([H100], published, **changes).notes if "packed" in each]

    assert said() == []
    assert said(name="mine") == [
        f"{published / H100}.tar.xz was packed for the study default: 6 of its 6 configurations "
        "are in the study mine"
    ]


def test_this_machine_is_shown_before_those_that_are_published(published: Path) -> None:
    shown = choose(["here", "published"], published)

    assert [machine.id for machine in shown.machines] == [IN_HAND.id, H100, LAPTOP]
    assert shown.measured == shown.machines[:1]
    assert [machine.results for machine in shown.machines] == [
        MACHINES / IN_HAND.id,
        IMPORTED / H100,
        IMPORTED / LAPTOP,
    ]
    assert not shown.notes


@pytest.mark.parametrize("machines", [["published"], [LAPTOP], [H100, LAPTOP]])
def test_bundles_alone_are_shown_without_asking_pytorch(
    published: Path, machines: list[str]
) -> None:
    shown = choose(machines, published, never)

    assert shown.measured == ()
    assert {machine.id for machine in shown.machines} <= {H100, LAPTOP}


def test_results_of_this_machine_win_over_its_own_bundle_and_that_is_reported(
    published: Path,
) -> None:
    h100 = Machine(
        cpu_model="Xeon",
        cores=16,
        memory_gib=8.0,
        accelerators=(Accelerator(backend="cuda", name="H100", memory_gib=80),),
    )
    assert h100.id == H100

    shown = choose(["here", "published"], published, lambda: h100)

    assert [(machine.id, machine.bundle is None) for machine in shown.machines] == [
        (H100, True),
        (LAPTOP, False),
    ]
    assert shown.notes == (f"{H100} is measured: shown without {published / H100}.tar.xz",)


def test_an_unknown_machine_is_answered_with_those_that_are_known(published: Path) -> None:
    with pytest.raises(
        ConfigError, match=f"'abacus' is not known; use here, published, .*: {H100}, {LAPTOP}"
    ):
        choose(["abacus"], published)


def test_a_machine_that_measured_nothing_of_the_study_is_left_out_and_that_is_reported(
    published: Path,
) -> None:
    ci = read_config(CONFIG.parent / "ci.yaml")

    shown = choose_machines(ci, published=published, find_here=lambda: IN_HAND)

    assert [machine.id for machine in shown.machines] == [IN_HAND.id]
    assert (
        f"{H100} is left out: {published / H100}.tar.xz holds no configuration of the study ci"
        in shown.notes
    )
    with pytest.raises(ConfigError, match=r"no machine is left to show; .*holds no configuration"):
        choose_machines({**ci, "machines": ["published"]}, published=published, find_here=never)


def test_a_cut_bundle_keeps_nobody_from_showing_this_machine_alone(tmp_path: Path) -> None:
    (tmp_path / f"{H100}.tar.xz").write_bytes(b"cut")

    assert [machine.id for machine in choose(["here"], tmp_path).machines] == [IN_HAND.id]
    with pytest.raises(BundleError, match=f"{H100}.tar.xz is damaged or no bundle"):
        choose(["here", "published"], tmp_path)


def test_a_study_with_a_folder_of_its_own_is_compared_with_what_is_in_it(
    published: Path, tmp_path: Path
) -> None:
    for folder, machine in ((tmp_path, H100), (tmp_path / "mine", LAPTOP)):
        folder.mkdir(exist_ok=True)
        shutil.copy(published / f"{machine}.tar.xz", folder)

    of_default, of_mine = (
        choose(["here", "published"], tmp_path, name=name) for name in ("default", "mine")
    )

    assert [machine.id for machine in of_default.machines] == [IN_HAND.id, H100]
    assert [machine.id for machine in of_mine.machines] == [IN_HAND.id, LAPTOP]


def test_two_bundles_of_one_machine_are_refused(published: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.tar.xz").write_bytes((published / f"{LAPTOP}.tar.xz").read_bytes())

    with pytest.raises(
        ConfigError, match=r"a.tar.xz and .*b.tar.xz are both of ryzen-8c; remove one"
    ):
        find_bundles(tmp_path)


def test_code_that_a_configuration_names_is_announced_where_it_will_run(published: Path) -> None:
    own = copy.deepcopy(DEFAULT["workloads"])
    own["cnn"] = {"class": "json.decoder:JSONDecoder"}

    here = choose(["here"], published, workloads=own)
    elsewhere = choose([LAPTOP], published, find_here=never, workloads=own)

    assert [
        note
        for note in here.notes
        if "workloads.cnn runs the code of json.decoder:JSONDecoder" in note
    ]
    assert not elsewhere.notes


REQUEST = Request(cpus=2, memory_gib=4, minutes=5)


def with_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch, **found: Machine) -> None:
    """A folder in which jobs have found these machines."""
    monkeypatch.chdir(folder)
    for name, machine in found.items():
        write_description(description_file(name), REQUEST.selection, machine)


def on_cluster(machines: list[str], published: Path) -> Shown:
    requests = dict.fromkeys(("node", "other"), REQUEST)
    return choose_machines(
        asked(machines), published=published, requests=requests, find_here=lambda: IN_HAND
    )


def test_machines_of_a_cluster_are_measured_by_name_and_compared_with_the_published_ones(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_cluster(tmp_path, monkeypatch, node=replace(IN_HAND, cores=99), other=IN_HAND)

    shown = on_cluster(["published", "node", "other"], published)

    assert [machine.id for machine in shown.machines] == [
        replace(IN_HAND, cores=99).id,
        IN_HAND.id,
        H100,
        LAPTOP,
    ]
    assert [machine.request for machine in shown.machines] == [REQUEST, REQUEST, None, None]
    assert shown.measured == shown.machines[:2]


def test_machines_that_no_job_has_found_yet_come_first_and_alone(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_cluster(tmp_path, monkeypatch, node=IN_HAND)

    shown = on_cluster(["node", "other", "published"], published)

    assert shown.unknown == {"other": REQUEST}
    assert not shown.machines


@pytest.mark.parametrize("machines", [["node", "other"], ["here", "node"]])
def test_one_machine_under_two_names_and_this_one_beside_a_cluster_are_refused(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machines: list[str]
) -> None:
    with_cluster(tmp_path, monkeypatch, node=IN_HAND, other=IN_HAND)

    with pytest.raises(ConfigError, match=r"^machines: "):
        on_cluster(machines, published)


def test_this_machine_can_be_named_by_its_id(published: Path) -> None:
    shown = choose([IN_HAND.id, LAPTOP], published)

    assert [machine.id for machine in shown.machines] == [IN_HAND.id, LAPTOP]
    assert [machine.id for machine in shown.measured] == [IN_HAND.id]


def test_a_bundle_without_calibration_is_no_published_one(tmp_path: Path) -> None:
    study = make_study(devices=["cpu"])
    results = write_results(
        tmp_path / "machines", study, machine=LAPTOP, variants=[study.variants[0].slug]
    )
    (results / "calibration.json").unlink()
    pack(results, tmp_path / "bundle.tar.xz", machine=LAPTOP, study="default", with_traces=True)

    with pytest.raises(ConfigError, match="holds no calibration"):
        find_bundles(tmp_path)
