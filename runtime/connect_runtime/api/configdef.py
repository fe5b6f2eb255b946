"""Defines a connector's configuration: its keys with types, defaults and limits; and the providers
of values for configs.

`parse` turns a connector's strings into values or raises the first error; `validate` collects all
of them, as `PUT /connector-plugins/{plugin}/config/validate` answers. Texts are Connect's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

from connect_runtime.api.errors import ConfigError
from connect_runtime.api.validators import Validator, ValidList
from connect_runtime.java.scalars import (
    java_class,
    java_list,
    java_text,
    java_trim,
    parse_double,
    parse_integer,
)

HIDDEN: Final = "[hidden]"


class ConfigType(Enum):
    """The type of a value, under Connect's name. PASSWORD parses to `Password`, LIST to a list of
    strings split at commas, CLASS to the class's name."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Importance(Enum):
    """The importance of a key to most users."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    """The width of an input field for the value."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class _NoDefault(Enum):
    NO_DEFAULT = "no default"


NO_DEFAULT: Final = _NoDefault.NO_DEFAULT
"""The default of a key that must be set."""


@dataclass(frozen=True, slots=True)
class Password:
    """A value that is never shown: its text is `[hidden]`. `value` has the secret."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return HIDDEN


class Recommender(Protocol):
    """Recommends values for a key, given the other values of the config."""

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        """Returns the values to choose from; empty if any value is allowed."""
        ...

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """Returns True if the key is relevant with these other values."""
        ...


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key of a `ConfigDef`, with its texts for documentation and user interfaces."""

    name: str
    type: ConfigType
    default: Any
    validator: Validator | None
    importance: Importance
    doc: str
    group: str | None
    order: int
    width: Width
    display_name: str
    dependents: tuple[str, ...]
    recommender: Recommender | None

    @property
    def required(self) -> bool:
        """Returns True if the key must be set."""
        return self.default is NO_DEFAULT

    @property
    def default_text(self) -> str | None:
        """Returns the default as Connect writes it, None if there is none."""
        return None if self.required else config_text(self.default, self.type)


@dataclass(slots=True)
class ConfigValue:
    """The result of validating one key. `value` is parsed; `config_text` writes it."""

    name: str
    value: Any = None
    recommended_values: list[Any] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True


class ConfigDef:
    """The keys of a configuration, in the order of definition.

        CONFIG = (
            ConfigDef()
            .define("topic", ConfigType.STRING, validator=NonEmptyString(),
                    importance=Importance.HIGH, doc="The topic to publish to")
            .define("batch.size", ConfigType.INT, 2000, importance=Importance.LOW, doc="...")
        )

    A key without a default must be set. `validator` runs on defaults too.
    """

    def __init__(self) -> None:
        self._keys: dict[str, ConfigKey] = {}

    def define(
        self,
        name: str,
        type: ConfigType,
        default: Any = NO_DEFAULT,
        *,
        validator: Validator | None = None,
        importance: Importance = Importance.MEDIUM,
        doc: str = "",
        group: str | None = None,
        order: int = -1,
        width: Width = Width.NONE,
        display_name: str | None = None,
        dependents: Sequence[str] = (),
        recommender: Recommender | None = None,
    ) -> ConfigDef:
        """Adds a key and returns this definition. `group`, `order`, `width` and `display_name` are
        for user interfaces; `dependents` names keys whose recommendations follow this one."""
        if name in self._keys:
            raise ConfigError(f"Configuration {name} is defined twice.")
        if default is not NO_DEFAULT:
            default = parse_value(name, default, type)
            if validator is not None:
                validator(name, default)
        self._keys[name] = ConfigKey(
            name=name,
            type=type,
            default=default,
            validator=validator,
            importance=importance,
            doc=doc,
            group=group,
            order=order,
            width=width,
            display_name=name if display_name is None else display_name,
            dependents=tuple(dependents),
            recommender=recommender,
        )
        return self

    def embed(self, keys: Iterable[ConfigKey]) -> ConfigDef:
        """Adds keys, such as all of another definition, and returns this definition."""
        for key in keys:
            if key.name in self._keys:
                raise ConfigError(f"Configuration {key.name} is defined twice.")
            self._keys[key.name] = key
        return self

    @property
    def keys(self) -> Mapping[str, ConfigKey]:
        """Returns all keys by name, in the order of definition."""
        return self._keys

    @property
    def groups(self) -> list[str]:
        """Returns the groups of the keys, in the order of definition."""
        return list(dict.fromkeys(k.group for k in self if k.group is not None))

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self._keys.values())

    def __len__(self) -> int:
        return len(self._keys)

    def parse(self, props: Mapping[str, str | None]) -> dict[str, Any]:
        """Returns the values of all keys. Raises `ConfigError` for the first invalid one."""
        parsed = {}
        for key in self:
            if key.name in props:
                value = parse_value(key.name, props[key.name], key.type)
            elif key.required:
                raise ConfigError.missing(key.name)
            else:
                value = key.default
            if isinstance(key.validator, ValidList) and value is not None:
                value = list(dict.fromkeys(value))
            if key.validator is not None:
                key.validator(key.name, value)
            parsed[key.name] = value
        return parsed

    def validate(self, props: Mapping[str, str | None]) -> list[ConfigValue]:
        """Returns one result per key, in the order of definition, with all errors."""
        results = {key.name: _validated(key, props) for key in self}
        parsed = {name: result.value for name, result in results.items()}
        for key in self:
            if key.recommender is not None:
                result = results[key.name]
                _recommend(result, key.recommender, parsed)
        return list(results.values())


