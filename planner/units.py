"""Constants that turn marketing units into SI. Inside the package everything is SI.

GiB is 2**30 bytes (what a driver reports), GB is 10**9 bytes (what a datasheet prints). Never mix.
"""

from __future__ import annotations

KIB = 2**10
MIB = 2**20
GIB = 2**30
GB = 10**9
TERA = 10**12
MILLI = 1e-3
MICRO = 1e-6
MINUTE_S = 60.0
HOUR_S = 3600.0
DAY_S = 86_400.0
WEEK_S = 604_800.0
HOURS_PER_MONTH = 730.0  # 8,760 hours a year / 12: the cloud providers' own convention
