"""Seeded synthetic traces: a recipe in, a log as a gateway would have written it out."""
