"""Where does a connector begin that is created, whether new, again or in place of another one?

Offsets outlive a connector: those of an earlier one of its name count, as far as its config still
reads what they are about.
"""

from __future__ import annotations

from collections.abc import Sequence

from connect_reconciler.model.offsets import Offsets, sink_partition
from connect_reconciler.model.reasons import Effect, EffectCode, Effects, effect
from connect_reconciler.plan.consequences.rule import Setting, first_start
from connect_reconciler.plan.offsets.moves import label_of, place_of
from connect_reconciler.plan.offsets.sink_positions import may_read
from connect_specs.desired import OffsetEntry

_SHOWN = 3


def beginning(setting: Setting, offsets: Offsets) -> Effects:
    """What the creation does; `offsets` are those that are there under its name."""
    if setting.live.rest_alone or setting.name in setting.live.unread_offsets:
        start = _without_offsets(setting)
        return (
            effect("earlier-offsets-unknown" if start is None else "unless-earlier", start=start),
        )
    if not offsets:
        start = _without_offsets(setting)
        return () if start is None else (start,)
    read = [each for each in offsets if _reads(each, setting) is not False]
    if not read:
        found = effect("earlier-offsets-unused", places=places_of(tuple(offsets)))
        start = _without_offsets(setting)
        return (found,) if start is None else (start, found)
    sure = all(_reads(each, setting) for each in read)
    code: EffectCode = "goes-on-from-earlier" if sure else "may-go-on-from-earlier"
    return (effect(code, places=places_of(read)),)


def places_of(offsets: Sequence[OffsetEntry]) -> Effects | Effect:
    """The first few of these offsets, and how many more there are."""
    shown = tuple(
        effect("offset-at", partition=label_of(each.partition), offset=place_of(each))
        for each in offsets[:_SHOWN]
    )
    more = len(offsets) - _SHOWN
    return effect("and-more", places=shown, count=more) if more > 0 else shown


def _without_offsets(setting: Setting) -> Effect | None:
    if setting.kind == "sink":
        return first_start(setting)
    return effect("source-start") if setting.kind == "source" else None


def _reads(entry: OffsetEntry, setting: Setting) -> bool | None:
    """Whether the config reads what the offset is about; None where only the connector knows."""
    if setting.kind == "sink":
        at = sink_partition(entry.partition)
        return at is not None and may_read(setting.new, at[0])
    file = setting.new.get("file", "")
    known = "FileStreamSource" in setting.new.get("connector.class", "") and "file" not in (
        setting.hidden
    )
    if not known or "${" in file:
        return None
    return entry.partition == {"filename": file}
