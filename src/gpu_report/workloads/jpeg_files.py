"""Writing the JPEG files that the loader experiment reads: `gpu-report write-image-files` makes
them, without PyTorch.

<folder>/train/<class>/00000.jpg, <folder>/test/<class>/00000.jpg, and <folder>/manifest.json,
written last: a folder with a manifest is whole.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

import numpy as np
from PIL import Image, ImageDraw

from gpu_report.storage.files import write_errors, write_text_atomically
from gpu_report.workloads.protocol import WorkloadError
from gpu_report.workloads.synthetic import Split, draw_blends, stream

MANIFEST: Final = "manifest.json"
MANIFEST_VERSION: Final = 1
CLASS_NAMES: Final = ("amber", "leaf", "sea", "sky", "violet")
HUES: Final = (30, 105, 175, 225, 290)
"""The middle of the hues of each class, in degrees."""

HUE_SPREAD: Final = 40
SPOTS_PER_PICTURE: Final = 40
JPEG_QUALITY: Final = 90


def write_image_files(
    folder: Path, *, train_samples: int, test_samples: int, image_px: int, seed: int = 0
) -> Path:
    """Write the pictures of both splits and then the manifest, whose path is returned.

    The same arguments give the same pixels, and the same bytes wherever the JPEG encoder is the
    same.

    Raises:
        FileWriteError: the disk is full or the folder cannot be written; there is then no manifest.
    """
    manifest = folder / MANIFEST
    _remove_pictures(folder)
    digest = hashlib.sha256()
    counts = {"train": train_samples, "test": test_samples}
    for split in get_args(Split):
        for name, content in pictures(
            samples=counts[split], image_px=image_px, seed=seed, split=split
        ):
            digest.update(f"{split}/{name}\0".encode() + content)
            path = folder / split / name
            with write_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
    facts = {
        "version": MANIFEST_VERSION,
        "train_samples": train_samples,
        "test_samples": test_samples,
        "image_px": image_px,
        "seed": seed,
        "sha256": digest.hexdigest(),
    }
    write_text_atomically(manifest, json.dumps(facts, indent=1) + "\n")
    return manifest


def _remove_pictures(folder: Path) -> None:
    (folder / MANIFEST).unlink(missing_ok=True)
    for split in get_args(Split):
        for name in CLASS_NAMES:
            for path in (folder / split / name).glob("*.jpg"):
                path.unlink()


def pictures(
    *, samples: int, image_px: int, seed: int, split: Split
) -> Iterator[tuple[str, bytes]]:
    """Every picture as `<class>/<number>.jpg` and its JPEG bytes."""
    blends = draw_blends(samples=samples, classes=len(CLASS_NAMES), seed=seed, split=split)
    for index in range(samples):
        picture = _paint(
            (int(blends.first[index]), int(blends.second[index])),
            share_of_first=float(blends.share[index]),
            image_px=image_px,
            draw=stream(seed=seed, split=split, quantity=f"picture {index}"),
        )
        yield f"{CLASS_NAMES[blends.label[index]]}/{index:05d}.jpg", _encode(picture)


def _paint(
    classes: tuple[int, int], *, share_of_first: float, image_px: int, draw: np.random.Generator
) -> Image.Image:
    """Spots in the hues of two classes, the first class's in its share, over grey, with grain as a
    camera leaves it.
    """
    picture = Image.new("RGB", (image_px, image_px), (128, 128, 128))
    canvas = ImageDraw.Draw(picture)
    for _ in range(SPOTS_PER_PICTURE):
        spot_class = classes[0] if draw.random() < share_of_first else classes[1]
        hue = round(HUES[spot_class] + HUE_SPREAD * draw.standard_normal()) % 360
        colour = f"hsl({hue},{draw.integers(25, 75)}%,{draw.integers(30, 70)}%)"
        centre, radius = draw.random(2) * image_px, (0.04 + 0.12 * draw.random()) * image_px
        canvas.ellipse([*(centre - radius), *(centre + radius)], fill=colour)
    grain = draw.normal(0, 12, (image_px, image_px, 3))
    return Image.fromarray(np.clip(np.asarray(picture) + grain, 0, 255).astype(np.uint8))


def _encode(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=JPEG_QUALITY)
    return buffer.getvalue()


def image_paths(folder: Path, split: Split, *, samples: int) -> list[tuple[Path, int]]:
    """The files of a split and the position of their class in `CLASS_NAMES`, in the order they were
    drawn.

    Raises:
        WorkloadError: no manifest, or another number of files than asked for.
    """
    remedy = (
        "write them with gpu-report write-image-files (see --help; snakemake does it by itself)"
    )
    if not (folder / MANIFEST).is_file():
        raise WorkloadError(f"workloads.image_files: there is no {folder / MANIFEST}; {remedy}")
    found = [
        (path, label)
        for label, name in enumerate(CLASS_NAMES)
        for path in (folder / split / name).glob("*.jpg")
    ]
    if len(found) != samples:
        raise WorkloadError(
            f"workloads.image_files: {folder / split} holds {len(found)} files, not {samples}; "
            f"delete {folder}, then {remedy}"
        )
    return sorted(found, key=lambda pair: pair[0].name)