def _validated(key: ConfigKey, props: Mapping[str, str | None]) -> ConfigValue:
    result = ConfigValue(key.name)
    if key.name in props:
        try:
            result.value = parse_value(key.name, props[key.name], key.type)
        except ConfigError as error:
            result.errors.append(str(error))
    elif key.required:
        result.errors.append(str(ConfigError.missing(key.name)))
    else:
        result.value = key.default
    # a value of the wrong type is reported once; Connect, too, validates None then
    if key.validator is not None:
        try:
            key.validator(key.name, result.value)
        except ConfigError as error:
            result.errors.append(str(error))
    return result


def _recommend(result: ConfigValue, recommender: Recommender, parsed: Mapping[str, Any]) -> None:
    try:
        result.recommended_values = list(recommender.valid_values(result.name, parsed))
        result.visible = recommender.visible(result.name, parsed)
    except ConfigError as error:
        result.errors.append(str(error))


def parse_value(name: str, value: Any, type: ConfigType) -> Any:
    """Parses `value`, mostly a string, as `type`. None stays None. Raises `ConfigError`."""
    if value is None:
        return None
    try:
        return _PARSERS[type](java_trim(value) if isinstance(value, str) else value)
    except ValueError as error:
        # with its blanks
        text = HIDDEN if type is ConfigType.PASSWORD else value
        raise ConfigError.invalid(name, text, str(error)) from None


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    boolean = {"true": True, "false": False}.get(value.lower() if isinstance(value, str) else "")
    if boolean is None:
        raise ValueError("Expected value to be either true or false")
    return boolean


def _string(value: Any) -> str:
    if not isinstance(value, str):
        actual = java_class(value, bits=32)
        raise ValueError(f"Expected value to be a string, but it was a {actual}")
    return value


def _integer(type: ConfigType, bits: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        try:
            return parse_integer(str(value), bits)
        except ValueError:
            raise ValueError(f"Not a number of type {type.value}") from None

    return parse


def _double(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return parse_double(str(value))
    except ValueError:
        raise ValueError("Not a number of type DOUBLE") from None


def _list(value: Any) -> list[str]:
    if isinstance(value, list | tuple):
        return list(value)
    if not isinstance(value, str):
        raise ValueError("Expected a comma separated list.")
    return java_list(value)


def _password(value: Any) -> Password:
    return value if isinstance(value, Password) else Password(_string(value))


_PARSERS: Final[Mapping[ConfigType, Callable[[Any], Any]]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: _string,
    ConfigType.INT: _integer(ConfigType.INT, 32),
    ConfigType.SHORT: _integer(ConfigType.SHORT, 16),
    ConfigType.LONG: _integer(ConfigType.LONG, 64),
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: _list,
    ConfigType.CLASS: _string,
    ConfigType.PASSWORD: _password,
}


def config_text(value: Any, type: ConfigType) -> str | None:
    """Returns a parsed value as Connect writes it: lists joined by commas, passwords hidden."""
    if value is None:
        return None
    if type is ConfigType.PASSWORD:
        return HIDDEN
    if type is ConfigType.LIST:
        return ",".join(map(str, value))
    return java_text(value)


@dataclass(frozen=True, slots=True)
class ConfigData:
    """The values of the keys that exist. `ttl_ms`: how long they are valid, in milliseconds; None:
    until the connector restarts."""

    values: Mapping[str, str] = field(repr=False)
    ttl_ms: int | None = None


class ConfigProvider(ABC):
    """Provides values, such as secrets, for configs.

    Register a class under the entry point group `connect.config_providers`; a worker names the
    entry point, or the class, in `config.providers.<alias>.class`. It must be installed wherever
    connectors and tasks run. Several threads may call `get` at once. Neither logs nor error texts
    may hold values.
    """

    def configure(self, params: Mapping[str, str]) -> None:  # noqa: B027
        """Is called once, before everything else, with the worker's
        `config.providers.<alias>.param.*`. Raises ConfigError for invalid parameters."""

    @abstractmethod
    def get(self, path: str, keys: frozenset[str]) -> ConfigData:
        """Returns the values of those `keys` that exist at `path`, which is empty if a reference
        names none. Raises ConfigError if the path cannot be read."""

    def close(self) -> None:  # noqa: B027
        """Is called once, after the last `get`."""
