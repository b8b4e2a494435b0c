"""Rich arguments by annotation: plain JSON in the payload, and the annotated types in the job."""

import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, computed_field, field_serializer

from offsider import Job, JobId, job
from offsider.core.errors import ConfigurationError, InvalidArguments, InvalidJob, InvalidOptions
from offsider.jobs.codec import AnnotationCodec

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=timezone(timedelta(hours=1)))
KEY = UUID("0ffa38b8-0273-48f1-8fce-163b37bd813f")


class Colour(Enum):
    RED = "red"


@dataclass
class Line:
    amount: Decimal
    at: datetime
    tags: list[str] = field(default_factory=list)


@dataclass
class Tree:
    key: int
    children: "list[Tree]"


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Order(BaseModel):
    number: int = Field(alias="no")
    at: date


@dataclass
class Picky:
    word: str

    def __post_init__(self) -> None:
        raise ValueError(f"no {self.word} - at all")


class Written(BaseModel):
    word: str

    @field_serializer("word")
    def of_others(self, value: str) -> str:
        raise ValueError(f"no {value}")


@dataclass(eq=False)
class Box:
    things: list[Any]


class Cell(msgspec.Struct, eq=False):
    things: list[Any]


JID: JobId[Any] = JobId("5a1")
CYCLE: list[Any] = []
CYCLE.append(CYCLE)
SUNDIAL = datetime(1890, 1, 1, 12, 0, tzinfo=timezone(timedelta(minutes=53, seconds=28)))


class Level(IntEnum):
    HIGH = 2


class Word(StrEnum):
    A = "a"


class Own(str):  # noqa: SLOT000
    def __str__(self) -> str:
        return "another text"


class Named(NamedTuple):
    jid: str


@dataclass(frozen=True)
class Told:
    jid: str


class Note(BaseModel):
    jid: str


@pytest.mark.parametrize(
    "annotation, value, in_json",
    [
        (datetime, NOON, "2026-11-22T12:00:00+01:00"),
        (date, date(2026, 11, 22), "2026-11-22"),
        (time, time(12, 30), "12:30:00"),
        (timedelta, timedelta(minutes=1, milliseconds=500), "PT60.5S"),
        (UUID, KEY, str(KEY)),
        (Decimal, Decimal("1.50"), "1.50"),
        (Colour, Colour.RED, "red"),
        (Literal["a", "b"], "a", "a"),
        (Line, Line(Decimal("0.1"), NOON), {"amount": "0.1", "at": "2026-11-22T12:00:00+01:00", "tags": []}),
        (Tree, Tree(1, [Tree(2, [])]), {"key": 1, "children": [{"key": 2, "children": []}]}),
        (Point, Point(1), {"x": 1, "y": 0}),
        (Order, Order(no=3, at=date(2026, 1, 2)), {"no": 3, "at": "2026-01-02"}),
        (list[Order], [Order(no=3, at=date(2026, 1, 2))], [{"no": 3, "at": "2026-01-02"}]),
        (dict[UUID, datetime], {KEY: NOON}, {str(KEY): "2026-11-22T12:00:00+01:00"}),
        (dict[datetime, int], {NOON: 1}, {"2026-11-22T12:00:00+01:00": 1}),
        (dict[date | None, int], {date(2026, 1, 2): 1}, {"2026-01-02": 1}),
        (dict[Decimal, int], {Decimal("1.50"): 1}, {"1.50": 1}),
        (dict[Colour, dict[float, int]], {Colour.RED: {1.5: 2}}, {"red": {"1.5": 2}}),
        (dict[int, Point], {1: Point(2, 3)}, {"1": {"x": 2, "y": 3}}),
        (tuple[int, date], (1, date(2026, 1, 2)), [1, "2026-01-02"]),
        (set[int], {7}, [7]),
        (Sequence[UUID], [KEY], [str(KEY)]),
        (Mapping[str, Decimal], {"a": Decimal(1)}, {"a": "1"}),
        (Optional[date], None, None),  # noqa: UP045 - both forms
        (date | None, date(2026, 1, 2), "2026-01-02"),
        (Any, [1, {"a": None}], [1, {"a": None}]),
        (object, "x", "x"),
        (list[object], ["x", 1], ["x", 1]),
        (int, 3, 3),
        (int, Level.HIGH, 2),
        (Level, Level.HIGH, 2),
        (str, Word.A, "a"),
        (datetime, SUNDIAL, "1890-01-01T11:06:32+00:00"),
        (str, JID, "5a1"),
        (Optional[str], JID, "5a1"),  # noqa: UP045
        (str | int, JID, "5a1"),
        (list[str], [JID], ["5a1"]),
        (dict[str, str], {JID: JID}, {"5a1": "5a1"}),
        (Literal["5a1"], JID, "5a1"),
        (NewType("Id", str), JID, "5a1"),
        (Annotated[str, msgspec.Meta(max_length=3)], JID, "5a1"),
        (Told, Told(JID), {"jid": "5a1"}),
        (Named, Named(JID), ["5a1"]),
        (Note, Note(jid=JID), {"jid": "5a1"}),
        (Any, {JID: JID}, {"5a1": "5a1"}),
        (JobId, JID, "5a1"),
        (JobId[int] | None, JID, "5a1"),
        (list[JobId[int]], [JID], ["5a1"]),
        (dict[str, JobId[Any]], {"a": JID}, {"a": "5a1"}),
    ],
    ids=str,
)
def test_a_value_is_stored_as_json_and_restored(config, stored, annotation, value, in_json):
    def echo(given):
        return given

    echo.__annotations__ = {"given": annotation}
    declared = job(codec="annotations")(echo)
    declared.enqueue(value)
    assert json.loads(stored[0].raw)["args"] == [in_json]
    assert declared.run_inline(value) == value
    assert declared.declared.bind([in_json], {}) == ([in_json], {})  # the JSON form may be pushed as well


