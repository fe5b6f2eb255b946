"""A headless Chromium, driven through its DevTools protocol over a socket that it inherits."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ANSWER_S = 60


def found() -> str | None:
    """The browser of this machine, if it has one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """The connection: commands and their answers, and what the browser tells in between."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unread = b""
        self._last = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """One command's answer."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        self._connection.sendall(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def wait_for(self, method: str, session: str) -> None:
        """Waits until the browser has told this about the page."""
        while not any(
            (e.get("method"), e.get("sessionId")) == (method, session) for e in self.events
        ):
            self.events.append(self._read())

    def page(self) -> Page:
        """An empty page."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        return Page(self, attached["sessionId"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            more = self._connection.recv(1 << 20)
            if not more:
                raise ConnectionError("the browser went away")
            self._unread += more
        message, self._unread = self._unread.split(b"\0", 1)
        return dict(json.loads(message))


class Page:
    """One page, and what it asked for and complained about."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command for this page."""
        return self._browser.call(method, self._session, **params)

    def open(self, url: str) -> None:
        """Goes there, and waits until it is loaded."""
        self._browser.events.clear()
        self.call("Page.navigate", url=url)
        self._browser.wait_for("Page.loadEventFired", self._session)

    def value(self, script: str) -> Any:
        """What an expression is worth in the page; a promise's result."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        """A key, as a keyboard sends it."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def requests(self) -> list[str]:
        """The addresses that were asked for."""
        events = self._told("Network.requestWillBeSent")
        return [event["request"]["url"] for event in events]

    def complaints(self) -> list[str]:
        """Errors of scripts, and what the page's policy forbade."""
        thrown = [str(each["exceptionDetails"]) for each in self._told("Runtime.exceptionThrown")]
        return thrown + [each["entry"]["text"] for each in self._told("Log.entryAdded")]

    def _told(self, method: str) -> list[dict[str, Any]]:
        # An answer comes after all that was told before it
        self.call("Page.getFrameTree")
        return [
            event["params"]
            for event in self._browser.events
            if event.get("method") == method and event.get("sessionId") == self._session
        ]


@contextmanager
def chromium(program: str, folder: Path) -> Iterator[Browser]:
    """A browser with a profile in the folder, gone at the end."""
    ours, its = socket.socketpair()
    ours.settimeout(_ANSWER_S)
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    options += ["--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={folder}"]
    # It reads commands from descriptor 3 and answers on 4
    script = 'its=$1; shift; exec "$@" 3<&"$its" 4>&"$its"'
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", str(its.fileno()), program, *options],
        pass_fds=[its.fileno()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    its.close()
    try:
        browser = Browser(ours)
        yield browser
        # it may go without an answer
        with suppress(ConnectionError):
            browser.call("Browser.close")
        process.wait(timeout=_ANSWER_S)
    finally:
        process.kill()
        process.wait()
        ours.close()
