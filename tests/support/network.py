"""A node with a network of its own on this machine, which a test may cut. Linux, as root only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_CUT = """\
table ip cut {
  chain arriving { type filter hook input priority 0; policy drop; iifname "lo" accept; }
  chain leaving { type filter hook output priority 0; policy drop; oifname "lo" accept; }
}
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A network namespace. `here` is the address of this machine on the cable between the two."""

    name: str
    address: str
    here: str

    @property
    def starter(self) -> tuple[str, ...]:
        """What starts a command on the node."""
        return ("ip", "netns", "exec", self.name)

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Nothing passes while the context lasts: no connection is closed, and nobody is told."""
        _run(*self.starter, "nft", "-f", "-", text=_CUT)
        try:
            yield
        finally:
            _run(*self.starter, "nft", "delete", "table", "ip", "cut")


@contextmanager
def node_with_network() -> Iterator[Node]:
    """The node, and a cable to it."""
    pid = os.getpid()
    high, low = divmod(pid % (1 << 14), 1 << 6)
    here, address = (f"10.201.{high}.{low * 4 + last}" for last in (1, 2))
    name, ours, theirs = f"connect-{pid}", f"cth{pid}", f"ctn{pid}"
    _run("ip", "netns", "add", name)
    try:
        _run("ip", "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", name)
        _run("ip", "address", "add", f"{here}/30", "dev", ours)
        _run("ip", "link", "set", ours, "up")
        _run("ip", "-n", name, "address", "add", f"{address}/30", "dev", theirs)
        for each in ("lo", theirs):
            _run("ip", "-n", name, "link", "set", each, "up")
        yield Node(name, address, here)
    finally:
        # takes its end of the cable along, and that the other one
        _run("ip", "netns", "delete", name)


def _run(*words: str, text: str = "") -> None:
    subprocess.run(words, input=text, text=True, check=True, timeout=30)
