"""Runs one verifier in a process of its own."""
