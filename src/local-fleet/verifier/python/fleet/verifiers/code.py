"""The scores that verifiers return by name."""

TASK_SUCCESSFUL_SCORE = 1
TASK_FAILED_SCORE = 0
