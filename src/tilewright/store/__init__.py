"""What was found, measured and compiled, kept: one append-only SQLite file that outlives the run, and a kill of it."""
