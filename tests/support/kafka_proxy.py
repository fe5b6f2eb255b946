"""A TCP proxy before a Kafka broker, which a test cuts, or which hides the coordinators.

It knows where Kafka's requests and answers begin and end, and of what kind a request is.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Self

from connect_runtime.kafka.local_processes import LOOPBACK

# Kafka's protocol guide, "Api Keys" and "Error Codes"
_FIND_COORDINATOR: Final = 10
_TO_COORDINATORS: Final = frozenset(
    {
        8,  # OffsetCommit
        9,  # OffsetFetch
        11,  # JoinGroup
        12,  # Heartbeat
        14,  # SyncGroup
        22,  # InitProducerId
        24,  # AddPartitionsToTxn
        25,  # AddOffsetsToTxn
        26,  # EndTxn
        28,  # TxnOffsetCommit
    }
)
_END_TXN: Final = 26
_COORDINATOR_NOT_AVAILABLE: Final = 15
_WAIT_S: Final = 30


class KafkaProxy:
    """Between clients of `port` and the broker at `to`, on a thread of its own.

    While it is cut, connections stay open and new ones are taken, and not a byte passes; what was
    on its way arrives when it is mended. While coordinators are hidden, whoever asks for one hears
    that there is none, and who asks one loses the connection.
    """

    def __init__(self, port: int, to: int) -> None:
        self.port = port
        self._to = to
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kafka-proxy")
        self._open = asyncio.Event()
        self._hidden = False
        self._late_s = 0.0
        self._kept = b""
        self._kept_one = threading.Event()
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._open.set()
        self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WAIT_S)
        self._loop.close()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Not a byte passes while the context lasts."""
        self._loop.call_soon_threadsafe(self._open.clear)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._open.set)

    @contextmanager
    def late_ends(self, late_s: float) -> Iterator[None]:
        """The answer to each EndTxn that is sent while the context lasts comes so late."""
        self._late_s = late_s
        try:
            yield
        finally:
            self._late_s = 0.0

    @contextmanager
    def kept_ends(self, transactional_id: str) -> Iterator[threading.Event]:
        """No EndTxn of this transactional id that is sent while the context lasts ever arrives.
        Yields what is set by the first one."""
        kept = self._kept_one = threading.Event()
        self._kept = transactional_id.encode()
        try:
            yield kept
        finally:
            self._kept = b""

    @contextmanager
    def no_coordinators(self) -> Iterator[None]:
        """Nobody reaches a coordinator while the context lasts."""
        self._hidden = True
        try:
            yield
        finally:
            self._hidden = False

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_WAIT_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, self.port, backlog=1000)

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        for each in self._passing:
            each.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        on = None
        try:
            await self._open.wait()
            broker, on = await asyncio.open_connection(LOOPBACK, self._to)
            late: dict[int, float] = {}
            ways = (self._requests(client, on, back, late), self._answers(broker, back, late))
            passing = [asyncio.create_task(each) for each in ways]
            try:
                await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in passing:
                    each.cancel()
                await asyncio.gather(*passing, return_exceptions=True)
        except OSError:
            pass  # the broker is away: the client is told by its connection's end
        finally:
            self._passing.discard(task)
            for writer in filter(None, (on, back)):
                with suppress(OSError, RuntimeError):
                    writer.close()

    async def _requests(
        self,
        client: asyncio.StreamReader,
        on: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
        late: dict[int, float],
    ) -> None:
        while True:
            frame = await _frame(client)
            await self._open.wait()
            kind, version, number = struct.unpack_from(">hhi", frame, 4)
            if self._hidden and kind == _FIND_COORDINATOR:
                back.write(_no_coordinator(version, number))
                continue
            if self._hidden and kind in _TO_COORDINATORS:
                return
            if self._kept and kind == _END_TXN and self._kept in frame:
                self._kept_one.set()
                continue
            if self._late_s and kind == _END_TXN:
                late[number] = self._late_s
            on.write(frame)
            await on.drain()

    async def _answers(
        self, broker: asyncio.StreamReader, back: asyncio.StreamWriter, late: dict[int, float]
    ) -> None:
        while True:
            frame = await _frame(broker)
            await self._open.wait()
            (number,) = struct.unpack_from(">i", frame, 4)
            await asyncio.sleep(late.pop(number, 0.0))
            back.write(frame)
            await back.drain()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """A request or an answer with its length. Raises IncompleteReadError at the end."""
    length = await reader.readexactly(4)
    return length + await reader.readexactly(struct.unpack(">i", length)[0])


def _no_coordinator(version: int, number: int) -> bytes:
    """The answer to FindCoordinator in its versions 0 to 2, which librdkafka speaks."""
    assert version <= 2, f"FindCoordinator in version {version}"
    nowhere = struct.pack(">ihi", -1, 0, -1)
    error = struct.pack(">h", _COORDINATOR_NOT_AVAILABLE)
    if version == 0:
        body = error + nowhere
    else:
        body = struct.pack(">i", 0) + error + struct.pack(">h", -1) + nowhere
    return struct.pack(">ii", len(body) + 4, number) + body
