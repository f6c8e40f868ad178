"""`planner synth`: write a synthetic trace from a recipe."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command(
    "synth",
    epilog="Example: planner synth traces/week42.yaml --output traces/week42.parquet",
)
@click.argument("recipe", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, readable=False),
    help="Parquet file to write [default: the recipe's name with .parquet].",
)
@click.option("--seed", type=click.IntRange(min=0), help="Use this seed, not the recipe's.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def command(recipe: Path, output: Path | None, seed: int | None, as_json: bool) -> None:
    """Write a seeded, realistic synthetic trace from RECIPE.

    The recipe (schemas/synth.schema.json) declares classes with their daily and weekly shape,
    bursts, sessions and lengths, incidents, and the faults of the log. The same recipe and library
    versions give the same bytes.
    """
    from planner.synth.load import load_recipe
    from planner.synth.write import synth

    loaded = load_recipe(recipe)
    target = output if output is not None else recipe.with_suffix(".parquet")
    written = synth(loaded, target, seed=seed, inputs=[recipe])
    if as_json:
        click.echo(json.dumps(written, sort_keys=True))
        return
    click.echo(
        f"{target}  {written['rows']:,} rows · {written['sessions']:,} sessions · "
        f"{', '.join(f'{name} {rows:,}' for name, rows in written['rows_by_class'].items())}"
    )
