"""The part of the vendor's SDK that verifiers use, over two SQLite files. Written for this project.

Source of the behaviour: the vendor's SDK, version 0.2.133; where its clients differ, what both accept is accepted.
"""

from .environment import AsyncEnv, AsyncEnvironment, Environment, SyncEnv
from .verifiers import (
    TASK_FAILED_SCORE,
    TASK_SUCCESSFUL_SCORE,
    DatabaseSnapshot,
    IgnoreConfig,
    SnapshotDiff,
    verifier,
)

verifier_sync = verifier

__all__ = [
    "TASK_FAILED_SCORE",
    "TASK_SUCCESSFUL_SCORE",
    "AsyncEnv",
    "AsyncEnvironment",
    "DatabaseSnapshot",
    "Environment",
    "IgnoreConfig",
    "SnapshotDiff",
    "SyncEnv",
    "verifier",
    "verifier_sync",
]
