"""Every effect and every reason has its sentence."""

from __future__ import annotations

from string import Formatter
from typing import get_args

from connect_reconciler.model.reasons import EffectCode, ReasonCode, as_effects, effect
from connect_reconciler.plan.consequences.explain import RULES
from connect_reconciler.render.effects import SENTENCES, effect_text, lines_of_effects
from connect_reconciler.render.words import REASONS


def test_every_code_has_a_sentence() -> None:
    assert SENTENCES.keys() == set(get_args(EffectCode))
    assert REASONS.keys() == set(get_args(ReasonCode))


def test_a_rule_that_gives_a_code_alone_needs_no_more_to_be_told() -> None:
    codes = [rule.effect for rule in RULES if isinstance(rule.effect, str)]
    assert len(codes) > 40
    for code in codes:
        assert [name for _, name, _, _ in Formatter().parse(SENTENCES[code]) if name] == []


def test_effects_can_be_parts_of_others() -> None:
    places = tuple(effect("offset-at", partition=f"t-{n}", offset=str(n)) for n in range(2))
    more = effect("and-more", places=places, count=1200)
    assert effect_text(effect("start-from-group", places=more)) == (
        "goes on from the offsets that the group has, t-0 at 0, t-1 at 1 and 1,200 more"
    )


def test_what_is_not_known_is_not_told() -> None:
    start = effect("start-at-beginning", amount=effect("to-deliver", count=1), again=None)
    assert effect_text(start) == "starts at the beginning of its topics, 1 offset to deliver"


def test_text_of_others_is_shown_as_it_is() -> None:
    assert lines_of_effects(as_effects("{a} {}\n%s")) == "{a} {}\n%s"
