"""A number that cannot exist without unit, kind and source.

Does not know whether the source is right, only that it is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

Kind = Literal["published", "measured", "derived", "assumed"]
KINDS: tuple[Kind, ...] = ("published", "measured", "derived", "assumed")
"""From the strongest to the weakest; a result is as strong as its weakest input."""

T = TypeVar("T")


class Frozen(BaseModel):
    """Base of every profile part: immutable, no unknown keys, no type conversion, no NaN, no infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class CitedValue(Frozen, Generic[T]):
    """One stored value with its evidence.

    Attributes
    ----------
    value : T
        Number, text, list or table, in `unit`.
    unit : str
        SI unit as the field states it ("B/s", "J/MAC", "1" for a pure number, "text" for words).
    kind : {"published", "measured", "derived", "assumed"}
        How it is known. `derived` carries `formula`; `assumed` carries `low`, `high` and a `note` with
        the reasoning.
    source : str
        Key of references.bib, or several keys separated by commas.
    low, high : T, optional
        Range; both or neither, low <= value <= high, element by element.
    formula : str, optional
        Arithmetic over cited fields; recomputed by `check`.
    note : str, optional
        What a reader should know before trusting the value.
    """

    value: T
    unit: str
    kind: Kind
    source: str
    low: T | None = None
    high: T | None = None
    formula: str | None = None
    note: str | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The reference keys, in order."""
        return tuple(part.strip() for part in self.source.split(",") if part.strip())

    @field_validator("source")
    @classmethod
    def _source_named(cls, source: str) -> str:
        if not any(part.strip() for part in source.split(",")):
            raise ValueError("is empty; allowed: one or more keys of references.bib, separated by commas")
        return source

    @model_validator(mode="after")
    def _evidence_complete(self) -> CitedValue[T]:
        numbers = list(flat_numbers(self.value))
        if (self.low is None) != (self.high is None):
            raise ValueError("has only one of low and high; give both or neither")
        if self.kind == "assumed":
            if numbers and self.low is None:
                raise ValueError("has kind 'assumed' without a range; an assumed number needs low and high")
            if not self.note:
                raise ValueError("has kind 'assumed' without a note; say why the value is reasonable")
        if self.kind == "derived" and not self.formula:
            raise ValueError("has kind 'derived' without a formula")
        if self.kind != "derived" and self.formula:
            raise ValueError(f"has a formula but kind {self.kind!r}; a formula belongs to kind 'derived'")
        if self.low is not None and self.high is not None:
            lows, highs = list(flat_numbers(self.low)), list(flat_numbers(self.high))
            if not len(lows) == len(numbers) == len(highs):
                raise ValueError("has low and high of another shape than value")
            for low, middle, high in zip(lows, numbers, highs, strict=True):
                if not low <= middle <= high:
                    raise ValueError(f"has value {middle:g} outside its range {low:g} to {high:g}")
        return self


def flat_numbers(value: object) -> Iterator[float]:
    """Yield the numbers in a value, list or table, in order; text yields nothing."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, (int, float)):
        yield float(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from flat_numbers(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from flat_numbers(item)


def unit(expected: str) -> AfterValidator:
    """Return a validator that refuses any unit but `expected`."""

    def check(cited: CitedValue[Any]) -> CitedValue[Any]:
        if cited.unit != expected:
            raise ValueError(f"has unit {cited.unit!r}; allowed: {expected!r}")
        return cited

    return AfterValidator(check)


def _rule(test: Callable[[Any], bool], message: str) -> AfterValidator:
    def check(cited: CitedValue[Any]) -> CitedValue[Any]:
        for part in (cited.value, cited.low, cited.high):
            if part is not None and not test(part):
                raise ValueError(message)
        return cited

    return AfterValidator(check)


def _ascending(levels: tuple[float, ...]) -> bool:
    return len(levels) > 0 and all(a < b for a, b in pairwise(levels))


def _is_curve(points: tuple[tuple[float, float], ...]) -> bool:
    return bool(points) and tuple(points[0]) == (1.0, 1.0) and _ascending(tuple(p[0] for p in points))


def _same_widths(cited: CitedValue[Any]) -> CitedValue[Any]:
    widths = [point[0] for point in cited.value]
    for end in (cited.low, cited.high):
        if end is not None and [point[0] for point in end] != widths:
            raise ValueError(f"has low or high at other widths than value; needed: {widths}")
    return cited


ascending = _rule(_ascending, "must be a list of numbers in strictly rising order")
curve_shape = _rule(_is_curve, "must start with [1, 1] and rise strictly in width")
same_widths = AfterValidator(_same_widths)

NonNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]

Flag = Annotated[CitedValue[bool], unit("bool")]
Text = Annotated[CitedValue[str], unit("text")]
Number = Annotated[CitedValue[NonNegative], unit("1")]
Fraction = Annotated[CitedValue[Share], unit("1")]
Efficiency = Annotated[CitedValue[PositiveShare], unit("1")]
Bytes = Annotated[CitedValue[NonNegative], unit("B")]
BytesPerSecond = Annotated[CitedValue[Positive], unit("B/s")]
Hertz = Annotated[CitedValue[Positive], unit("Hz")]
HertzLevels = Annotated[CitedValue[tuple[NonNegative, ...]], unit("Hz"), ascending]
HertzTable = Annotated[CitedValue[tuple[tuple[NonNegative, NonNegative], ...]], unit("Hz")]
Seconds = Annotated[CitedValue[NonNegative], unit("s")]
SecondsTable = Annotated[CitedValue[dict[str, NonNegative]], unit("s")]
Joules = Annotated[CitedValue[NonNegative], unit("J")]
JoulesPerByte = Annotated[CitedValue[NonNegative], unit("J/B")]
JoulesPerMac = Annotated[CitedValue[NonNegative], unit("J/MAC")]
JoulesPerToken = Annotated[CitedValue[NonNegative], unit("J/token")]
Watts = Annotated[CitedValue[NonNegative], unit("W")]
WattsTable = Annotated[CitedValue[dict[str, NonNegative]], unit("W")]
AmperesTable = Annotated[CitedValue[dict[str, NonNegative]], unit("A")]
MacsPerSecond = Annotated[CitedValue[Positive], unit("MAC/s")]
TokensPerSecond = Annotated[CitedValue[Positive], unit("token/s")]
Celsius = Annotated[CitedValue[tuple[NonNegative, ...]], unit("degC"), ascending]
CelsiusOne = Annotated[CitedValue[NonNegative], unit("degC")]
Curve = Annotated[CitedValue[tuple[tuple[Positive, Positive], ...]], unit("1"), curve_shape, same_widths]
