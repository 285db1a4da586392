"""Declaring operators: annotated launchers, their references, inputs, spaces and tolerances."""
