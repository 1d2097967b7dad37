"""The rows of an experiment: the method that each is made of, and the settings that reach it."""

from __future__ import annotations

from typing import Any

from adapcla.errors import UsageError
from adapcla.generation.generator import generator_for
from adapcla.pipeline.settings import RowSettings
from adapcla.training.settings import METHODS

#: Row of the method table, and changed settings.
Row = tuple[str, dict[str, Any]]


def chosen_methods(text: str) -> tuple[str, ...]:
    """The rows that `all`, `none`, or names with commas stand for; an unknown name is refused with the nearest one.

    >>> chosen_methods("halo, lstm"), chosen_methods("none")
    (('halo', 'lstm'), ())
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["all"]:
        return tuple(name for name, row in METHODS.items() if row.row.usual)
    if names == ["none"]:
        return ()
    for name in names:
        generator_for(name)
    return tuple(dict.fromkeys(names))


def known_settings(method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The changes that this row's family of networks knows; a name that no family knows stays, to be refused.

    >>> known_settings("eva", {"heads": 2, "width": 64, "widht": 3})
    {'width': 64, 'widht': 3}
    """
    from adapcla.models.registry import FAMILIES

    row = METHODS[method].settings
    somewhere = {name for family in FAMILIES.values() for name in family.architecture.model_fields}
    mine = set(type(row.architecture).model_fields)
    return {name: value for name, value in settings.items() if name in mine or name not in somewhere}


def checked_rows(fit: RowSettings) -> dict[str, Row]:
    """The rows of a study by name; what cannot be trained, or would be trained twice, is refused."""
    rows = {name: checked_row(method, settings) for name, (method, settings) in fit.rows().items()}
    for name, variant in fit.variants.items():
        # What is set for all rows reaches those that know it; what is set for one row must be known to it.
        for setting in sorted(set(variant.settings) - set(rows[name][1])):
            raise UsageError(f"fit.variants.{name}.settings: {variant.method} has no setting {setting!r}")
    same: dict[str, str] = {}
    for name, (method, settings) in rows.items():
        content = generator_for(method, **settings).settings.model_dump(exclude={"method"})
        first = same.setdefault(repr(content), name)
        if first != name:
            raise UsageError(
                f"rows {first!r} and {name!r} have the same settings, so that they are one row with two names\n"
                "to do: leave one out, or do not set for all rows what they differ in"
            )
    return rows


def modes_of(method: str, modes: tuple[str, ...]) -> tuple[str, ...]:
    """The ways in which a row is drawn for a target; one that cannot be steered stands there as it is.

    >>> modes_of("synteg", ("none", "paper")), modes_of("eva", ("paper",))
    (('none',), ('paper',))
    """
    return modes if "toward" in METHODS[method].supports else ("none",)


def checked_row(method: str, settings: dict[str, Any]) -> Row:
    """A method with the settings that reach it; an unknown name of either is refused with the nearest one."""
    generator_for(method)
    known = known_settings(method, settings)
    generator_for(method, **known)
    return method, known
