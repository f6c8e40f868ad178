"""Size an LLM serving fleet from its own request logs.

Data flows one way: ingest → profile → perf → sim → solve → report. `planner.pipeline` holds the
stages in one readable function each; everything above it is command line, everything below it pure.
"""

__version__ = "0.1.0"
