"""What verifiers import from `fleet.verifiers`."""

from .code import TASK_FAILED_SCORE, TASK_SUCCESSFUL_SCORE
from .db import DatabaseSnapshot
from .decorator import verifier
from .diff import IgnoreConfig, SnapshotDiff
from .query import QueryBuilder
from .text import contains_number, extract_numbers, normalized_contains, normalized_string_comparison

__all__ = [
    "TASK_FAILED_SCORE",
    "TASK_SUCCESSFUL_SCORE",
    "DatabaseSnapshot",
    "IgnoreConfig",
    "QueryBuilder",
    "SnapshotDiff",
    "contains_number",
    "extract_numbers",
    "normalized_contains",
    "normalized_string_comparison",
    "verifier",
]
