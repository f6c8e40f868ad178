"""Fit the calibration files from operator tables and check them against measured serving points."""
