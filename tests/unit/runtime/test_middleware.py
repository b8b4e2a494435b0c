"""Chains: order, edits by entry or class, stopping, freezing."""

from __future__ import annotations

from contextlib import contextmanager, suppress

import pytest

from offsider.core.errors import ConfigurationError
from offsider.runtime.middleware import MiddlewareChain
from tests.middleware import returning


class Marks:
    """Adds its mark to the subject, and in capitals to the result."""

    def __init__(self, mark):
        self.mark = mark

    def __call__(self, subject):
        subject.append(self.mark)
        result = yield
        return f"{result}{self.mark.upper()}"


class Other(Marks):
    pass


def names(chain):
    return [entry.mark for entry in chain]


def chain_of(*marks):
    return MiddlewareChain([Marks(mark) for mark in marks])


def test_the_first_entry_is_the_outermost():
    subject = []
    assert chain_of("a", "b").run(subject, "".join) == "abBA"


def test_an_empty_chain_runs_the_function_itself():
    assert MiddlewareChain().run([1, 2], len) == 2


def test_returning_before_the_yield_skips_the_inner_entries():
    subject = []
    chain = MiddlewareChain([Marks("a"), returning("early"), Marks("b")])
    assert chain.run(subject, raises) == "earlyA"
    assert subject == ["a"]


def test_a_result_stays_unless_middleware_returns_another():
    assert MiddlewareChain([lambda subject: (yield) and None, lambda subject: (yield)]).run(1, str) == "1"


def raises(_subject):
    raise KeyError("inside")


def catching(kind):
    def middleware(subject):
        try:
            yield
        except kind as error:
            subject.append(error)

    return middleware


def test_an_error_reaches_the_entries_from_the_inside_until_one_ends_it():
    seen = []

    def replaces(_subject):
        try:
            yield
        except KeyError as error:
            raise LookupError("outside") from error

    assert (
        MiddlewareChain([Marks("a"), catching(LookupError), replaces, catching(OSError)]).run(seen, raises) == "NoneA"
    )
    assert [repr(error) for error in seen[1:]] == ["LookupError('outside')"]
    with pytest.raises(LookupError, match="outside"):
        MiddlewareChain([catching(OSError), replaces]).run([], raises)


@pytest.mark.parametrize("error", [StopIteration("it"), GeneratorExit(), SystemExit(3), RuntimeError("generator")])
def test_any_error_leaves_the_chain_unchanged_and_with_a_short_traceback(error):
    def fails(_subject):
        raise error

    with pytest.raises(type(error)) as raised:
        MiddlewareChain([lambda subject: (yield), catching(OSError)]).run([], fails)
    assert raised.value is error
    assert [entry.name for entry in raised.traceback[1:]] == ["run", "leave_by_error", "fails"]


def test_an_error_after_the_yield_replaces_the_result():
    def fails(_subject):
        yield
        raise LookupError("afterwards")

    seen = []
    assert MiddlewareChain([catching(LookupError), fails]).run(seen, len) is None
    assert len(seen) == 1


@pytest.mark.parametrize("innermost", [len, raises], ids=["after a result", "after an error"])
def test_a_second_yield_is_an_error_that_names_the_middleware(innermost):
    def twice(_subject):
        with suppress(KeyError):
            yield
        yield

    with pytest.raises(ConfigurationError, match=r"twice yielded twice: middleware yields once"):
        MiddlewareChain([twice]).run([], innermost)


def test_an_entry_is_skipped_for_a_subject_that_does_not_concern_it():
    class Strict(Marks):
        def concerns(self, subject):
            return "strict" in subject

    chain = MiddlewareChain([Strict("x")])
    assert [chain.run([word], "".join) for word in ("strict", "lax")] == ["strictxX", "lax"]


def test_a_chain_is_a_decorator():
    chain = MiddlewareChain()

    @chain
    def passes(_subject):
        yield

    assert [*chain] == [passes]


def test_adding_an_entry_again_moves_it_to_the_end():
    chain = chain_of("a", "b")
    first = next(iter(chain))
    chain.add(first)
    assert names(chain) == ["b", "a"]


def test_several_entries_are_prepended_in_their_order():
    chain = chain_of("c")
    chain.prepend(Marks("a"), Marks("b"))
    assert names(chain) == ["a", "b", "c"]


def test_a_bound_method_is_found_again():
    class Holder:
        def middleware(self, subject):
            yield

    holder = Holder()
    chain = MiddlewareChain([holder.middleware])
    chain.remove(holder.middleware)
    assert len(chain) == 0


def test_places_are_named_by_entry_or_class():
    chain = MiddlewareChain([Marks("a"), Other("z")])
    chain.insert_before(Other, Marks("b"))
    chain.insert_after(next(iter(chain)), Marks("c"))
    assert names(chain) == ["a", "c", "b", "z"]
    assert Other in chain
    chain.remove(Other)
    assert Other not in chain
    assert names(chain) == ["a", "c", "b"]
    chain.remove(Other)
    chain.clear()
    assert names(chain) == []


@pytest.mark.parametrize("edit", ["insert_before", "insert_after"])
def test_an_unknown_position_raises(edit):
    with pytest.raises(ConfigurationError, match="does not contain"):
        getattr(chain_of("a"), edit)(Other, Marks("b"))


def test_a_class_instead_of_an_object_is_refused_with_the_next_step():
    with pytest.raises(ConfigurationError, match=r"add Marks\(\)"):
        MiddlewareChain(what="config.server_middleware").add(Marks)


@contextmanager
def managed(_subject):
    yield


async def awaited(_subject):
    yield


@pytest.mark.parametrize("entry", ["no", lambda push, call_next: call_next(push), managed, awaited])
def test_what_is_not_a_generator_function_is_refused(entry):
    with pytest.raises(TypeError, match=r"config\.x expects a generator function, got .*: write `def middleware"):
        MiddlewareChain(what="config.x").add(entry)


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
