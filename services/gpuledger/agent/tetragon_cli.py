"""``gpuledger agent tetragon-policy``: what Tetragon has to be told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuledger.agent.probes.elf import exported_functions
from gpuledger.agent.tetragon import DEFAULT_LIBRARY, tracing_policies
from gpuledger.contract.errors import BadRecord, ConfigError


def tetragon_policy(
    library: Annotated[str, typer.Option(help="libcuda file as Tetragon sees it.")] = DEFAULT_LIBRARY,
    exported_by: Annotated[
        Path | None, typer.Option(help="libcuda file here: one policy with what it exports, no more.")
    ] = None,
) -> None:
    """Print the TracingPolicies of the functions that the agent probes (for run --source tetragon:FILE)."""
    exported = None
    if exported_by is not None:
        try:
            exported = exported_functions(exported_by).keys()
        except OSError as error:
            raise ConfigError(error.strerror or "can not be read", str(exported_by)) from error
        except BadRecord as error:
            raise ConfigError(str(error), "--exported-by") from error
    typer.echo(tracing_policies(library, exported), nl=False)
