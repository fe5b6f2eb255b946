"""JsonConverter: JSON with or without the schema in an envelope `{"schema":…,"payload":…}`.

Schemas are compiled when first seen and kept, `schemas.cache.size` of them each way, so that a
record costs its payload only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import itemgetter
from typing import Any, Final

import orjson

from connect_runtime.api import Column, DataError, OneOf, RawHeaders, Read, Schema, Write
from connect_runtime.data.converters import (
    AnyPartConverter,
    UnreadableRows,
    converter_options,
    read_each,
)
from connect_runtime.data.json_reader import (
    MISSING,
    Decode,
    DecodeMany,
    DigitsNeeded,
    decoder,
    decoder_of_many,
    parse,
    parse_digits,
    schema_of,
)
from connect_runtime.data.json_writer import (
    EncodeMany,
    Options,
    encoder_of_many,
    plain_json,
    schema_json,
)
from connect_runtime.errors.handler import pieces_of

CONFIG = converter_options("JsonConverter", {"decimal.format": OneOf.any_case("NUMERIC", "BASE64")})

_ENVELOPE: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain'
    " additional fields. If you are trying to deserialize plain JSON data, set"
    " schemas.enable=false in your converter configuration."
)
_PAYLOAD: Final = b',"payload":'


class JsonConverter(AnyPartConverter):
    """Converts values of Connect's data model to JSON and back."""

    OPTIONS = CONFIG

    def configure(self, options: Mapping[str, str], *, is_key: bool = False) -> None:
        parsed = CONFIG.parse({"converter.type": "key" if is_key else "value", **options})
        self._with_schemas = parsed["schemas.enable"]
        self._cache_size = parsed["schemas.cache.size"]
        self._options = Options(
            decimal_numeric=parsed["decimal.format"].upper() == "NUMERIC",
            replace_null=parsed["replace.null.with.default"],
        )
        self._schema = _external_schema(parsed["schema.content"], self._options)

    def writer(self) -> Write:
        encoders = _Cache(self._cache_size, self._compile)

        def write(
            topic: str,
            headers: Sequence[RawHeaders] | None,
            schema: Schema | None,
            values: Sequence[Any],
        ) -> list[bytes | None]:
            if schema is not None:
                return list(encoders.of(schema)(values))
            if self._with_schemas:
                return [
                    None if v is None else b'{"schema":null,"payload":%b}' % plain_json(v)
                    for v in values
                ]
            return [None if v is None else plain_json(v) for v in values]

        return write

    def _compile(self, schema: Schema) -> EncodeMany:
        if not self._with_schemas:
            return encoder_of_many(schema, self._options)
        head = f'{{"schema":{schema_json(schema, self._options)},"payload":'
        return encoder_of_many(schema, self._options, head.encode(), b"}")

    def reader(self) -> Read:
        if self._with_schemas and self._schema is not None:
            return _reader_of(self._schema, self._options)
        if self._with_schemas:
            return _EnvelopeReader(self._options, self._cache_size)

        def read(
            topic: str, headers: Sequence[RawHeaders] | None, column: Sequence[bytes | None]
        ) -> Column:
            return _parsed(column)

        return read


def _parsed(column: Sequence[bytes | None]) -> Column:
    """Reads each as `read_each` does with `parse`, but quicker: orjson takes nearly all
    messages."""
    values: list[Any] = []
    failing: dict[int, DataError] = {}
    parsed = map(orjson.loads, column)  # type: ignore[arg-type]
    while True:
        try:
            values.extend(parsed)  # those before the next one that orjson refuses
            break
        except orjson.JSONDecodeError:
            row = len(values) + len(failing)
        data = column[row]
        if data is None:
            nulls = (b"null" if data is None else data for data in column[row:])
            parsed = map(orjson.loads, nulls)
            continue
        try:
            values.append(parse(data))
        except DataError as error:
            if len(column) == 1:
                raise
            failing[row] = error
    if failing:
        try:
            raise UnreadableRows(failing, Column(values))
        finally:
            del failing
    return Column(values)


