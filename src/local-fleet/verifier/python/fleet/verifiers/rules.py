"""What a list of allowed changes says about one row. Pure functions: None, or why the row is not as allowed."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Row = Mapping[str, Any]
    Spec = Mapping[str, Any]
    Ignored = Callable[[str], bool]


def _parsed_json(value: object) -> object:
    if isinstance(value, str):
        text = value.strip()
        if (text[:1], text[-1:]) in (("{", "}"), ("[", "]")):
            return json.loads(text)
    raise ValueError


def equivalent(one: object, other: object) -> bool:
    """Equal, or two JSON texts of equal content."""
    if one == other:
        return True
    try:
        return bool(_parsed_json(one) == _parsed_json(other))
    except ValueError:
        return False


def expected_fields(pairs: Iterable[Any]) -> dict[str, Any]:
    """Field -> the value it must have; `...` accepts any value, None is SQL NULL."""
    fields: dict[str, Any] = {}
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(
                f"Invalid field spec tuple: {pair}. "
                "Expected 2-tuple like ('field', value), ('field', None), or ('field', ...)"
            )
        fields[pair[0]] = pair[1]
    return fields


def fits(expected: object, actual: object) -> bool:
    return expected is ... or equivalent(expected, actual)


def changed_fields(before: Row, after: Row, ignored: Ignored) -> dict[str, tuple[Any, Any]]:
    """Field -> its value before and after, in the order of the columns."""
    names = dict.fromkeys((*before, *after))
    return {
        name: (before.get(name), after.get(name))
        for name in names
        if not ignored(name) and not equivalent(before.get(name), after.get(name))
    }


def strictness(spec: Spec, where: str) -> bool:
    """A modification that names its resulting fields must say whether others may change."""
    if "no_other_changes" not in spec:
        raise ValueError(
            f"Modify spec for {where} has 'resulting_fields' but missing required 'no_other_changes' field."
        )
    strict = spec["no_other_changes"]
    if not isinstance(strict, bool):
        raise ValueError(f"Modify spec for {where} 'no_other_changes' must be boolean, got {type(strict).__name__}")
    return strict


def legacy_verdict(
    table: str, pk: object, before: Row | None, after: Row | None, specs: list[Spec], ignored: Ignored
) -> str | None:
    """The rules of `expect_only`: one spec a field, `__added__` and `__removed__` for whole rows."""
    if before is not None and after is not None:
        for field, (was, now) in changed_fields(before, after, ignored).items():
            if not any(s.get("field") == field and equivalent(s.get("after"), now) for s in specs):
                return f"Unexpected change in table '{table}', row {pk}, field '{field}': {was!r} -> {now!r}"
    elif after is not None and not any(s.get("after") == "__added__" for s in specs):
        return f"Unexpected row added in table '{table}': {pk}"
    elif before is not None and after is None and not any(s.get("after") == "__removed__" for s in specs):
        return f"Unexpected row removed from table '{table}': {pk}"
    return None


def typed_verdict(
    table: str, pk: object, before: Row | None, after: Row | None, specs: list[Spec], ignored: Ignored
) -> str | None:
    """The rules of `expect_only_v2`: `type` insert, modify or delete with fields, and the older forms."""
    if before is not None and after is not None:
        return _modified(table, pk, before, after, specs, ignored)
    if after is not None:
        return _inserted(table, pk, after, specs, ignored)
    if before is not None:
        return _deleted(table, pk, before, specs)
    return None


def _of_type(specs: list[Spec], kind: str) -> Spec | None:
    return next((spec for spec in specs if spec.get("type") == kind), None)


def _whole_row(specs: list[Spec], mark: str) -> bool:
    return any(spec.get("fields") is None and spec.get("after") == mark for spec in specs)


def _inserted(table: str, pk: object, row: Row, specs: list[Spec], ignored: Ignored) -> str | None:
    spec = _of_type(specs, "insert")
    if spec is None:
        added = _whole_row(specs, "__added__")
        return None if added else f"Unexpected row added in table '{table}': pk={pk}"
    if spec.get("fields") is None:
        return None
    wanted = expected_fields(spec["fields"])
    for field, value in row.items():
        if field == "rowid" or ignored(field):
            continue
        if field not in wanted:
            return f"Field '{field}' not in insert spec for table '{table}' pk={pk}"
        if not fits(wanted[field], value):
            return (
                f"Insert mismatch in table '{table}' pk={pk}, field '{field}': "
                f"expected {wanted[field]!r}, got {value!r}"
            )
    return None


def _deleted(table: str, pk: object, row: Row, specs: list[Spec]) -> str | None:
    spec = _of_type(specs, "delete")
    if spec is None:
        removed = _whole_row(specs, "__removed__")
        return None if removed else f"Unexpected row removed from table '{table}': pk={pk}"
    for field, value in expected_fields(spec.get("fields") or ()).items():
        if field not in row:
            return f"Field '{field}' in delete spec not found in row for table '{table}' pk={pk}"
        if not fits(value, row[field]):
            return (
                f"Delete mismatch in table '{table}' pk={pk}, field '{field}': expected {value!r}, got {row[field]!r}"
            )
    return None


def _modified(table: str, pk: object, before: Row, after: Row, specs: list[Spec], ignored: Ignored) -> str | None:
    changes = changed_fields(before, after, ignored)
    if not changes:
        return None
    spec = _of_type(specs, "modify")
    if spec is None:
        for field, (was, now) in changes.items():
            if not any(s.get("field") == field and equivalent(s.get("after"), now) for s in specs):
                return f"Unexpected change in table '{table}' pk={pk}, field '{field}': {was!r} -> {now!r}"
        return None
    if spec.get("resulting_fields") is None:
        return None
    strict = strictness(spec, f"table '{table}' pk={pk}")
    wanted = expected_fields(spec["resulting_fields"])
    for field, (_, now) in changes.items():
        if field not in wanted:
            if strict:
                return f"Unexpected field change in table '{table}' pk={pk}: field '{field}' not in resulting_fields"
        elif not fits(wanted[field], now):
            return (
                f"Modify mismatch in table '{table}' pk={pk}, field '{field}': expected {wanted[field]!r}, got {now!r}"
            )
    return None
