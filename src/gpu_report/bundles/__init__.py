"""One machine's records and trace tables in one file, which another machine makes the same report from.

manifest: what a bundle says of itself; archive: its bytes, read with suspicion; packing, unpacking: from and to folders
"""

from gpu_report.bundles.manifest import BundleError, Manifest
from gpu_report.bundles.packing import Packed, pack
from gpu_report.bundles.unpacking import Unpacked, read_manifest, unpack

__all__ = ["BundleError", "Manifest", "Packed", "Unpacked", "pack", "read_manifest", "unpack"]