def _external_schema(content: str | None, options: Options) -> Schema | None:
    """Returns the schema of all messages, if the config holds it (KIP-1054)."""
    if not content:
        return None
    try:
        parsed = parse(content.encode())
    except DataError as error:
        raise DataError(
            "Failed to parse schema in converter config due to serialization error: "
        ) from error
    try:
        return schema_of(parsed, options)
    except DigitsNeeded:
        return schema_of(parse_digits(content.encode()), options)


def _reader_of(schema: Schema, options: Options) -> Read:
    """Returns a reader of messages that are payloads of one schema."""
    decode_many = decoder_of_many(schema, options)

    def read(
        topic: str, headers: Sequence[RawHeaders] | None, column: Sequence[bytes | None]
    ) -> Column:
        present = [data for data in column if data is not None]
        try:
            values = decode_many([_payload(data, parse) for data in present])
        except DigitsNeeded:
            values = decode_many([_payload(data, parse_digits) for data in present])
        return _with_tombstones(column, values, schema)

    return read


def _payload(data: bytes, parsed: Callable[[bytes], Any]) -> Any:
    value = parsed(data)
    return MISSING if value is None and not data.strip() else value


def _with_tombstones(
    column: Sequence[bytes | None], values: Sequence[Any], schema: Schema | None
) -> Column:
    """Returns the column of these values of one schema; those of tombstones, which have neither
    value nor schema, are missing in `values`."""
    if len(values) == len(column):
        return Column(values, schema)
    present = iter(values)
    return Column(
        [None if data is None else next(present) for data in column],
        schemas=[None if data is None else schema for data in column],
    )


class _Cache:
    """Caches compiled functions by schema. A schema is nearly always the same object."""

    def __init__(self, size: int, compile_: Callable[[Schema], EncodeMany]) -> None:
        self._size = size
        self._compile = compile_
        self._compiled: dict[int, tuple[Schema, EncodeMany]] = {}

    def of(self, schema: Schema) -> EncodeMany:
        # the schema is kept with its function, so that its id stays its own
        compiled = self._compiled.get(id(schema))
        if compiled is None:
            if len(self._compiled) >= max(1, self._size):
                self._compiled.pop(next(iter(self._compiled)))
            compiled = self._compiled[id(schema)] = (schema, self._compile(schema))
        return compiled[1]


@dataclass(frozen=True, slots=True)
class _CompiledSchema:
    """A schema that was read, with its decoders; None for payloads without one."""

    schema: Schema | None
    decode: Decode
    decode_many: DecodeMany


