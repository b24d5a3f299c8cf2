"""The texts of a difference that is not as expected. Verifiers print them, and some look for their words."""

from __future__ import annotations

from .rules import expected_fields, fits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SHOWN = 5
_TYPES = {"insert": "added_rows", "modify": "modified_rows", "delete": "removed_rows"}


def _short_row(row: dict[str, Any], most: int = _SHOWN) -> str:
    shown = [f"{name}={value!r}" for name, value in list(row.items())[:most]]
    more = len(row) - len(shown)
    return "{" + ", ".join(shown + ([f"... +{more} more fields"] if more > 0 else [])) + "}"


def _pairs(fields: list[Any]) -> str:
    shown = [f"{f[0]}={'NOT_CHECKED' if f[1] is ... else repr(f[1])}" for f in fields[:3]]
    more = len(fields) - len(shown)
    return "[" + ", ".join(shown + ([f"... +{more} more"] if more > 0 else [])) + "]"


def _allowed(spec: dict[str, Any]) -> str:
    text = f"Table: {spec.get('table')}, ID: {spec.get('pk')}"
    if spec.get("resulting_fields") is not None:
        return (
            f"{text}, Type: {spec.get('type')}, resulting_fields: {_pairs(spec['resulting_fields'])}, "
            f"no_other_changes: {spec.get('no_other_changes', 'NOT_SET')}"
        )
    if spec.get("fields") is not None:
        return f"{text}, Type: {spec.get('type', 'unspecified')}, Fields: {_pairs(spec['fields'])}"
    if "type" in spec:
        return f"{text}, Type: {spec['type']}"
    return f"{text}, Field: {spec.get('field')}, After: {spec.get('after')!r}"


def unexpected_report(unexpected: list[dict[str, Any]], allowed: list[dict[str, Any]]) -> str:
    lines = ["Unexpected database changes detected:", ""]
    for number, change in enumerate(unexpected[:_SHOWN], 1):
        row = change["row"]
        lines.append(f"{number}. {change['kind'].upper()} in table '{change['table']}':")
        lines.append(f"   Row ID: {row['row_id']}")
        for field, values in list(row.get("changes", {}).items())[:_SHOWN]:
            lines.append(f"   Field: {field}")
            lines.append(f"   Before: {values['before']!r}")
            lines.append(f"   After: {values['after']!r}")
        if change["kind"] == "insertion":
            lines.append("   New row added")
        if change["kind"] == "deletion":
            lines.append("   Row deleted")
        lines += [f"   Why: {change['reason']}", f"   Row data: {_short_row(row['data'])}", ""]
    if len(unexpected) > _SHOWN:
        lines += [f"... and {len(unexpected) - _SHOWN} more unexpected changes", ""]
    lines.append("Allowed changes were:")
    lines += [f"  {number}. {_allowed(spec)}" for number, spec in enumerate(allowed[:3], 1)]
    if len(allowed) > 3:
        lines.append(f"  ... and {len(allowed) - 3} more allowed changes")
    if not allowed:
        lines.append("  (No changes were allowed)")
    return "\n".join(lines)


def _checked(specs: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    for index, spec in enumerate(specs):
        for name in ("type", "table", "pk"):
            if name not in spec:
                raise ValueError(f"Spec at index {index} is missing required '{name}' field. Got: {spec}")
        if spec["type"] not in _TYPES:
            raise ValueError(
                f"Spec at index {index} has invalid type '{spec['type']}'. Must be 'insert', 'modify', or 'delete'."
            )
    return {(spec["table"], str(spec["pk"]), spec["type"]): spec for spec in specs}


def _mismatches(spec: dict[str, Any], row: dict[str, Any], ignored: Callable[[str], bool]) -> list[str]:
    """Why a change that a spec names is not as the spec says."""
    kind, table, pk = spec["type"], spec["table"], row["row_id"]
    given = spec.get("resulting_fields" if kind == "modify" else "fields")
    if given is None:
        return []
    strict = kind == "insert"
    if kind == "modify":
        strict = spec.get("no_other_changes")
        if not isinstance(strict, bool):
            raise ValueError(
                f"Modify spec for table '{table}' pk={pk} has 'resulting_fields' but missing required "
                f"'no_other_changes' field or it is not a boolean: {strict!r}"
            )
    wanted = expected_fields(given)
    values = {name: change["after"] for name, change in row["changes"].items()} if kind == "modify" else row["data"]
    found = []
    for field, value in values.items():
        if field == "rowid" or ignored(field):
            continue
        if field not in wanted:
            if strict:
                found.append(f"    {field}: not specified, actual {value!r}")
        elif not fits(wanted[field], value):
            found.append(f"    {field}: expected {wanted[field]!r}, actual {value!r}")
    return found


def exact_report(
    changes: dict[str, dict[str, Any]],
    specs: list[dict[str, Any]],
    ignored: Callable[[str], Callable[[str], bool]],
) -> str | None:
    """None when the changes are the specs, one to one; else all that differs."""
    wanted = _checked(specs)
    matched: set[tuple[str, str, str]] = set()
    wrong: list[str] = []
    unexpected: list[str] = []
    for table, report in changes.items():
        for kind, rows in _TYPES.items():
            for row in report[rows]:
                key = (table, str(row["row_id"]), kind)
                title = f"{kind.upper()} '{table}' pk={row['row_id']}"
                spec = wanted.get(key)
                if spec is None:
                    unexpected.append(f"{title}\n    No spec was provided for this {kind}.")
                    unexpected[-1] += f"\n    Row data: {_short_row(row['data'])}"
                    continue
                matched.add(key)
                fields = _mismatches(spec, row, ignored(table))
                if fields:
                    wrong.append("\n".join([title, *fields]))
    missing = [
        f"{spec['type'].upper()} '{spec['table']}' pk={spec['pk']}\n    Expected this change, but it did not happen."
        for key, spec in wanted.items()
        if key not in matched
    ]
    total = len(wrong) + len(unexpected) + len(missing)
    if total == 0:
        return None
    lines = [f"VERIFICATION FAILED: {total} error(s) detected", ""]
    for heading, entries in (
        ("FIELD MISMATCHES", wrong),
        ("UNEXPECTED CHANGES", unexpected),
        ("MISSING EXPECTED CHANGES", missing),
    ):
        if entries:
            lines += [f"{heading} ({len(entries)})", *entries, ""]
    return "\n".join(lines)
