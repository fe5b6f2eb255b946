"""ConfigDef says what Connect says, word for word."""

import pytest

from connect_runtime.api import (
    AllOf,
    ConfigDef,
    ConfigError,
    ConfigType,
    NonEmptyList,
    NonEmptyString,
    NonEmptyStringWithoutControlChars,
    NonNull,
    OneOf,
    Password,
    Validator,
    ValidRegex,
    at_least,
    between,
)
from connect_runtime.api.configdef import config_text

ENABLED = OneOf.any_case("required", "requested")


@pytest.mark.parametrize(
    ("type_", "validator", "given", "errors"),
    [
        (ConfigType.INT, at_least(1), "0",
         ["Invalid value 0 for configuration k: Value must be at least 1"]),
        (ConfigType.INT, between(1, 9), "10",
         ["Invalid value 10 for configuration k: Value must be no more than 9"]),
        (ConfigType.LONG, None, "x",
         ["Invalid value x for configuration k: Not a number of type LONG"]),
        (ConfigType.INT, None, "2147483648",
         ["Invalid value 2147483648 for configuration k: Not a number of type INT"]),
        (ConfigType.INT, None, "1_000",
         ["Invalid value 1_000 for configuration k: Not a number of type INT"]),
        (ConfigType.SHORT, None, "40000",
         ["Invalid value 40000 for configuration k: Not a number of type SHORT"]),
        (ConfigType.DOUBLE, None, "one",
         ["Invalid value one for configuration k: Not a number of type DOUBLE"]),
        (ConfigType.STRING, OneOf.strings("none", "all"), "some",
         ["Invalid value some for configuration k: String must be one of: none, all"]),
        (ConfigType.STRING, ENABLED, "maybe",
         ["Invalid value maybe for configuration k: String must be one of (case insensitive):"
          " REQUIRED, REQUESTED"]),
        (ConfigType.STRING, ENABLED, "Required", []),
        (ConfigType.BOOLEAN, None, "maybe",
         ["Invalid value maybe for configuration k: Expected value to be either true or false"]),
        (ConfigType.BOOLEAN, None, " TRUE ", []),
        (ConfigType.STRING, NonEmptyString(), "",
         ["Invalid value  for configuration k: String must be non-empty"]),
        (ConfigType.STRING, NonEmptyStringWithoutControlChars(), "",
         ["Invalid value  for configuration k: String may not be empty"]),
        (ConfigType.STRING, NonEmptyStringWithoutControlChars(), "a\x01b",
         ["Invalid value a\x01b for configuration k: String may not contain control sequences but"
          " had the following ASCII chars: 1"]),
        (ConfigType.LIST, NonEmptyList(), "",
         ["Invalid value [] for configuration k: Empty list"]),
        (ConfigType.STRING, NonNull(), None,
         ["Invalid value null for configuration k: entry must be non null"]),
        # blanks are shown as they were given, and a no-break space is none
        (ConfigType.INT, None, " x ",
         ["Invalid value  x  for configuration k: Not a number of type INT"]),
        (ConfigType.LONG, None, "\u00a05",
         ["Invalid value \u00a05 for configuration k: Not a number of type LONG"]),
        (ConfigType.DOUBLE, None, "inf",
         ["Invalid value inf for configuration k: Not a number of type DOUBLE"]),
        (ConfigType.INT, at_least(1), "x",
         ["Invalid value x for configuration k: Not a number of type INT",
          "Invalid value null for configuration k: Value must be non-null"]),
    ],
)  # fmt: skip
def test_errors(
    type_: ConfigType, validator: Validator | None, given: str | None, errors: list[str]
) -> None:
    config = ConfigDef().define("k", type_, validator=validator)

    assert config.validate({"k": given})[0].errors == errors
    if errors:
        with pytest.raises(ConfigError) as raised:
            config.parse({"k": given})
        assert str(raised.value) == errors[0]
    else:
        config.parse({"k": given})


def test_a_missing_value() -> None:
    config = ConfigDef().define("topic", ConfigType.STRING, validator=NonEmptyString())

    wanted = 'Missing required configuration "topic" which has no default value.'
    assert config.validate({})[0].errors == [wanted]
    with pytest.raises(ConfigError, match="Missing required configuration"):
        config.parse({})


@pytest.mark.parametrize(
    ("type_", "given", "value", "text"),
    [
        (ConfigType.LIST, "a , b,c", ["a", "b", "c"], "a,b,c"),
        (ConfigType.LIST, "", [], ""),
        (ConfigType.INT, "+007", 7, "7"),
        (ConfigType.DOUBLE, "1e21", 1e21, "1.0E21"),
        (ConfigType.STRING, "  x ", "x", "x"),
        (ConfigType.STRING, "\u00a0x\x01", "\u00a0x", "\u00a0x"),
        (ConfigType.LIST, "a\u00a0,\tb", ["a\u00a0", "b"], "a\u00a0,b"),
        (ConfigType.DOUBLE, "1d", 1.0, "1.0"),
        (ConfigType.BOOLEAN, "False", False, "false"),
        (ConfigType.PASSWORD, "s3cret", Password("s3cret"), "[hidden]"),
        (ConfigType.STRING, None, None, None),
    ],
)
def test_values_and_their_text(
    type_: ConfigType, given: str | None, value: object, text: str | None
) -> None:
    parsed = ConfigDef().define("k", type_).parse({"k": given})["k"]

    assert parsed == value
    assert config_text(parsed, type_) == text


def test_a_password_is_never_shown() -> None:
    assert "s3cret" not in f"{Password('s3cret')} {Password('s3cret')!r}"


def test_what_a_key_tells() -> None:
    key = next(iter(ConfigDef().define("k", ConfigType.LIST, "a,b", display_name="K")))

    assert (key.required, key.default_text, key.order, key.group) == (False, "a,b", -1, None)
    assert ConfigDef().define("k", ConfigType.INT).keys["k"].display_name == "k"


@pytest.mark.parametrize(
    ("validator", "text"),
    [
        (at_least(1), "[1,...]"),
        (between(0, 5), "[0,...,5]"),
        (OneOf.strings("none", "all"), "[none, all]"),
        (OneOf.any_case("v1", "v2"), "(case insensitive) [V1, V2]"),
        (NonEmptyString(), "non-empty string"),
        (AllOf.of(NonEmptyString(), ValidRegex()), "non-empty string, valid regex"),
    ],
)
def test_how_validators_are_shown(validator: Validator, text: str) -> None:
    assert str(validator) == text


def test_recommendations_follow_other_values() -> None:
    class Tables:
        def valid_values(self, name: str, parsed: object) -> list[str]:
            return [f"{parsed['schema']}.t1"]  # type: ignore[index]

        def visible(self, name: str, parsed: object) -> bool:
            return False

    config = (
        ConfigDef()
        .define("schema", ConfigType.STRING, dependents=["table"])
        .define("table", ConfigType.STRING, None, recommender=Tables())
    )
    table = config.validate({"schema": "s"})[1]
    assert (table.recommended_values, table.visible) == (["s.t1"], False)
