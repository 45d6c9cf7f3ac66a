"""A page opened in headless Chromium without a network; tests that need it skip where there is
none.

Chromium reads and writes its DevTools protocol through two pipes: a message is JSON, and a zero
byte ends it.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import pytest

CHROMIUM: Final = next(filter(shutil.which, ("chromium", "chromium-browser", "google-chrome")), "")

needs_chromium = pytest.mark.skipif(
    not CHROMIUM, reason="needs chromium or google-chrome, such as Debian's chromium"
)

_COMPLAINTS: Final = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")


@dataclass(kw_only=True, eq=False)
class Browser:
    """One tab of Chromium."""

    to_chromium: BinaryIO
    from_chromium: BinaryIO
    session: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    sent: int = 0

    def call(self, method: str, **params: Any) -> Any:
        """Send a command and wait for its result; events on the way are kept."""
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": params, **self.session}
        self.to_chromium.write(json.dumps(message).encode() + b"\0")
        self.to_chromium.flush()
        while (answer := self._next()).get("id") != self.sent:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self) -> Any:
        text = bytearray()
        while (byte := self.from_chromium.read(1)) != b"\0":
            assert byte, "Chromium ended"
            text += byte
        return json.loads(text)

    def open(self, page: Path, search: str = "") -> None:
        """Load a file, with what its address asks for, and wait until it is loaded."""
        before = self._loads
        self.call("Page.navigate", url=page.as_uri() + search)
        while self._loads == before:
            self.events.append(self._next())

    @property
    def _loads(self) -> int:
        return sum(event["method"] == "Page.loadEventFired" for event in self.events)

    def become_a_phone(self) -> None:
        """A touch screen of 400 by 800 pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=400,
            height=800,
            deviceScaleFactor=1,
            mobile=True,
        )

    def run(self, script: str) -> Any:
        """What the script returns, which may use `await`."""
        answer = self.call(
            "Runtime.evaluate",
            expression=f"(async () => {{{script}}})()",
            awaitPromise=True,
            returnByValue=True,
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    @property
    def complaints(self) -> list[dict[str, Any]]:
        """What the console says."""
        return [event for event in self.events if event["method"] in _COMPLAINTS]

    @property
    def requests(self) -> list[str]:
        """The addresses that were asked for."""
        sent = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Chromium with a new profile in this folder."""
    (reads, to_chromium), (from_chromium, writes) = os.pipe(), os.pipe()
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--remote-debugging-pipe",
        "--window-size=1200,900",
    ]
    command = [CHROMIUM, *options, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$@" 3<&{reads} 4>&{writes}', "bash", *command],
        pass_fds=(reads, writes),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(reads)
    os.close(writes)
    try:
        with os.fdopen(to_chromium, "wb") as to, os.fdopen(from_chromium, "rb") as back:
            tab = Browser(to_chromium=to, from_chromium=back)
            target = tab.call("Target.createTarget", url="about:blank")["targetId"]
            attached = tab.call("Target.attachToTarget", targetId=target, flatten=True)
            tab.session = {"sessionId": attached["sessionId"]}
            for domain in ("Page", "Runtime", "Log", "Network"):
                tab.call(f"{domain}.enable")
            tab.call(
                "Network.emulateNetworkConditions",
                offline=True,
                latency=0,
                downloadThroughput=0,
                uploadThroughput=0,
            )
            yield tab
            tab.session = {}
            tab.call("Browser.close")
            process.wait(timeout=30)
    finally:
        process.kill()
        process.wait()
