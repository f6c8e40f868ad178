"""What a log format is: how to recognise it and where its columns come from.

A format is data, not code: names that must be present, an optional predicate on the shape of the
values, and one SQL expression for each canonical column. `{name}` inside an expression stands for a
source value: a CSV or Parquet column, or a JSON path in DuckDB's notation without the leading `$.`
(`metrics.request_latency.value`, `"gen_ai.usage.input_tokens"` for a key that contains dots).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
PATH_PART = re.compile(r'"([^"]*)"|([^.]+)')


def path_parts(path: str) -> tuple[str, ...]:
    """Split a JSON path into its keys.

    >>> path_parts('attributes."gen_ai.usage.input_tokens"')
    ('attributes', 'gen_ai.usage.input_tokens')
    """
    return tuple(quoted or plain for quoted, plain in PATH_PART.findall(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The head of one file: enough to recognise the format.

    `columns` are header names (CSV), column names (Parquet) or top-level keys (JSON) in file order;
    `rows` hold text (CSV) or native values.
    """

    container: str  # "csv", "jsonl", "json" or "parquet"
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, object], ...]

    @property
    def tabular(self) -> bool:
        """True where columns are flat: CSV and Parquet."""
        return self.container in ("csv", "parquet")

    def column(self, path: str) -> str | None:
        """Name the flat column that `path` means, ignoring case; None where there is none."""
        wanted = ".".join(path_parts(path)).casefold()
        return next((name for name in self.columns if name.casefold() == wanted), None)

    def has(self, path: str) -> bool:
        """Say whether any sampled row has `path` (its value may be null)."""
        if self.tabular:
            return self.column(path) is not None
        return any(_lookup(row, path_parts(path))[0] for row in self.rows)

    def values(self, path: str) -> tuple[object, ...]:
        """Return the sampled values at `path` that are not null."""
        if self.tabular:
            name = self.column(path)
            found = (row.get(name) for row in self.rows) if name else iter(())
        else:
            found = (_lookup(row, path_parts(path))[1] for row in self.rows)
        return tuple(value for value in found if value is not None)


def _lookup(row: object, parts: tuple[str, ...]) -> tuple[bool, object]:
    for part in parts:
        if not isinstance(row, Mapping) or part not in row:
            return False, None
        row = row[part]
    return True, row


def always(sample: Sample) -> bool:
    """Accept every sample: the names alone decide."""
    del sample
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One log format.

    `fields` maps canonical columns (see `schemas/trace.schema.json`), and the working names `time`,
    `status`, `request_id` and `keep` (false: the row is no LLM request), to SQL expressions.
    `records` turns the source's rows `r` (JSON) into one JSON record `r` a request, for formats
    that keep many requests in one document. `unusable` says why a recognised format gives no plan,
    and what to do instead.
    """

    name: str
    title: str
    requires: tuple[str, ...]
    forbids: tuple[str, ...] = ()
    when: Callable[[Sample], bool] = always
    because: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    records: str = ""
    time_base: str = "auto"  # "auto", "absolute" or "relative"
    time_unit: str = ""  # of numeric times: "s", "ms", "us", "ns"; "" = by magnitude, else seconds
    block_tokens: int = 0
    assumptions: tuple[str, ...] = ()
    unusable: str = ""

    def matches(self, sample: Sample) -> bool:
        """Say whether the sampled head has this format's names and value shapes."""
        return (
            all(sample.has(path) for path in self.requires)
            and not any(sample.has(path) for path in self.forbids)
            and self.when(sample)
        )

    def missing(self, sample: Sample) -> tuple[str, ...]:
        """Return the required names that the sample lacks."""
        return tuple(path for path in self.requires if not sample.has(path))


def source_paths(fields: Mapping[str, str]) -> tuple[str, ...]:
    """Return every source path that `fields` mention, in order of first use."""
    found = (path for text in fields.values() for path in PLACEHOLDER.findall(text))
    return tuple(dict.fromkeys(found))
