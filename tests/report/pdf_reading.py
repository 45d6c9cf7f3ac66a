"""What tests read of a PDF: its metadata, its addresses, and the text of its objects and pages."""

import re
import subprocess
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

_STREAM: Final = re.compile(rb"stream\r?\n(.*?)\r?\nendstream", re.DOTALL)

_SPACES: Final = {
    "dc": "http://purl.org/dc/elements/1.1/",
    "pdf": "http://ns.adobe.com/pdf/1.3/",
    "pdfaid": "http://www.aiim.org/pdfa/ns/id/",
    "xmp": "http://ns.adobe.com/xap/1.0/",
}


def said_by(program: str, *arguments: str | Path) -> str:
    """What one of poppler's programs prints."""
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def pdf_information(pdf: Path) -> Mapping[str, str]:
    """Title, dates and the like, with dates as in XMP."""
    lines = said_by("pdfinfo", "-isodates", pdf).splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def pdf_metadata(pdf: Path) -> Mapping[str, str]:
    """The properties of the XMP packet, as in `pdfaid:part`; empty where there is none."""
    packet = said_by("pdfinfo", "-meta", pdf)
    if not packet.strip():
        return {}
    names = {f"{{{space}}}": f"{prefix}:" for prefix, space in _SPACES.items()}
    return {
        prefix + element.tag.removeprefix(space): "".join(element.itertext()).strip()
        for element in ElementTree.fromstring(packet).iter()
        for space, prefix in names.items()
        if element.tag.startswith(space)
    }


def pdf_objects(pdf: Path) -> bytes:
    """The whole file as it is, and after it what its compressed streams hold: objects, and what is
    drawn.
    """
    data = pdf.read_bytes()
    return b"\n".join([data, *(_inflated(found[1]) for found in _STREAM.finditer(data))])


def alternative_texts(pdf: Path) -> list[str]:
    """The words beside figures, in the order in which the file has them."""
    found = re.findall(rb"/Alt\s*<([0-9A-Fa-f]+)>", pdf_objects(pdf))
    return [bytes.fromhex(digits.decode()).decode("utf-16") for digits in found]


def fonts_not_embedded(pdf: Path) -> list[str]:
    """Names of the fonts whose letters the file does not hold."""
    rows = [line.rsplit(maxsplit=5) for line in said_by("pdffonts", pdf).splitlines()[2:]]
    return [row[0] for row in rows if row[1] != "yes"]


def _inflated(stream: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(stream)
    except zlib.error:
        return b""
