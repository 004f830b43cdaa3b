"""Options: what a class or a function takes, said once by the annotations of its signature.

`beam: Count`, `heads: Literal["mean", "max"]`, `share: Share`: plug-ins write the same. The types
are pydantic's, so that a configuration can be checked against them before anything runs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

Count = Annotated[int, Field(ge=1, lt=2**31)]
Natural = Annotated[int, Field(ge=0, lt=2**31)]
Size = Annotated[int, Field(ge=1, le=10**9)]  # of a vocabulary or a layer
Few = Annotated[int, Field(ge=1, le=1_000)]  # each costs a thread, a layer or a row of its own
Seed = Annotated[int, Field(ge=0, lt=2**32)]  # what torch and numpy both take
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1)]
Part = Annotated[float, Field(gt=0, le=1)]
Chance = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0, lt=1)]  # of dropout, of smoothing
Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[Sequence[Text], Field(min_length=1)]


def like(pattern: str, words: str) -> AfterValidator:
    """Return a check that the whole of a text matches a pattern.

    Args:
        pattern: a regular expression.
        words: what such a text is, for the error.
    """

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text, re.DOTALL):
            raise ValueError(words)
        return text

    return AfterValidator(check)


class Section(BaseModel):
    """A part of the configuration: what is not in it is a slip, and nothing is coerced."""

    model_config = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)


def section(made_by: Callable[..., Any], but: Iterable[str] = ()) -> type[BaseModel]:
    """Return the schema of a class or function by its signature.

    Args:
        made_by: the class or function.
        but: arguments that are not configured.
    """
    return _section(made_by, frozenset(but))


@cache  # building a schema takes longer than checking values against it
def _section(made_by: Callable[..., Any], but: frozenset[str]) -> type[BaseModel]:
    # A class's own annotations are those of its attributes, which for a dataclass are the same; its
    # `__init__` may name types that only the module of a base imports.
    on_init = inspect.isclass(made_by) and not is_dataclass(made_by)
    function = made_by.__init__ if on_init else made_by  # type: ignore[misc]
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError):  # a plug-in's annotations that cannot be read check nothing
        hints = {}
    left_out, fields = {"self", "return", *but}, {}
    open_ended = False
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            open_ended = True
        elif parameter.kind is not parameter.VAR_POSITIONAL and name not in left_out:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (_with_sections(hints.get(name, Any)), default)
    config = ConfigDict(
        strict=True,
        extra="allow" if open_ended else "forbid",
        arbitrary_types_allowed=True,
        protected_namespaces=(),
    )
    return create_model(made_by.__name__, __config__=config, **fields)  # type: ignore[call-overload]


def _with_sections(hint: Any) -> Any:
    """Return an annotation in which each dataclass is the schema of its own options."""
    if isinstance(hint, UnionType):
        return reduce(or_, map(_with_sections, get_args(hint)))
    return section(hint) if inspect.isclass(hint) and is_dataclass(hint) else hint


def faults(schema: type[BaseModel], values: Any, where: str = "") -> Iterator[str]:
    """Yield the faults of some values, one line each, by the full name of the leaf.

    Args:
        schema: what they should be.
        values: as plain Python values.
        where: the name of the node that holds them.
    """
    if not isinstance(values, Mapping):
        yield f"{where}={_shown(values)}: should be a group of options"
        return
    try:
        schema.model_validate({name: v for name, v in values.items() if name != "_target_"})
    except ValidationError as error:
        named = set()
        for problem in error.errors():
            # The branches of a union stand behind the leaf's name.
            path = [str(part) for part in problem["loc"]]
            value: Any = values
            leaf: list[str] = []
            for part in path:
                inside = isinstance(value, Mapping) and part in value
                item = isinstance(value, list) and part.isdigit() and int(part) < len(value)
                if not (inside or item):
                    break
                value = value[part] if inside else value[int(part)]
                leaf.append(part)  # as far as the value goes
            # Such a name is not in the values, so the walk above stops before it.
            if problem["type"] in ("missing", "extra_forbidden"):
                leaf = path
            name = ".".join(filter(None, [where, *leaf]))
            # A union reports a fault for each branch; one line is enough.
            if name not in named:
                named.add(name)
                yield f"{name}{_wrong(problem, value, schema, path)}"


def _wrong(problem: Any, value: Any, schema: type[BaseModel], path: list[str]) -> str:
    """Return a problem in words."""
    if problem["type"] == "extra_forbidden":
        near = get_close_matches(path[-1], schema.model_fields, n=1)
        return f": no such option{f'; did you mean {near[0]}?' if near else ''}"
    if problem["type"] == "missing":
        return ": is required"
    shown = _shown(value)
    if problem["type"] == "string_too_short":
        return "=: should not be empty"
    if problem["type"] == "too_short" and not value:
        return f"={shown}: should not be empty"
    if problem["type"] == "sequence_str":
        return f"={shown}: should be a list, such as [{value}]"
    message = problem["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return f"={shown}: should be {message}"


def _shown(value: Any) -> Any:
    """Return a value as a command line or Python has it."""
    return "null" if value is None else repr(value) if isinstance(value, str) else value
