"""Pydantic models that can never read the JSON that they write are refused when a job declares them."""

import re
from typing import Annotated, Any, Generic, TypeVar

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    Field,
    RootModel,
    SecretBytes,
    SecretStr,
    computed_field,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from offsider import job
from offsider.core.errors import InvalidJob
from offsider.jobs.model_check import check_models

T = TypeVar("T")


class Foreign:
    pass


class OtherName(BaseModel):
    number: int = Field(validation_alias="no")


class WrittenOtherwise(BaseModel):
    number: int = Field(serialization_alias="no")


class ByPath(BaseModel):
    number: int = Field(validation_alias=AliasPath("numbers", 0))


class OnlyByName(BaseModel, validate_by_alias=False, validate_by_name=True):
    number: int = Field(alias="no")


class Excluded(BaseModel):
    number: int = Field(exclude=True)


class Forbidding(BaseModel, extra="forbid"):
    number: int = Field(default=1, serialization_alias="no")


class Arbitrary(BaseModel, arbitrary_types_allowed=True):
    thing: Foreign


class Login(BaseModel):
    password: SecretStr


class Token(BaseModel):
    token: SecretBytes


class Nested(BaseModel):
    others: list[OtherName | None]


class Rooted(RootModel[dict[str, OtherName]]):
    pass


class Held(BaseModel, Generic[T]):
    held: T


@pytest.mark.parametrize(
    "model, why",
    [
        (
            OtherName,
            "the field 'no' is required, but not written: use the same alias for reading and writing, or give it",
        ),
        (WrittenOtherwise, "the field 'number' is required, but not written"),
        (ByPath, "the field 'numbers' is required, but not written"),
        (OnlyByName, "the field 'number' is required, but not written"),
        (Excluded, "the field 'number' is required, but not written"),
        (Forbidding, "the field 'no' is written, but forbidden"),
        (Arbitrary, "the field 'thing' has no JSON form"),
        (Login, "the field 'password' is written as asterisks; give it a serializer"),
        (Token, "the field 'token' is written as asterisks"),
        (Nested, "OtherName cannot read the JSON that it writes"),
        (Rooted, "OtherName cannot read the JSON that it writes"),
        (Held[OtherName], "OtherName cannot read the JSON that it writes"),
    ],
)
def test_a_model_that_cannot_read_what_it_writes_is_refused_at_the_declaration(model, why):
    def take(given):
        raise AssertionError

    take.__annotations__ = {"given": dict[str, model]}
    with pytest.raises(InvalidJob, match=f"cannot carry parameter 'given'.*{re.escape(why)}"):
        job(codec="annotations")(take)


class ReadByBoth(BaseModel, populate_by_name=True, extra="forbid"):
    number: int = Field(validation_alias="no")
    other: int = Field(validation_alias=AliasChoices("one", "other"))

    @computed_field
    def twice(self) -> int:
        raise AssertionError


class Optionals(BaseModel, arbitrary_types_allowed=True):
    number: int = Field(default=1, exclude=True)
    thing: Foreign | None
    parsed: Annotated[Foreign, BeforeValidator(lambda value: value)]
    children: "list[Optionals]" = []


class Reshaped(BaseModel):
    number: int = Field(validation_alias="no")

    @model_validator(mode="before")
    @classmethod
    def rename(cls, data: Any) -> Any:
        raise AssertionError


class WrittenByHand(BaseModel):
    number: int = Field(validation_alias="no")

    @model_serializer
    def write(self) -> dict[str, Any]:
        raise AssertionError


class Picky(BaseModel):
    number: int = Field(validation_alias="no")

    @field_validator("number", mode="before")
    @classmethod
    def of_text(cls, value: Any) -> int:
        return int(value.strip())


class Readable(BaseModel):
    password: SecretStr
    token: SecretStr

    @field_serializer("password")
    def shown(self, value: SecretStr) -> str:
        return value.get_secret_value()

    @field_serializer("token")
    def checked(self, value: SecretStr) -> str:
        raise LookupError


class NoField(BaseModel):
    pass


@pytest.mark.parametrize(
    "model", [ReadByBoth, Optionals, Reshaped, WrittenByHand, Readable, NoField, RootModel[list[int]], Held[int], Held]
)
def test_a_model_that_may_read_what_it_writes_is_accepted(model):
    check_models(model)


def test_a_validator_that_does_not_expect_null_does_not_end_the_check():
    class Crashing(BaseModel):
        number: int

        @field_validator("number", mode="before")
        @classmethod
        def of_text(cls, value: Any) -> int:
            return int(value.strip())

    check_models(Crashing)
    with pytest.raises(ValueError, match="'no' is required"):
        check_models(Picky)
