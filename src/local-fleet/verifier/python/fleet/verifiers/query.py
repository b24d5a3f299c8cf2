"""The query builder behind `db.table(name)`."""

from __future__ import annotations

import copy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .db import DatabaseSnapshot


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Count(int):
    """A number of rows: an int, as one of the vendor's clients answers, with the assertions of the other."""

    @property
    def value(self) -> int:
        return int(self)

    def assert_eq(self, expected: int) -> Count:
        if self != expected:
            raise AssertionError(f"Expected {expected}, got {int(self)}")
        return self

    def assert_gt(self, threshold: int) -> Count:
        if self <= threshold:
            raise AssertionError(f"Expected > {threshold}, got {int(self)}")
        return self

    def assert_between(self, low: int, high: int) -> Count:
        if not low <= self <= high:
            raise AssertionError(f"Expected {low}-{high}, got {int(self)}")
        return self


class QueryBuilder:
    """Every step gives a new builder; `all`, `first`, `count` and the assertions ask the database."""

    def __init__(self, database: DatabaseSnapshot, table: str):
        self._database = database
        self._table = table
        self._columns: tuple[str, ...] = ("*",)
        self._conditions: tuple[tuple[str, str, Any], ...] = ()
        self._joins: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
        self._limit: int | None = None
        self._order: str | None = None

    def _with(self, **changes: Any) -> QueryBuilder:
        builder = copy.copy(self)
        builder.__dict__.update(changes)
        return builder

    def _when(self, column: str, operator: str, value: Any) -> QueryBuilder:
        return self._with(_conditions=(*self._conditions, (column, operator, value)))

    def select(self, *columns: str) -> QueryBuilder:
        return self._with(_columns=columns or ("*",))

    def limit(self, n: int | None) -> QueryBuilder:
        return self._with(_limit=n)

    def sort(self, column: str, desc: bool = False) -> QueryBuilder:
        return self._with(_order=f"{column} {'DESC' if desc else 'ASC'}")

    def join(self, other_table: str, on: Mapping[str, str]) -> QueryBuilder:
        """`on`: a column of this table -> a column of the other."""
        return self._with(_joins=(*self._joins, (other_table, tuple(on.items()))))

    def where(self, conditions: Mapping[str, Any] | None = None, **named: Any) -> QueryBuilder:
        builder = self
        for column, value in {**(conditions or {}), **named}.items():
            builder = builder.eq(column, value)
        return builder

    def eq(self, column: str, value: Any) -> QueryBuilder:
        return self._when(column, "=", value)

    def neq(self, column: str, value: Any) -> QueryBuilder:
        return self._when(column, "!=", value)

    def gt(self, column: str, value: Any) -> QueryBuilder:
        return self._when(column, ">", value)

    def gte(self, column: str, value: Any) -> QueryBuilder:
        return self._when(column, ">=", value)

    def lt(self, column: str, value: Any) -> QueryBuilder:
        return self._when(column, "<", value)

    def lte(self, column: str, value: Any) -> QueryBuilder:
        return self._when(column, "<=", value)

    def in_(self, column: str, values: Sequence[Any]) -> QueryBuilder:
        return self._when(column, "IN", tuple(values))

    def not_in(self, column: str, values: Sequence[Any]) -> QueryBuilder:
        return self._when(column, "NOT IN", tuple(values))

    def is_null(self, column: str) -> QueryBuilder:
        return self._when(column, "IS", None)

    def not_null(self, column: str) -> QueryBuilder:
        return self._when(column, "IS NOT", None)

    def ilike(self, column: str, pattern: str) -> QueryBuilder:
        return self._when(column, "LIKE", pattern)

    def _name(self, column: str) -> str:
        # Only a column of the table is quoted (it may be called `order`): SQLite reads an unknown quoted name as a
        # string, and a misspelt column would match nothing instead of failing. What else stands there is an expression.
        return quoted(column) if column in self._database.columns(self._table) else column

    def _compile(self) -> tuple[str, list[Any]]:
        parts = [f"SELECT {', '.join(self._columns)} FROM {quoted(self._table)}"]
        for table, on in self._joins:
            pairs = (f"{quoted(self._table)}.{quoted(a)} = {quoted(table)}.{quoted(b)}" for a, b in on)
            parts.append(f"JOIN {quoted(table)} ON {' AND '.join(pairs)}")
        clauses: list[str] = []
        parameters: list[Any] = []
        for column, operator, value in self._conditions:
            if operator in ("IS", "IS NOT"):
                clauses.append(f"{self._name(column)} {operator} NULL")
            elif operator in ("IN", "NOT IN"):
                clauses.append(f"{self._name(column)} {operator} ({', '.join('?' for _ in value)})")
                parameters.extend(value)
            else:
                clauses.append(f"{self._name(column)} {operator} ?")
                parameters.append(value)
        if clauses:
            parts.append("WHERE " + " AND ".join(clauses))
        if self._order is not None:
            parts.append(f"ORDER BY {self._order}")
        if self._limit is not None:
            parts.append(f"LIMIT {int(self._limit)}")
        return " ".join(parts), parameters

    def all(self) -> list[dict[str, Any]]:
        """Rows as plain dicts. Raises what SQLite says of a table or column that is not there."""
        return self._database.rows(*self._compile())

    def first(self) -> dict[str, Any] | None:
        rows = self.limit(1).all()
        return rows[0] if rows else None

    def count(self) -> Count:
        counted = self._with(_columns=("COUNT(*) AS n",), _limit=None, _order=None)
        return Count(counted.all()[0]["n"])

    def explain(self) -> str:
        sql, parameters = self._compile()
        return f"SQL: {sql}\nParams: {parameters}"

    def _asked(self) -> str:
        sql, parameters = self._compile()
        return f"Query: {sql}\nParameters: {parameters}\nTable: {self._table}"

    def assert_exists(self) -> QueryBuilder:
        if self.first() is None:
            message = f"Expected at least one matching row, but found none.\n{self._asked()}"
            if self._conditions:
                message += "\nConditions: " + ", ".join(f"{c} {o} {v}" for c, o, v in self._conditions)
            raise AssertionError(message)
        return self

    def assert_none(self) -> QueryBuilder:
        row = self.first()
        if row is not None:
            raise AssertionError(
                f"Expected no matching rows, but found at least one.\nFound row: {row}\n{self._asked()}"
            )
        return self

    def assert_eq(self, column: str, value: Any) -> QueryBuilder:
        row = self.first()
        if row is None:
            raise AssertionError(
                "Row not found for equality assertion.\n"
                f"Expected to find a row with {column}={value!r}\n{self._asked()}"
            )
        if row.get(column) != value:
            raise AssertionError(
                f"Field value assertion failed.\nField: {column}\nExpected: {value!r}\n"
                f"Actual: {row.get(column)!r}\nFull row data: {row}\nTable: {self._table}"
            )
        return self

    def __repr__(self) -> str:
        return f"<QueryBuilder {self.explain()}>"
