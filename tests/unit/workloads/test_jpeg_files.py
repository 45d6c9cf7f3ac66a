"""JPEG files are the same whenever they are written, and a folder without its manifest is
not used.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gpu_report.errors import FileWriteError
from gpu_report.workloads.jpeg_files import CLASS_NAMES, image_paths, write_image_files
from gpu_report.workloads.protocol import WorkloadError


def write(folder: Path, *, seed: int = 0) -> Path:
    return write_image_files(folder, train_samples=20, test_samples=6, image_px=48, seed=seed)


def test_the_same_arguments_write_the_same_files(tmp_path: Path) -> None:
    first, second = (write(tmp_path / name) for name in ("first", "second"))

    assert first.read_text() == second.read_text()
    for path in (tmp_path / "first").rglob("*.jpg"):
        assert (
            path.read_bytes()
            == (tmp_path / "second" / path.relative_to(tmp_path / "first")).read_bytes()
        )


def test_another_seed_writes_other_pictures(tmp_path: Path) -> None:
    manifests = [json.loads(write(tmp_path / str(seed), seed=seed).read_text()) for seed in (0, 1)]

    assert manifests[0]["sha256"] != manifests[1]["sha256"]


def test_the_manifest_describes_the_files(tmp_path: Path) -> None:
    manifest = json.loads(write(tmp_path).read_text())
    digest = hashlib.sha256()
    for split, samples in (("train", 20), ("test", 6)):
        for path, label in image_paths(tmp_path, split, samples=samples):  # type: ignore[arg-type]
            digest.update(
                f"{split}/{CLASS_NAMES[label]}/{path.name}\0".encode() + path.read_bytes()
            )

    assert (manifest["train_samples"], manifest["test_samples"], manifest["image_px"]) == (
        20,
        6,
        48,
    )
    assert manifest["sha256"] == digest.hexdigest()


def test_pictures_have_the_size_asked_for_and_are_not_flat(tmp_path: Path) -> None:
    write(tmp_path)
    with Image.open(image_paths(tmp_path, "test", samples=6)[0][0]) as picture:
        assert picture.size == (48, 48)
        assert np.asarray(picture).std() > 10


@pytest.mark.parametrize(
    ("samples", "named"), [(20, "no .*manifest.json"), (21, "holds 20 files, not 21")]
)
def test_files_that_are_not_what_was_asked_for_are_refused(
    tmp_path: Path, samples: int, named: str
) -> None:
    manifest = write(tmp_path)
    if samples == 20:
        manifest.unlink()

    with pytest.raises(WorkloadError, match=f"{named}.*gpu-report write-image-files") as raised:
        image_paths(tmp_path, "train", samples=samples)

    assert "\n" not in str(raised.value)


def test_writing_that_fails_leaves_no_manifest(tmp_path: Path) -> None:
    manifest = write(tmp_path)
    for path in sorted((tmp_path / "test").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "test").rmdir()
    (tmp_path / "test").write_text("a file where a folder should be")

    with pytest.raises(FileWriteError):
        write(tmp_path)

    assert not manifest.exists()


def test_files_are_not_left_over_from_an_earlier_writing(tmp_path: Path) -> None:
    write(tmp_path, seed=1)
    write(tmp_path, seed=0)

    assert len(image_paths(tmp_path, "train", samples=20)) == 20
