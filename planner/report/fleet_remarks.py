"""What an approver must know of a fleet plan beyond its tables, each remark with its figures."""

from __future__ import annotations

from collections.abc import Iterator

from planner.report import format as fmt
from planner.solve.fleet_plan.plan import BoughtBack, Exhausted, FleetPlan, ServiceForecast
from planner.text import counted

ODDS = 2.0  # growth this many times off that of the last two measurements is remarked on
NO_GROWTH = 0.01  # a quarter, below which growth counts as none


def remarks(plan: FleetPlan) -> list[str]:
    """Return the remarks, those on the decision first.

    Parameters
    ----------
    plan
        As read back from fleet.json.
    """
    return [
        *(_exhausted(row, len(plan.quarters)) for row in plan.exhausted),
        *_bought_back(plan.bought_back),
        *_not_survived(plan),
        *_no_risk(plan),
        *_luck(plan),
        *(line for each in plan.forecasts for line in _forecast(each, plan.confidence)),
    ]


def _exhausted(row: Exhausted, quarters: int) -> str:
    when = "every quarter" if len(row.quarters) == quarters else ", ".join(row.quarters)
    return (
        f"All {row.gpu} that can be had in {row.region} are held in {when}: more demand there needs"
        " another GPU type or region."
    )


def _bought_back(rows: tuple[BoughtBack, ...]) -> Iterator[str]:
    """Yield one remark for each stock, and what follows for all of them."""
    for place in dict.fromkeys((row.gpu, row.region) for row in rows):
        mine = [row for row in rows if (row.gpu, row.region) == place]
        courses = ", ".join(
            f"{row.gpus} released in {row.released_in} and bought back in {row.bought_in}"
            for row in mine
        )
        keep, saved = sum(row.usd_to_keep for row in mine), sum(row.usd_saved for row in mine)
        once = f"giving back and buying again costs {fmt.usd_exact(saved)} once"
        if not saved:
            once = "fleet.yaml declares no cost of giving back or buying (buy_usd, release_usd)"
        yield (
            f"{place[0]} in {place[1]}: {courses}. That is cheaper: holding them in between"
            f" would cost {fmt.usd_exact(keep)} and {once}. It takes it that they can be had again:"
            " where that is not sure, raise committed."
        )


def _not_survived(plan: FleetPlan) -> Iterator[str]:
    """Yield, of services that are asked to survive nothing, the first quarter a loss would hurt."""
    for required in plan.requirements:
        for quarter in plan.quarters:
            (each,) = (s for s in quarter.services if s.service == required.service)
            left, needed = each.capacity_without_one_requests_per_s, each.provisioned_requests_per_s
            if each.live and each.loss is None and left < needed:
                yield (
                    f"{each.service} is not asked to survive a loss (no spare_replicas): with its"
                    f" strongest replica lost it carries {fmt.significant(left)} of the"
                    f" {fmt.significant(needed)} requests/s planned for in {quarter.name}."
                )
                break


def _no_risk(plan: FleetPlan) -> Iterator[str]:
    names = {
        each.service
        for quarter in plan.quarters
        for each in quarter.services
        if each.live and each.risk is None
    }
    for name in sorted(names):
        yield f"{name}: its forecast has no band, so its risk is unknown, not zero."


def _luck(plan: FleetPlan) -> Iterator[str]:
    """Yield the configurations that miss a target at the demand planned for, under other draws."""
    requests = {each.service: each.requests for each in plan.forecasts}
    for each in plan.configurations:
        again = each.redrawn
        if again is not None and again.hold_with_headroom_free < again.draws:
            yield (
                f"{each.service} on {each.gpu}: with other draws of which requests meet on a"
                f" replica, its fullest pool holds in {again.hold_with_headroom_free} of"
                f" {again.draws} at the demand planned for, and in {again.hold} with the headroom"
                f" filled. Its traffic has {requests[each.service]:,} requests: give longer traffic"
                " or more headroom before relying on it."
            )


def _forecast(each: ServiceForecast, confidence: float) -> Iterator[str]:
    """Yield where the history speaks against the forecast made from it."""
    for test in each.tests:
        if test.method == each.method and test.inside_band_share < confidence:
            held = round(test.inside_band_share * test.forecasts)
            yield (
                f"{each.service}: its {fmt.percent(confidence)} band held {held} of"
                f" {counted(test.forecasts, 'back-test')}"
                f" ({fmt.percent(test.inside_band_share, 2)}): its risk may be understated."
            )
    if each.method == "trend" and each.last_growth_per_quarter is not None:
        yield from _at_odds(each, each.last_growth_per_quarter)


def _at_odds(each: ServiceForecast, lately: float) -> Iterator[str]:
    """Yield that demand grew otherwise lately than the fitted growth goes on to."""
    grown = each.growth_per_quarter
    size = abs(grown)
    if size < NO_GROWTH or (size / ODDS <= abs(lately) <= size * ODDS and lately * grown > 0.0):
        return
    before, last = each.history[-2:]
    off = each.base_requests_per_s / last.requests_per_s - 1.0
    side = "above" if off >= 0.0 else "below"
    then, now = (f"{fmt.significant(m.requests_per_s)} on {m.date}" for m in (before, last))
    yield (
        f"{each.service}: between its last two measurements, {then} and {now}, it grew by"
        f" {fmt.percent(lately, 2)} a quarter; the forecast goes on with {fmt.percent(grown)} from"
        f" {fmt.significant(each.base_requests_per_s)}, which is {fmt.percent(abs(off), 2)} {side}"
        " the last."
    )
