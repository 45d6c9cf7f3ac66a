"""JPEG files are the same whenever they are written, and a folder without its manifest is
not used.
"""

from pathlib import Path

import pytest

from gpu_report.errors import FileWriteError
from gpu_report.workloads.jpeg_files import image_paths, write_image_files
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
