#!/bin/bash
exec python3 /tests/check.py "$CASES"
