"""Chains: order, edits by entry or class, stopping, freezing."""

from __future__ import annotations

import pytest

from offsider.core.errors import ConfigurationError
from offsider.runtime.middleware import Chain, Push


class Marks:
    """Adds its mark before the call and, in capitals, after it."""

    def __init__(self, mark):
        self.mark = mark

    def __call__(self, subject, call_next):
        return [self.mark, *call_next([*subject, self.mark]), self.mark.upper()]


class Other(Marks):
    pass


def names(chain):
    return [entry.mark for entry in chain]


def chain_of(*marks):
    return Chain([Marks(mark) for mark in marks])


def test_the_first_entry_is_the_outermost():
    run = chain_of("a", "b").compose(lambda subject: [f"<{''.join(subject)}>"])
    assert run([]) == ["a", "b", "<ab>", "B", "A"]


def test_an_empty_chain_composes_to_the_function_itself():
    assert Chain().compose(len)([1, 2]) == 2


def test_middleware_that_does_not_call_next_stops_the_job():
    chain = Chain([lambda push, call_next: None])
    assert chain.compose(lambda push: push)(Push({"class": "X", "args": []})) is None


def test_a_composed_chain_does_not_change():
    chain = chain_of("a")
    run = chain.compose(lambda subject: [])
    chain.clear()
    assert run([]) == ["a", "A"]
    assert len(chain) == 0


def test_adding_an_entry_again_moves_it_to_the_end():
    chain = chain_of("a", "b")
    first = next(iter(chain))
    chain.add(first)
    assert names(chain) == ["b", "a"]


def test_several_entries_are_prepended_in_their_order():
    chain = chain_of("c")
    chain.prepend(Marks("a"), Marks("b"))
    assert names(chain) == ["a", "b", "c"]


def test_places_are_named_by_entry_or_class():
    chain = Chain([Marks("a"), Other("z")])
    chain.insert_before(Other, Marks("b"))
    chain.insert_after(next(iter(chain)), Marks("c"))
    assert names(chain) == ["a", "c", "b", "z"]
    assert Other in chain
    chain.remove(Other)
    assert Other not in chain
    assert names(chain) == ["a", "c", "b"]
    chain.remove(Other)


def test_moving_an_entry_next_to_another_uses_the_final_position():
    a, b, c = Marks("a"), Marks("b"), Marks("c")
    chain = Chain([a, b, c])
    chain.insert_after(c, a)
    assert names(chain) == ["b", "c", "a"]


def test_bound_methods_are_found_again():
    class Holder:
        def middleware(self, subject, call_next):
            return call_next(subject)

    holder = Holder()
    chain = Chain([holder.middleware])
    chain.remove(holder.middleware)
    assert len(chain) == 0


@pytest.mark.parametrize("edit", ["insert_before", "insert_after"])
def test_an_unknown_position_raises(edit):
    with pytest.raises(ConfigurationError, match="does not contain"):
        getattr(chain_of("a"), edit)(Other, Marks("b"))


def test_a_class_instead_of_an_object_is_refused_with_the_next_step():
    with pytest.raises(ConfigurationError, match=r"add Marks\(\)"):
        Chain(what="config.server_middleware").add(Marks)


def test_a_value_that_is_not_callable_is_refused():
    with pytest.raises(ConfigurationError, match="expects a callable"):
        Chain().add("no")


def test_a_copy_is_open_and_independent():
    chain = chain_of("a")
    chain.freeze()
    copy = chain.copy(what="the copy")
    copy.add(Marks("b"))
    assert (names(chain), names(copy)) == (["a"], ["a", "b"])
    assert "Marks" in repr(copy)


@pytest.mark.parametrize(
    "edit",
    [
        lambda chain: chain.add(Marks("x")),
        lambda chain: chain.prepend(Marks("x")),
        lambda chain: chain.insert_before(Marks, Marks("x")),
        lambda chain: chain.remove(Marks),
        lambda chain: chain.clear(),
    ],
)
def test_a_frozen_chain_refuses_every_edit(edit):
    chain = chain_of("a")
    chain.freeze()
    with pytest.raises(ConfigurationError, match="frozen"):
        edit(chain)
    assert names(chain) == ["a"]
