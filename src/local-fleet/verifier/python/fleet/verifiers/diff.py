"""Comparing two databases, and the rules that verifiers hold the difference against."""

from __future__ import annotations

from .query import quoted
from .report import exact_report, unexpected_report
from .rules import changed_fields, legacy_verdict, typed_verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .db import DatabaseSnapshot

    Row = dict[str, Any]
    Spec = dict[str, Any]
    Verdict = Callable[..., "str | None"]


class IgnoreConfig:
    """What must not count as a difference."""

    def __init__(
        self,
        tables: Iterable[str] | None = None,
        fields: Iterable[str] | None = None,
        table_fields: dict[str, Iterable[str]] | None = None,
    ):
        self.tables = tables or set()
        self.fields = fields or set()
        self.table_fields = table_fields or {}

    def should_ignore_table(self, table: str) -> bool:
        return table in self.tables

    def should_ignore_field(self, table: str, field: str) -> bool:
        return field in self.fields or field in self.table_fields.get(table, ())


class SnapshotDiff:
    """The difference from `before` to `after`. Expectations raise AssertionError and return the diff otherwise."""

    def __init__(
        self,
        before: DatabaseSnapshot,
        after: DatabaseSnapshot,
        ignore_config: IgnoreConfig | None = None,
        use_structured_diff: bool = False,
    ):
        self.before = before
        self.after = after
        self.ignore_config = ignore_config or IgnoreConfig()
        self.use_structured_diff = use_structured_diff
        self._changes: dict[str, dict[str, Any]] | None = None

    def _tables(self) -> list[str]:
        names = dict.fromkeys((*self.before.tables(), *self.after.tables()))
        return [name for name in names if not self.ignore_config.should_ignore_table(name)]

    def _key(self, table: str) -> list[str]:
        return self.after.primary_key(table) or self.before.primary_key(table) or ["id"]

    def _ignored(self, table: str) -> Callable[[str], bool]:
        return lambda field: self.ignore_config.should_ignore_field(table, field)

    @property
    def changes(self) -> dict[str, dict[str, Any]]:
        """Table -> its added, removed and modified rows, as the instance manager's structured diff names them."""
        if self._changes is None:
            self._changes = {table: self._table_changes(table) for table in self._tables()}
        return self._changes

    def _indexed(self, database: DatabaseSnapshot, table: str, key: list[str]) -> dict[Any, Row]:
        if not database.columns(table):
            return {}
        columns = "rowid, *" if key == ["rowid"] else "*"
        rows = database.rows(f"SELECT {columns} FROM {quoted(table)}")
        if len(key) == 1:
            return {row.get(key[0]): row for row in rows}
        return {tuple(row.get(column) for column in key): row for row in rows}

    def _table_changes(self, table: str) -> dict[str, Any]:
        key = self._key(table)
        before, after = self._indexed(self.before, table, key), self._indexed(self.after, table, key)
        modified = []
        for pk, row in after.items():
            if pk in before:
                fields = changed_fields(before[pk], row, self._ignored(table))
                if fields:
                    changes = {name: {"before": was, "after": now} for name, (was, now) in fields.items()}
                    modified.append({"row_id": pk, "changes": changes, "data": row})
        added = [{"row_id": pk, "data": row} for pk, row in after.items() if pk not in before]
        removed = [{"row_id": pk, "data": row} for pk, row in before.items() if pk not in after]
        return {
            "table_name": table,
            "primary_key": key,
            "added_rows": added,
            "removed_rows": removed,
            "modified_rows": modified,
            "unchanged_count": len(after) - len(added) - len(modified),
            "total_changes": len(added) + len(removed) + len(modified),
        }

    def expect_only(self, allowed_changes: list[Spec]) -> SnapshotDiff:
        """Only these changes: `{table, pk, field, after}`, or `after` `__added__` / `__removed__` for a row."""
        return self._expect(allowed_changes, legacy_verdict)

    def expect_only_v1(self, allowed_changes: list[Spec]) -> SnapshotDiff:
        """As `expect_only`, comparing every row of every table."""
        return self._expect_in_full(_with_tuple_keys(allowed_changes), legacy_verdict)

    def expect_only_v2(self, allowed_changes: list[Spec]) -> SnapshotDiff:
        """Only these changes, with `type` insert, modify or delete and the values of their fields."""
        return self._expect(allowed_changes, typed_verdict)

    def _expect(self, allowed_changes: list[Spec], verdict: Verdict) -> SnapshotDiff:
        allowed = _with_tuple_keys(allowed_changes)
        if not allowed:
            return self._expect_nothing()
        if all("table" in spec and "pk" in spec for spec in allowed):
            return self._expect_rows(allowed, verdict)
        return self._expect_in_full(allowed, verdict)

    def _expect_rows(self, allowed: list[Spec], verdict: Verdict) -> SnapshotDiff:
        # As the vendor's SDK does it: of a table that is named only the named rows are compared, of every other table
        # only the number of rows. A stricter reading would grade the same state differently from the vendor's service.
        named = dict.fromkeys(spec["table"] for spec in allowed)
        for table in named:
            if self.ignore_config.should_ignore_table(table):
                continue
            specs = [spec for spec in allowed if spec["table"] == table]
            for pk in dict.fromkeys(spec["pk"] for spec in specs):
                before, after = self._row(self.before, table, pk), self._row(self.after, table, pk)
                about = [spec for spec in specs if str(spec["pk"]) == str(pk)]
                wrong = verdict(table, pk, before, after, about, self._ignored(table))
                if wrong is not None:
                    raise AssertionError(wrong)
        for table in self._tables():
            if table not in named:
                self._expect_same_count(table)
        return self

    def _row(self, database: DatabaseSnapshot, table: str, pk: Any) -> Row | None:
        if not database.columns(table):
            return None
        values = pk if isinstance(pk, tuple) else (pk,)
        pairs = list(zip(self._key(table), values))
        clause = " AND ".join(f"{quoted(column)} = ?" for column, _ in pairs)
        sql = f"SELECT * FROM {quoted(table)} WHERE {clause} LIMIT 1"
        rows = database.rows(sql, [value for _, value in pairs])
        return rows[0] if rows else None

    def _expect_same_count(self, table: str) -> None:
        counts = [db.table(table).count() if db.columns(table) else 0 for db in (self.before, self.after)]
        if counts[0] != counts[1]:
            raise AssertionError(
                f"Unexpected change in table '{table}': row count changed from {counts[0]} to {counts[1]}"
            )

    def _expect_nothing(self) -> SnapshotDiff:
        had, has = set(self.before.tables()), set(self.after.tables())
        for table in self._tables():
            if table not in had:
                raise AssertionError(f"Unexpected table added: {table}")
            if table not in has:
                raise AssertionError(f"Unexpected table removed: {table}")
            self._expect_same_count(table)
        for table, report in self.changes.items():
            for row in report["modified_rows"]:
                field, values = next(iter(row["changes"].items()))
                raise AssertionError(
                    f"Unexpected change in table '{table}', row {row['row_id']}, "
                    f"field '{field}': {values['before']!r} -> {values['after']!r}"
                )
            for row in report["added_rows"]:
                raise AssertionError(f"Unexpected row added in table '{table}': {row['row_id']}")
        return self

    def _expect_in_full(self, allowed: list[Spec], verdict: Verdict) -> SnapshotDiff:
        unexpected: list[dict[str, Any]] = []
        for table, report in self.changes.items():
            specs = [spec for spec in allowed if spec.get("table") == table and spec.get("pk") is not None]
            for kind, rows in (
                ("modification", report["modified_rows"]),
                ("insertion", report["added_rows"]),
                ("deletion", report["removed_rows"]),
            ):
                for row in rows:
                    before, after = _sides(kind, row)
                    about = [spec for spec in specs if str(spec["pk"]) == str(row["row_id"])]
                    wrong = verdict(table, row["row_id"], before, after, about, self._ignored(table))
                    if wrong is not None:
                        unexpected.append({"kind": kind, "table": table, "row": row, "reason": wrong})
        if unexpected:
            raise AssertionError(unexpected_report(unexpected, allowed))
        return self

    def expect_exactly(self, expected_changes: list[Spec]) -> SnapshotDiff:
        """These changes and no others. Every spec names its `type`, `table` and `pk`."""
        problem = exact_report(self.changes, _with_tuple_keys(expected_changes), self._ignored)
        if problem is not None:
            raise AssertionError(problem)
        return self

    def expect(self, *, allow: list[Spec] | None = None, forbid: list[Spec] | None = None) -> SnapshotDiff:
        """Fields that alone may change (`allow`), and fields or whole tables (`field` None) that must not."""
        allowed = {(spec["table"], spec.get("field")) for spec in allow or ()}
        forbidden = {(spec["table"], spec.get("field")) for spec in forbid or ()}
        for table, report in self.changes.items():
            for row in report["modified_rows"]:
                for field in row["changes"]:
                    if (table, field) in forbidden:
                        raise AssertionError(f"Modification to forbidden field {(table, field)}")
                    if allowed and (table, field) not in allowed:
                        raise AssertionError(f"Modification to unallowed field {(table, field)}")
            if (table, None) in forbidden and (report["added_rows"] or report["removed_rows"]):
                raise AssertionError(f"Changes in forbidden table {table}")
        return self


def _with_tuple_keys(specs: list[Spec]) -> list[Spec]:
    """A composite key may be written as a list."""
    return [{**spec, "pk": tuple(spec["pk"])} if isinstance(spec.get("pk"), list) else spec for spec in specs]


def _sides(kind: str, row: dict[str, Any]) -> tuple[Row | None, Row | None]:
    """The changed part of a row before and after."""
    if kind == "insertion":
        return None, row["data"]
    if kind == "deletion":
        return row["data"], None
    changes = row["changes"]
    return (
        {name: values["before"] for name, values in changes.items()},
        {name: values["after"] for name, values in changes.items()},
    )
