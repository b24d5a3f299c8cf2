"""A database as a verifier sees it: read-only, with queries, a query builder and a comparison to another."""

from __future__ import annotations

import sqlite3
from types import SimpleNamespace

from .diff import IgnoreConfig, SnapshotDiff
from .query import QueryBuilder, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

__all__ = ["DatabaseSnapshot", "IgnoreConfig", "QueryBuilder", "SnapshotDiff"]


class DatabaseSnapshot:
    """One SQLite file that nobody changes while it is open."""

    def __init__(self, db_path: str, *, name: str | None = None):
        self.db_path = db_path
        self.name = name or "snapshot"
        self.mode = "direct"
        self._connection: sqlite3.Connection | None = None
        self._columns: dict[str, list[tuple[Any, ...]]] = {}

    @property
    def uri(self) -> str:
        return f"sqlite://{self.name}"

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            path = self.db_path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
            # Immutable: no lock and no journal, so the directory may be read-only too.
            self._connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        return self._connection

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        cursor = self._open().execute(sql, parameters)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor]

    def tables(self) -> list[str]:
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        return [row["name"] for row in self.rows(sql)]

    def _table_info(self, table: str) -> list[tuple[Any, ...]]:
        known = self._columns.get(table)
        if known is None:
            known = self._open().execute(f"PRAGMA table_info({quoted(table)})").fetchall()
            self._columns[table] = known
        return known

    def columns(self, table: str) -> list[str]:
        """Empty for a table that is not there."""
        return [info[1] for info in self._table_info(table)]

    def primary_key(self, table: str) -> list[str]:
        """Columns in the key's order; `id` or `rowid` where none is declared; empty for a table that is not there."""
        declared = sorted((info[5], info[1]) for info in self._table_info(table) if info[5] > 0)
        if declared:
            return [name for _, name in declared]
        columns = self.columns(table)
        if not columns:
            return []
        return ["id"] if "id" in columns else ["rowid"]

    def table(self, table: str) -> QueryBuilder:
        return QueryBuilder(self, table)

    def query(self, query: str, args: Sequence[Any] | None = None) -> SimpleNamespace:
        """The wire's answer to a query. Never raises: what SQLite refuses is `success` False with its words."""
        try:
            cursor = self._open().execute(query, args or ())
            names = [column[0] for column in cursor.description] if cursor.description else None
            found = [list(row) for row in cursor] if names else None
        except Exception as error:
            return _answer(False, error=str(error), message=f"Query failed: {error}")
        return _answer(True, columns=names, rows=found, message="Query executed successfully")

    def exec(self, query: str, args: Sequence[Any] | None = None) -> SimpleNamespace:
        """A verifier reads: what would write is refused by SQLite."""
        return self.query(query, args)

    def describe(self) -> SimpleNamespace:
        tables = []
        for name in self.tables():
            made = self.rows("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (name,))
            columns = [
                {
                    "name": info[1],
                    "type": info[2],
                    "notnull": bool(info[3]),
                    "default_value": info[4],
                    "primary_key": info[5] > 0,
                    "pk": info[5],
                }
                for info in self._table_info(name)
            ]
            tables.append(SimpleNamespace(name=name, sql=made[0]["sql"], columns=columns))
        return SimpleNamespace(
            success=True, resource_name=self.name, tables=tables, error=None, message="Schema retrieved"
        )

    def snapshot(self, name: str | None = None) -> DatabaseSnapshot:
        return DatabaseSnapshot(self.db_path, name=name)

    def diff(
        self,
        other: DatabaseSnapshot,
        ignore_config: IgnoreConfig | None = None,
        use_structured_diff: bool = False,
    ) -> SnapshotDiff:
        """What changed from this database to the other."""
        return SnapshotDiff(self, other, ignore_config, use_structured_diff)

    def expect_row(self, table: str, where: Mapping[str, Any], expect: Mapping[str, Any]) -> DatabaseSnapshot:
        found = self.table(table).where(where).assert_exists()
        for column, value in expect.items():
            found.assert_eq(column, value)
        return self

    def expect_rows(
        self,
        table: str,
        where: Mapping[str, Any],
        *,
        count: int | None = None,
        contains: Sequence[Mapping[str, Any]] | None = None,
    ) -> DatabaseSnapshot:
        asked = self.table(table).where(where)
        if count is not None:
            asked.count().assert_eq(count)
        for wanted in contains or ():
            if not any(all(row.get(k) == v for k, v in wanted.items()) for row in asked.all()):
                raise AssertionError(f"Expected a row matching {dict(wanted)} in {table}")
        return self

    def expect_absent_row(self, table: str, where: Mapping[str, Any]) -> DatabaseSnapshot:
        self.table(table).where(where).assert_none()
        return self

    def __repr__(self) -> str:
        return f"<DatabaseSnapshot {self.name} at {self.db_path}>"


def _answer(success: bool, **fields: Any) -> SimpleNamespace:
    empty = {"columns": None, "rows": None, "rows_affected": None, "last_insert_id": None, "error": None}
    return SimpleNamespace(success=success, **{**empty, **fields})