def test_a_job_gets_an_id_that_knows_its_server(config, stored):
    @job(codec="annotations")
    def notify(jid: JobId[int]) -> str:
        return jid.status()

    with pytest.raises(ConfigurationError, match="Results"):  # the message of an id without server is another one
        notify.run_inline(JID)


def test_every_kind_of_parameter_is_converted(config, stored):
    got = []

    @job(codec="annotations")
    def at_positions(day: date, /, *days: date, key: UUID, **more: Decimal) -> None:
        got.append((day, days, key, more))

    call = ((NOON.date(), NOON.date()), {"key": KEY, "price": Decimal("1.5")})
    at_positions.enqueue(*call[0], **call[1])
    payload = stored[0].payload
    assert payload["args"] == ["2026-11-22", "2026-11-22"]
    assert payload["kwargs"] == {"key": str(KEY), "price": "1.5"}
    at_positions.run_inline(*call[0], **call[1])
    assert got == [(NOON.date(), (NOON.date(),), KEY, {"price": Decimal("1.5")})]


def test_the_default_of_a_skipped_parameter_is_converted(config, stored):
    @job(codec="annotations")
    def with_defaults(
        day: date = date(2026, 1, 2),
        until: date = None,  # noqa: RUF013
        *,
        size: int = 1,
    ) -> None: ...

    with_defaults.enqueue(until=None, size=2)
    assert stored[0].payload["args"] == ["2026-01-02", None]


def test_methods_of_class_jobs_are_converted_and_subclasses_inherit_the_option(config, stored):
    class Rich(Job, codec="annotations"):
        pass

    class Bill(Rich):
        def perform(self, line: Line) -> Line:
            return line

    line = Line(Decimal(2), NOON, ["a"])
    Bill.enqueue(line)
    assert stored[0].payload["args"] == [{"amount": "2", "at": "2026-11-22T12:00:00+01:00", "tags": ["a"]}]
    assert Bill.run_inline(line) == line


