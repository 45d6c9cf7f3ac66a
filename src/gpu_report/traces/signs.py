"""What a file is that is not a trace of torch.profiler in PyTorch 2.0 or newer, by signs in its
first bytes.

first bytes of a file -> the first sign in _SIGNS that they match -> what it is, and what to do
"""

import re
from typing import Final

NAME_A_TRACE: Final = "name a trace that torch.profiler of PyTorch 2.0 or newer exported"

_SIGNS: Final = (
    (
        rb"PK\x03\x04|.{257}ustar",
        ("it is a zip or tar archive", "unpack it and name the trace in it"),
    ),
    (
        rb"version https://git-lfs",
        ("it is a Git LFS pointer, not the file itself", "run git lfs pull"),
    ),
    (
        rb"(?i:\s*<(!doctype|html|\?xml))",
        ("it is a web page", "download the trace itself, on GitHub by its raw link"),
    ),
    (
        rb"\xff\xfe|\xfe\xff|[\[{]\x00|\x00[\[{]",
        ("it is UTF-16 text", "save it as UTF-8"),
    ),
    (
        rb"\n.{0,64}?[\x00-\x08\x0e-\x1f]",  # JSON has no such characters
        ("it is a Perfetto trace (protobuf)", NAME_A_TRACE),
    ),
    (rb"(\xef\xbb\xbf)?\s*[^\s\[{\xef]", ("it is not a JSON object", NAME_A_TRACE)),
    (
        rb'\s*\[.*"pid"\s*:\s*"(CPU|CUDA) functions"',
        ("it is a list of operations by torch.autograd.profiler", NAME_A_TRACE),
    ),
    (
        rb'\s*\[.*"ts"\s*:\s*"[0-9]',
        ("it is a trace of another profiler, such as Ascend's: its times are text", NAME_A_TRACE),
    ),
    # Kineto wrote `Trace iteration` into the arguments of each operation from its first version to
    # October 2022 (pytorch/kineto#665), which is for PyTorch 1.8 to 1.13, and the kind `Operator`
    # up to PyTorch 1.11. PyTorch since 2.0 writes `Ev Idx` (pytorch/pytorch#87477), also where
    # another program adds events. Gaudi's plug-in still writes the old kinds `Kernel` and `Runtime`
    # and the old `Profiler Event Index`, so that those are no sign.
    (
        rb'(?!.*"Ev Idx").*("Trace iteration"\s*:|"cat"\s*:\s*"Operator")',
        (
            "PyTorch before 2.0 recorded it, and its phases would be wrong",
            "record it with PyTorch 2.0 or newer",
        ),
    ),
)


def sign_in(start: bytes) -> tuple[str, str] | None:
    """What the file that begins so is, and what to do; None where it may be a trace."""
    return next((sign for pattern, sign in _SIGNS if re.match(pattern, start, re.DOTALL)), None)