class _EnvelopeReader:
    """Reads envelopes; each schema text is parsed once."""

    def __init__(self, options: Options, cache_size: int) -> None:
        self._options = options
        self._cache_size = cache_size
        self._compiled: dict[bytes, _CompiledSchema] = {}

    def __call__(
        self, topic: str, headers: Sequence[RawHeaders] | None, column: Sequence[bytes | None]
    ) -> Column:
        result = self._together(column)
        if result is None and len(column) > 1:
            result = self._without_unreadable(column)
        return read_each(column, self._read, _column_of) if result is None else result

    def _together(self, column: Sequence[bytes | None]) -> Column | None:
        """Reads envelopes that have the schema of the first one. Returns None if they have not, if
        it is not compiled, or if one of them cannot be read."""
        present = [data for data in column if data is not None]
        compiled = self._compiled.get(_head(present[0])) if present else None
        values = None if compiled is None else self._payloads(present)
        if compiled is None or values is None:
            return None
        try:
            return _with_tombstones(column, compiled.decode_many(values), compiled.schema)
        except (DigitsNeeded, DataError):
            return None

    def _without_unreadable(self, column: Sequence[bytes | None]) -> Column | None:
        """Raises UnreadableRows if all that cannot be read together are errors, else returns
        None."""
        errors: dict[int, DataError] = {}
        for row, data in self._odd(column):
            try:
                self._read(data)
            except DataError as error:
                errors[row] = error
            else:
                return None
        readable = self._together([data for row, data in enumerate(column) if row not in errors])
        if readable is None or not errors:
            return None
        try:
            raise UnreadableRows(errors, readable)
        finally:
            del errors

    def _odd(self, column: Sequence[bytes | None]) -> list[tuple[int, bytes]]:
        """Returns the envelopes that do not begin as most do, or whose payloads cannot be read."""
        present = [(row, data) for row, data in enumerate(column) if data is not None]
        heads = [head for _, data in present[:2] if (head := _head(data)) in self._compiled]
        if not heads:
            return []
        compiled, start = self._compiled[heads[0]], heads[0] + _PAYLOAD
        odd, alike, payloads = [], [], []
        for row, data in present:
            try:
                if not data.startswith(start) or not data.endswith(b"}"):
                    raise ValueError
                payloads.append(orjson.loads(data[len(start) : -1]))
                alike.append((row, data))
            except ValueError:
                odd.append((row, data))
        pieces = pieces_of(0, len(payloads), lambda a, b: compiled.decode_many(payloads[a:b]))
        odd += [alike[begin] for begin, decoded in pieces if decoded is None]
        return sorted(odd)

    def _payloads(self, column: Sequence[bytes]) -> list[Any] | None:
        """Returns the parsed payloads, if all envelopes begin as the first one does."""
        start = _head(column[0]) + _PAYLOAD
        if not all(map(bytes.startswith, column, repeat(start))):
            return None
        if not all(map(bytes.endswith, column, repeat(b"}"))):
            return None
        payloads = map(itemgetter(slice(len(start), -1)), column)
        try:
            return list(map(orjson.loads, payloads))
        except orjson.JSONDecodeError:  # something else follows, or it is not JSON
            return None

    def _read(self, data: bytes) -> tuple[Schema | None, Any]:
        compiled = self._compiled.get(_head(data))
        payloads = None if compiled is None else self._payloads([data])
        if compiled is None or payloads is None:
            try:
                return self._read_all(data, parse(data))
            except DigitsNeeded:
                return self._read_all(data, parse_digits(data))
        try:
            return compiled.schema, compiled.decode(payloads[0])
        except DigitsNeeded:
            return compiled.schema, compiled.decode(parse_digits(data)["payload"])

    def _read_all(self, data: bytes, envelope: Any) -> tuple[Schema | None, Any]:
        if not isinstance(envelope, dict) or envelope.keys() != {"schema", "payload"}:
            raise DataError(_ENVELOPE)
        head = _head(data)
        # another "schema" may follow, and the last one counts
        is_head = bool(head) and _is_head(head, envelope["schema"])
        compiled = self._compiled.get(head) if is_head else None
        if compiled is None:
            compiled = self._compile(envelope["schema"])
            if is_head:
                if len(self._compiled) >= max(1, self._cache_size):
                    self._compiled.pop(next(iter(self._compiled)))
                self._compiled[head] = compiled
        return compiled.schema, compiled.decode(envelope["payload"])

    def _compile(self, parsed: Any) -> _CompiledSchema:
        schema = schema_of(parsed, self._options)
        if schema is None:
            return _CompiledSchema(None, lambda value: value, list)
        decode_many = decoder_of_many(schema, self._options)
        return _CompiledSchema(schema, decoder(schema, self._options), decode_many)


def _column_of(rows: Sequence[tuple[Schema | None, Any] | None]) -> Column:
    schemas = [row and row[0] for row in rows]
    values = [row and row[1] for row in rows]
    if all(schema is schemas[0] for schema in schemas):
        return Column(values, schemas[0] if schemas else None)
    return Column(values, schemas=schemas)


def _head(data: bytes) -> bytes:
    """Returns the bytes before the payload; none if there is no payload."""
    return data[: max(0, data.find(_PAYLOAD))]


def _is_head(head: bytes, schema: Any) -> bool:
    """Returns True if `head` is exactly `{"schema":<schema>`, so that it identifies the schema."""
    try:
        return bool(orjson.loads(head + b"}") == {"schema": schema})
    except orjson.JSONDecodeError:
        return False
