"""BurstGPT (github.com/HPMLL/BurstGPT): two years of a campus service's traffic."""

from __future__ import annotations

from planner.ingest.format import Format

FIELDS = {
    "time": "{Timestamp}",
    "input_tokens": '{"Request tokens"}',
    "output_tokens": '{"Response tokens"}',
    "class": '{"Log Type"}',
    "model": "{Model}",
}
NAMES = ("Timestamp", "Model", '"Request tokens"', '"Response tokens"', '"Log Type"')
LOCAL_TIME = (
    "Timestamp counts seconds from midnight of the collection's first day in an unstated zone; "
    "no calendar date is derived from it"
)
LOG_TYPE = "Log Type is taken as the workload class"

FORMATS = (
    Format(
        name="burstgpt-v1",
        title="BurstGPT, first release",
        requires=NAMES,
        forbids=('"Session ID"',),
        because="columns Timestamp, Model, Request tokens, Response tokens, Log Type",
        fields=FIELDS,
        time_base="relative",
        time_unit="s",
        assumptions=(LOCAL_TIME, LOG_TYPE),
    ),
    Format(
        name="burstgpt-v2",
        title="BurstGPT, with sessions and elapsed times",
        requires=(*NAMES, '"Session ID"', '"Elapsed time"'),
        because="BurstGPT's columns with Session ID and Elapsed time",
        fields={
            **FIELDS,
            "session_id": '{"Session ID"}',
            "e2e_s": '{"Elapsed time"}',
        },
        time_base="relative",
        time_unit="s",
        assumptions=(LOCAL_TIME, LOG_TYPE, "Elapsed time is taken as e2e_s, in whole seconds"),
    ),
)
