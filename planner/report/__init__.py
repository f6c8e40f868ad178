"""Render a Plan as Markdown, SVG, flags and a terminal summary. Never computes a result."""
