"""Times by patterns of SimpleDateFormat, formatted and parsed as Java does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.java.date_format import InvalidDateFormat, SimpleDateFormat
from support.connect_classes import ConnectClasses

pytestmark = pytest.mark.oracle

# in 1582 and before, days of the year or all dates are those of the Julian calendar in Java
GREGORIAN_START = -12_212_553_600_000
TIMES = st.integers(GREGORIAN_START, 253_402_300_799_999)
NEAR = (
    0, -1, 1, 999, 86_399_999, 86_400_000, -86_400_000, 1_700_000_000_123, 951_782_399_000,
    951_782_400_000, 4_107_542_399_999, GREGORIAN_START, -11_676_096_000_000, 43_200_000,
    46_800_000, 1_700_000_000_123_456,
)  # fmt: skip
PATTERNS = (
    "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "yyyy-MM-dd HH:mm:ss", "yyyyMMdd", "yyyyMMddHHmmssSSS",
    "yy-M-d",
    "EEE, d MMM yyyy HH:mm:ss Z", "EEEE d MMMM yyyy G", "hh:mm a", "KK:mm:ss a", "kk:mm", "D yyyy",
    "yyyy-DDD", "MM/dd/yyyy hh:mm:ss.SSS a z", "dd.MM.yy", "y", "yyy", "yyyyy", "u E", "H'h'm",
    "yyyy''MM", "''", "'it''s' yyyy", "HHmm", "Hmm", "S", "SS", "SSSS", "X", "XX", "XXX", "Z",
    "zzzz",
    "LLL yyyy", "LL", "MMMMM", "d", "E", "EEE yyyy-MM", "yyyy-MM-dd EEE", "dd D yyyy", "D dd yyyy",
    "HH hh a", "hh a HH", "a", "s", "", "-yyyy", "yyyy MM dd",
)  # fmt: skip
TEXTS = (
    "2024-01-02T03:04:05.678Z", "2024-01-02T03:04:05.678+02:00", "2024-01-02T03:04:05.678-0530",
    "2024-01-02 03:04:05", "2024-1-2 3:4:5", "20240102", "20240102030405678", "24-1-2", "99-12-31",
    "2024-13-45 25:61:61", "2024-02-30", "-5-01-01", "0000-01-01", "1500-02-29", "1582-10-10",
    "Tue, 2 Jan 2024 03:04:05 +0100", "tue, 02 january 2024 03:04:05 GMT",
    "Tuesday 2 January 2024 AD",
    "Monday 2 January 44 BC", "03:04 PM", "12:00 am", "00:30 PM", "24:10", "366 2024", "2024-366",
    "01/02/2024 03:04:05.678 PM UTC", "01/02/2024 03:04:05.6 pm GMT+1:30", "02.01.24", "2024",
    "24", "5",
    "3 Wed", "11h5", "2024'05", "'", "it's 2024", "1230", "930", "7", "65000", "Z", "+02", "-0330",
    "+01:00", "+25", "UTC", "Coordinated Universal Time", "Feb 2024", "Mai 2024", "12", "Wed",
    "Wed 2024-05", "2024-05-03 Wed", "15 40 2024", "40 15 2024", "13 03 PM", "03 PM 13", "AM", "",
    "  2024-01-02 03:04:05", "2024-01-02 03:04", "2024-01-02 03:04:05 and more", "x", "-2024",
    "99999999999999999999", "2024 01 02", "2024\t1 2", "1.5", "+5", "2024- 1-02 03:04:05",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_formats_and_parses_as_java(connect_classes: ConnectClasses, pattern: str) -> None:
    answer = connect_classes.ask({"format": pattern, "millis": NEAR, "texts": TEXTS})
    ours = SimpleDateFormat(pattern)

    formatted = {millis: ours.format(millis) for millis in NEAR}
    assert formatted == dict(zip(NEAR, answer["texts"], strict=True))
    for text, millis in zip(TEXTS, answer["millis"], strict=True):
        parsed = _parsed(ours, text)
        if millis is None or millis >= GREGORIAN_START:
            assert parsed == millis, text
        else:
            assert parsed is not None and parsed < GREGORIAN_START, text


def test_early_dates_are_gregorian() -> None:
    ours = SimpleDateFormat("yyyy-MM-dd G")
    assert ours.format(-12_219_292_800_001) == "1582-10-14 AD"
    assert ours.format(-62_135_596_800_000) == "0001-01-01 AD"
    assert ours.format(-62_135_596_800_001) == "0001-12-31 BC"
    for text in ("1582-10-10 AD", "1500-02-28 AD", "0001-12-31 BC", "12024-02-29 AD"):
        assert ours.format(ours.parse(text)) == text


def _parsed(form: SimpleDateFormat, text: str) -> int | None:
    try:
        return form.parse(text)
    except ValueError:
        return None


@given(
    pattern=st.lists(
        st.sampled_from(
            "yyyy yy y MM M MMM MMMM dd d HH H mm m ss s SSS S hh h kk K a EEE EEEE D DDD G Z"
            " X XX XXX"
            " - / . : 'T' '' ,".split()
        ),
        max_size=8,
    ),
    times=st.lists(TIMES, min_size=1, max_size=20),
)
def test_any_pattern(connect_classes: ConnectClasses, pattern: list[str], times: list[int]) -> None:
    text = "".join(pattern)
    try:
        ours = SimpleDateFormat(text)
    except InvalidDateFormat as refused:
        answer = connect_classes.ask({"format": text, "millis": [], "texts": []})
        assert answer["message"] == str(refused)
        return
    formatted = [ours.format(millis) for millis in times]
    answer = connect_classes.ask({"format": text, "millis": times, "texts": formatted})

    assert formatted == answer["texts"]
    for one, millis in zip(formatted, answer["millis"], strict=True):
        parsed = _parsed(ours, one)
        # a year of one digit is an early one, in which Java counts the other fields as well
        if one in (_formatted(ours, parsed), _formatted(ours, millis)) or None in (parsed, millis):
            assert parsed == millis, one


def _formatted(form: SimpleDateFormat, millis: int | None) -> str | None:
    return None if millis is None else form.format(millis)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("yyyy-'W'ww", "'w' is not supported here: weeks depend on the locale of a Java VM"),
        ("YYYY", "'Y' is not supported here: weeks depend on the locale of a Java VM"),
        ("F", "'F' is not supported here: weeks depend on the locale of a Java VM"),
        ("W", "'W' is not supported here: weeks depend on the locale of a Java VM"),
        ("yyyy-MM-ddTHH", "Illegal pattern character 'T'"),
        ("XXXX", "invalid ISO 8601 format: length=4"),
        ("'yyyy", "Unterminated quote"),
    ],
)
def test_refused_patterns(connect_classes: ConnectClasses, pattern: str, why: str) -> None:
    with pytest.raises(InvalidDateFormat) as refused:
        SimpleDateFormat(pattern)
    assert str(refused.value) == why
    if "not supported" not in why:
        answer = connect_classes.ask({"format": pattern, "millis": [], "texts": []})
        assert answer["message"] == why
