"""Validates config values beyond their type.

A validator is called with the key's name and its parsed value (None if it has none) and raises
`ConfigError`. `connect validate` and Connect's own documentation show its text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from connect_runtime.api.errors import ConfigError
from connect_runtime.java import regex as java_regex

INVALID_REGEX: Final = "Invalid regex"


class Validator(Protocol):
    """Raises `ConfigError` if `value` is not allowed for `name`."""

    def __call__(self, name: str, value: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Range:
    """A number of at least `low` and at most `high`."""

    low: float | None = None
    high: float | None = None

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            raise ConfigError.invalid(name, value, "Value must be non-null")
        if self.low is not None and value < self.low:
            raise ConfigError.invalid(name, value, f"Value must be at least {self.low}")
        if self.high is not None and value > self.high:
            raise ConfigError.invalid(name, value, f"Value must be no more than {self.high}")

    def __str__(self) -> str:
        limits = [str(end) for end in (self.low,) if end is not None] + ["..."]
        return f"[{','.join(limits + [str(end) for end in (self.high,) if end is not None])}]"


@dataclass(frozen=True, slots=True)
class ValidList:
    """A list without duplicates and empty entries, all of `allowed` if that has any (KIP-1161).

    Only validation refuses duplicates: parsing drops them, so that an older config still works.
    """

    allowed: tuple[str, ...] = ()
    allows_empty: bool = True
    allows_null: bool = False

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            if self.allows_null:
                return
            raise ConfigError(f"Configuration '{name}' values must not be null.")
        if not value and not self.allows_empty:
            valid = str(self) or "any non-empty value"
            text = f"Configuration '{name}' must not be empty. Valid values include: {valid}"
            raise ConfigError(text)
        if len(set(value)) != len(value):
            raise ConfigError(f"Configuration '{name}' values must not be duplicated.")
        for entry in value:
            if entry == "":
                raise ConfigError(f"Configuration '{name}' values must not be empty.")
            if self.allowed:
                OneOf(self.allowed)(name, entry)

    def __str__(self) -> str:
        return f"[{', '.join(self.allowed)}]" if self.allowed else ""


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these strings; for a list, each of its entries."""

    allowed: tuple[str, ...]
    ignore_case: bool = False

    @classmethod
    def strings(cls, *allowed: str) -> OneOf:
        """Returns the validator for exactly one of `allowed`."""
        return cls(allowed)

    @classmethod
    def any_case(cls, *allowed: str) -> OneOf:
        """Returns the validator for one of `allowed`, in upper or lower case."""
        return cls(tuple(s.upper() for s in allowed), ignore_case=True)

    def __call__(self, name: str, value: Any) -> None:
        for entry in value if isinstance(value, list | tuple) else (value,):
            if self.ignore_case:
                if entry is None or str(entry).upper() not in self.allowed:
                    allowed = ", ".join(self.allowed)
                    reason = f"String must be one of (case insensitive): {allowed}"
                    raise ConfigError.invalid(name, entry, reason)
            elif entry not in self.allowed:
                reason = f"String must be one of: {', '.join(self.allowed)}"
                raise ConfigError.invalid(name, entry, reason)

    def __str__(self) -> str:
        entries = f"[{', '.join(self.allowed)}]"
        return f"(case insensitive) {entries}" if self.ignore_case else entries


@dataclass(frozen=True, slots=True)
class NonEmptyString:
    """Not the empty string. None passes: a missing value is another error."""

    def __call__(self, name: str, value: Any) -> None:
        if value is not None and not value:
            raise ConfigError.invalid(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


@dataclass(frozen=True, slots=True)
class NonEmptyStringWithoutControlChars:
    """Connect's rule for a connector's name."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            return
        if not value:
            raise ConfigError.invalid(name, value, "String may not be empty")
        codes = [ord(c) for c in value if ord(c) <= 0x1F or 0x7F <= ord(c) <= 0x9F]
        if codes:
            reason = "String may not contain control sequences but had the following ASCII chars: "
            raise ConfigError.invalid(name, value, reason + ", ".join(map(str, codes)))

    def __str__(self) -> str:
        return "non-empty string without ISO control characters"


@dataclass(frozen=True, slots=True)
class NonNull:
    """Any value but None."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            raise ConfigError.invalid(name, value, "entry must be non null")

    def __str__(self) -> str:
        return "non-null string"


@dataclass(frozen=True, slots=True)
class NonEmptyList:
    """A list with at least one entry."""

    def __call__(self, name: str, value: Any) -> None:
        if not value:
            raise ConfigError.invalid(name, value, "Empty list")

    def __str__(self) -> str:
        return "non-empty list"


@dataclass(frozen=True, slots=True)
class ValidRegex:
    """A Java regular expression."""

    def __call__(self, name: str, value: Any) -> None:
        try:
            java_regex.compile(value or "")
        except java_regex.InvalidPattern as error:
            raise ConfigError.invalid(name, value, f"{INVALID_REGEX}: {error}") from error

    def __str__(self) -> str:
        return "valid regex"


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of `validators` must pass."""

    validators: tuple[Validator, ...]

    @classmethod
    def of(cls, *validators: Validator) -> AllOf:
        """Combines these validators, in this order."""
        return cls(validators)

    def __call__(self, name: str, value: Any) -> None:
        for validator in self.validators:
            validator(name, value)

    def __str__(self) -> str:
        return ", ".join(map(str, self.validators))


@dataclass(frozen=True, slots=True)
class Described:
    """A custom check, with the text to show for it."""

    check: Callable[[str, Any], None]
    text: str

    def __call__(self, name: str, value: Any) -> None:
        self.check(name, value)

    def __str__(self) -> str:
        return self.text


def at_least(low: float) -> Range:
    """Returns the range of numbers of at least `low`."""
    return Range(low=low)


def between(low: float, high: float) -> Range:
    """Returns the range from `low` to `high`, both included."""
    return Range(low=low, high=high)