@pytest.mark.parametrize(
    "annotation, value, reason",
    [
        (datetime, datetime(2026, 1, 1), "without time zone"),  # noqa: DTZ001 - naive on purpose
        (datetime, "2026-01-01T00:00:00", "without time zone"),
        (Line, Line(Decimal(1), datetime(2026, 1, 1)), "without time zone"),  # noqa: DTZ001
        (date, "secret", "Invalid RFC3339 encoded date"),
        (UUID, "secret", "Invalid UUID"),
        (int, "secret", "Expected `int`, got `str`"),
        (Colour, "secret", "unknown value"),
        (list[Literal["a"]], ["secret"], "unknown value - at `$[0]`"),
        (Line, {"amount": "secret"}, "at `$.amount`"),
        (Line, {"amount": "1"}, "missing required field `at`"),
        (Order, {"no": "secret", "at": "2026-01-01"}, "not a valid Order"),
        (list[Order], ["secret"], "not a valid Order"),
        (int, Exception, "type has no JSON form"),
        (dict[datetime, int], {datetime(2026, 1, 1): 1}, "without time zone"),  # noqa: DTZ001
        (date, NOON, "Invalid RFC3339 encoded date; for a date, pass .date() of the datetime"),
        (list[date], [NOON], "at `$[0]`; for a date, pass .date() of the datetime"),
        (date, datetime(2026, 1, 1), "for a date, pass .date() of the datetime"),  # noqa: DTZ001
        (datetime, date(2026, 1, 1), "for a datetime, pass datetime.combine(day, time(), timezone.utc) of the date"),
        (str, KEY, "the UUID would be decoded as str; annotate it with its own class"),
        (dict[str, Any], {"secret": [NOON]}, "the datetime at [...][...] would be decoded as str"),
        (dict[str, int], {1: 2}, "the int at [key] would be decoded as str"),
        (dict[str | int, int], {1: 2, "1": 3}, "the dict would be decoded to another value"),
        (Box, Box([KEY]), "the UUID at .things[...] would be decoded as str"),
        (Cell, Cell([KEY]), "the UUID at .things[...] would be decoded as str"),
        (list[int], {7}, "the set would be decoded as list"),
        (list[Picky], [{"word": "secret"}], "__post_init__ raised ValueError - at `$[0]`"),
        (Written, Written(word="secret"), "Error calling function `of_others`"),
        (str, Own("secret"), "Own has no JSON form; pass a plain str"),
        (list[str], [Own("secret")], "Own has no JSON form; pass a plain str"),
        (JobId[int], 5, "Expected `str`, got `int`"),
        (list, CYCLE, "it is nested too deeply for JSON, or contains itself"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_refused_without_being_shown(config, stored, annotation, value, reason):
    def take(given):
        raise AssertionError

    take.__annotations__ = {"given": annotation}
    declared = job(codec="annotations")(take)
    with pytest.raises(InvalidArguments) as refused:
        declared.enqueue(value)
    assert reason in str(refused.value)
    assert "argument 'given' does not fit its annotation" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert refused.value.__suppress_context__
    assert not stored


def test_arguments_stored_by_other_programs_are_checked_before_the_run(config):
    @job(codec="annotations")
    def visit(day: date, at: datetime = NOON) -> None: ...

    for args in (["tomorrow"], ["2026-01-02", "2026-01-02T00:00:00"]):
        with pytest.raises(InvalidArguments, match=r"visit: argument '(day|at)' does not fit"):
            visit.declared.perform(None, args, {})


class Unknown:
    pass


@dataclass
class Holder:
    thing: Unknown


@pytest.mark.parametrize(
    "annotation, why",
    [
        (Unknown, "Unknown has no JSON form"),
        (Holder, "Unknown has no JSON form"),
        (list[dict[str, Unknown | None]], "Unknown has no JSON form"),
        (datetime | str, "more than one str-like type"),
        (dict[bool, int], "the keys of a dict must be str"),
        (dict[tuple[int, int] | None, int], "the keys of a dict must be str"),
        (msgspec.Raw, "RawType has no JSON form"),
        (BaseModel, "BaseModel has no JSON form"),
    ],
    ids=str,
)
def test_an_annotation_that_json_cannot_carry_is_refused_at_the_declaration(annotation, why):
    def take(given):
        raise AssertionError

    take.__annotations__ = {"given": annotation}
    with pytest.raises(InvalidJob, match="cannot carry parameter 'given'") as refused:
        job(codec="annotations")(take)
    assert why in str(refused.value)
    assert "pydantic model" in str(refused.value)


@dataclass
class Unfinished:
    later: "Later"  # noqa: F821


class UnfinishedModel(BaseModel):
    later: "Later"  # noqa: F821


@pytest.mark.parametrize("annotation", [Unfinished, list[UnfinishedModel]])
def test_the_fields_of_a_class_have_to_be_resolvable_too(annotation):
    with pytest.raises(InvalidJob, match=r"'given': .*Unfinished.*: name 'Later' is not defined; import it"):
        carried(annotation, None)


def test_annotations_have_to_be_resolvable_at_the_declaration():
    def late(given: "Later") -> None: ...  # noqa: F821

    with pytest.raises(InvalidJob, match="name 'Later' is not defined; import it at run time"):
        job(codec="annotations")(late)


def test_another_codec_is_refused():
    with pytest.raises(InvalidOptions, match='codec must be "annotations" or None'):
        job(codec="pickle")(lambda: None)


def test_the_configuration_may_make_it_the_default(config, stored):
    @job
    def visit(day: date) -> date:
        return day

    @job(codec=None)
    def plain(day: str) -> None: ...

    config.jobs["codec"] = "annotations"
    visit.enqueue(date(2026, 1, 2))
    assert stored[0].payload["args"] == ["2026-01-02"]
    assert "codec" not in stored[0].payload
    assert visit.run_inline(date(2026, 1, 2)) == date(2026, 1, 2)
    with pytest.raises(InvalidArguments):
        plain.enqueue(date(2026, 1, 2))


def test_without_msgspec_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "msgspec", None)
    monkeypatch.delitem(sys.modules, "offsider.jobs.codec", raising=False)
    with pytest.raises(ConfigurationError, match=r"offsider\[codec\]"):
        job(codec="annotations")(lambda: None)


class Login(BaseModel):
    name: str
    password: SecretStr | None


class Weight(BaseModel):
    grams: float | None


class Open(BaseModel, extra="allow"):
    @computed_field
    def size(self) -> int:
        return 1


class Event(BaseModel):
    at: datetime
    nested: list[datetime] = []


class StrictModel(BaseModel):
    model_config = ConfigDict(strict=True)
    at: datetime
    price: Decimal


class Hidden(BaseModel):
    shown: int
    hidden: int = Field(default=0, exclude=True)


class LargerOrder(Order):
    note: str = ""


def carried(annotation, value):
    def perform(given): ...

    perform.__annotations__["given"] = annotation
    codec = AnnotationCodec("carried", perform, [*inspect.signature(perform).parameters.values()])
    (plain,), _ = codec.encode([value], {})
    return codec.decode([json.loads(json.dumps(plain))], {})[0][0]


@pytest.mark.parametrize(
    "value, why",
    [
        (Login(name="ann", password="secret"), "the SecretStr at .password would be decoded to another value"),
        (Hidden(shown=1, hidden=2), "the int at .hidden would be decoded to another value"),
        (Weight(grams=float("inf")), "the float at .grams would be decoded as NoneType"),
        (Open(at=NOON), "the datetime at .at would be decoded as str"),
        (Event(at=datetime(2026, 1, 1)), "a datetime without time zone"),  # noqa: DTZ001
        (Event(at=datetime.now(UTC), nested=[datetime(2026, 1, 1)]), "a datetime without time zone"),  # noqa: DTZ001
    ],
)
def test_a_model_that_json_would_change_is_refused(value, why):
    with pytest.raises(InvalidArguments, match=why) as refused:
        carried(type(value), value)
    assert "secret" not in str(refused.value)


def test_a_model_of_a_subclass_is_refused():
    larger = LargerOrder(no=3, at=date(2026, 1, 2), note="x")
    with pytest.raises(InvalidArguments, match="the LargerOrder would be decoded as Order"):
        carried(Order, larger)
    with pytest.raises(InvalidArguments, match=r"the LargerOrder at \[...\] would be decoded as Order"):
        carried(list[Order], [larger])
    assert carried(LargerOrder, larger) == larger


def test_a_strict_model_is_carried():
    value = StrictModel(at=datetime.now(UTC), price=Decimal("1.50"))
    assert carried(StrictModel, value) == value
    assert carried(Hidden, Hidden(shown=1)) == Hidden(shown=1)


def test_a_refused_model_names_the_place_and_not_the_value():
    with pytest.raises(InvalidArguments, match=r"it is not a valid StrictModel: price \(") as refused:
        carried(StrictModel, {"at": "2026-01-01T00:00:00Z", "price": "hunter2"})
    assert "hunter2" not in str(refused.value)


def test_objects_that_do_not_compare_are_carried_and_a_tuple_comes_back_as_a_list():
    assert carried(Box, Box([1])).things == [1]
    assert carried(Cell, Cell(["a"])).things == ["a"]
    assert carried(Sequence[int], (1, 2)) == [1, 2]


def test_an_unknown_field_is_not_shown_either(config):
    class Strict(msgspec.Struct, forbid_unknown_fields=True):
        known: int

    def take(given): ...

    take.__annotations__ = {"given": Strict}
    take = job(codec="annotations")(take)

    with pytest.raises(InvalidArguments, match=r"unknown field$"):
        take.declared.bind([{"x": 1, "secret": 2}], {})
