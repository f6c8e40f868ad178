"""Replay requests through a serving engine's scheduler. Knows only arrays and a StepCost."""
