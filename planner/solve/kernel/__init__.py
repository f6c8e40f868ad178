"""Loops of the equations that numpy cannot run in one pass, compiled like the simulator's."""
