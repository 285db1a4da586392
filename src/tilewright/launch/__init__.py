"""Launches: caught in flight on a machine without a GPU, described, and compiled for any Target."""
