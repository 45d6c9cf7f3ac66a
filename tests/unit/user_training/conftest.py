"""What the tests of a user's own training share."""

import pytest

from gpu_report.user_training import process


@pytest.fixture(autouse=True)
def one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches and comparisons leave the server that they started to the next test: each would
    import PyTorch anew, which takes longer than most of them.
    """
    monkeypatch.setattr(process, "_end_server", lambda: None)
