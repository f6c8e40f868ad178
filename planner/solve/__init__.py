"""Candidates → screen by equations → verify → choose the cheapest that holds. Never formats."""
