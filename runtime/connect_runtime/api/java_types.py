"""Names the Java class that Connect would hold a value in, for its error texts."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, Final

_NAMES: Final[tuple[tuple[tuple[type[Any], ...], str], ...]] = (
    ((str,), "java.lang.String"),
    ((bool,), "java.lang.Boolean"),
    ((float,), "java.lang.Double"),
    ((bytes, bytearray, memoryview), "[B"),
    ((dict,), "java.util.HashMap"),
    ((list, tuple), "java.util.ArrayList"),
    ((Decimal,), "java.math.BigDecimal"),
    ((dt.date, dt.time), "java.util.Date"),
)
# The widest number that each class holds. Values without a schema are never narrower than a Long.
_INTEGERS: Final = ((8, "Byte"), (16, "Short"), (32, "Integer"), (64, "Long"))


def java_class(value: Any, *, bits: int = 64) -> str:
    """Returns the name of the value's class. Integers are of the narrowest class that holds them
    and at least `bits` wide. A class of ours may say its Java name in `java_class`."""
    if value is None:
        return "null"
    if isinstance(value, int) and not isinstance(value, bool):
        for wide, name in _INTEGERS:
            if wide >= bits and -(1 << (wide - 1)) <= value < 1 << (wide - 1):
                return f"java.lang.{name}"
        return "java.math.BigInteger"
    for types, name in _NAMES:
        if isinstance(value, types):
            return name
    cls = type(value)
    return str(getattr(cls, "java_class", f"{cls.__module__}.{cls.__qualname__}"))
