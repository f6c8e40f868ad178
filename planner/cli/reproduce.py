"""`planner reproduce`: published results beside what the planner computes for their settings."""

from __future__ import annotations

import json
from pathlib import Path

import click

PAPERS = ("sarathi", "sarathi-serve", "fastgen", "distserve", "splitwise", "sglang", "vllm")


@click.command(
    epilog="""\b
Example:
  planner reproduce sarathi
  planner reproduce sarathi-serve --lengths traces/lengths --json
""",
)
@click.argument("papers", nargs=-1, type=click.Choice(PAPERS))
@click.option(
    "--lengths",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    help="Folder with sharegpt_8k.csv or AzureLLMInferenceTrace_conv.csv, lengths of the papers'"
    " requests; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(papers: tuple[str, ...], lengths: tuple[Path, ...], as_json: bool) -> None:
    """Recompute published results: SARATHI, Sarathi-Serve, FastGen, DistServe, SGLang and others.

    Each claim is printed with the published figure, ours, the band that counts as the same result,
    and the verdict: pass, fail, or not reproducible with the reason. Without PAPERS all are run,
    which takes minutes; a missing length file is named by the claims that need it.
    """
    from planner.reproduce.claim import Inputs
    from planner.reproduce.papers import PAPERS as NAMES
    from planner.reproduce.papers import findings
    from planner.reproduce.table import as_data, tally, text

    inputs, every = Inputs(lengths=lengths), []
    for paper in papers or PAPERS:
        click.echo(f"… {NAMES[paper]}", err=True)
        found = list(findings([paper], inputs))
        every += [(paper, each) for each in found]
        if not as_json:
            click.echo("\n".join([f"{NAMES[paper]}: {tally(found)}", *text(found), ""]))
    if as_json:
        data = {"claims": [{"paper": paper, **as_data(each)} for paper, each in every]}
        click.echo(json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False))
