"""Plugins that do not answer what they are asked before anything runs: each class is broken in one
way. What hangs does so until `RELEASE` is set."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import Any, Final

from connect_runtime.api import ConfigDef
from connect_runtime.connectors.file_source import FileStreamSourceConnector
from connect_runtime.data.primitive_converters import StringConverter
from connect_runtime.data.simple_header_converter import SimpleHeaderConverter
from connect_runtime.transforms.chain import Filter, RecordIsTombstone

MODULE: Final = __name__
RELEASE: Final = threading.Event()


def _hang() -> Any:
    RELEASE.wait(60)
    return ConfigDef()


class ConfigRaises(FileStreamSourceConnector):
    def config(self) -> ConfigDef:
        raise RuntimeError("no keys today")


class ConfigExits(FileStreamSourceConnector):
    def config(self) -> ConfigDef:
        sys.exit(3)


class ConfigHangs(FileStreamSourceConnector):
    calls = 0

    def config(self) -> ConfigDef:
        type(self).calls += 1
        found: ConfigDef = _hang()
        return found


class ConfigIsNone(FileStreamSourceConnector):
    def config(self) -> Any:
        return None


class ConfigIsDict(FileStreamSourceConnector):
    def config(self) -> Any:
        return {"topic": "STRING"}


class NeedsArguments(FileStreamSourceConnector):
    def __init__(self, license: str) -> None:
        """Never called as it wants to be."""


class CreatedOnce(FileStreamSourceConnector):
    created = False

    def __init__(self) -> None:
        if self.created:
            raise RuntimeError("only once")
        type(self).created = True


class ValidateIsNone(FileStreamSourceConnector):
    def validate(self, props: Mapping[str, str | None]) -> Any:
        return None


class ValidateIsText(FileStreamSourceConnector):
    def validate(self, props: Mapping[str, str | None]) -> Any:
        return ["topic is wrong"]


class ValidateRaises(FileStreamSourceConnector):
    def validate(self, props: Mapping[str, str | None]) -> Any:
        raise KeyError(f"token {props.get('api.token')}")


class ValidateExits(FileStreamSourceConnector):
    def validate(self, props: Mapping[str, str | None]) -> Any:
        sys.exit(3)


class ValidateHangs(FileStreamSourceConnector):
    calls = 0

    def validate(self, props: Mapping[str, str | None]) -> Any:
        type(self).calls += 1
        return _hang()


class _Recommender:
    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Any:
        raise TypeError("nothing to recommend")

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return True


class RecommenderRaises(FileStreamSourceConnector):
    def config(self) -> ConfigDef:
        found = super().config()
        key = next(iter(found))
        other = ConfigDef().embed(each for each in found if each.name != key.name)
        return other.define(key.name, key.type, "", recommender=_Recommender())


# Each connector with what is said of it
CONNECTORS: Final = {
    ConfigRaises: "ConfigRaises.config() raised RuntimeError: no keys today",
    ConfigExits: "ConfigExits.config() raised SystemExit",
    ConfigIsNone: "ConfigIsNone.config() must return a ConfigDef that is not null.",
    ConfigIsDict: "ConfigIsDict.config() must return a ConfigDef, and returned a dict.",
    NeedsArguments: "NeedsArguments cannot be instantiated: TypeError: ",
    CreatedOnce: "CreatedOnce cannot be instantiated: RuntimeError: only once",
    ValidateIsNone: "ValidateIsNone.validate() must return a Config that is not null.",
    ValidateIsText: "ValidateIsText.validate() must return a list of ConfigValue.",
    ValidateRaises: "token ",
    ValidateExits: "raised SystemExit",
    RecommenderRaises: "nothing to recommend",
}


class TransformationRaises(Filter):
    def config(self) -> ConfigDef:
        raise RuntimeError("no options today")


class TransformationIsNone(Filter):
    def config(self) -> Any:
        return None


class TransformationNeedsArguments(Filter):
    def __init__(self, license: str) -> None:
        """Never called as it wants to be."""


class TransformationHangs(Filter):
    def config(self) -> ConfigDef:
        found: ConfigDef = _hang()
        return found


class PredicateRaises(RecordIsTombstone):
    def config(self) -> ConfigDef:
        raise RuntimeError("no options today")


class ConverterRaises(StringConverter):
    def config(self) -> ConfigDef:
        raise RuntimeError("no options today")


class ConverterIsNone(StringConverter):
    def config(self) -> Any:
        return None


class HeaderConverterRaises(SimpleHeaderConverter):
    def config(self) -> ConfigDef:
        raise RuntimeError("no options today")
