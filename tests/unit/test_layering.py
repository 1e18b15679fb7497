"""Imports go one way: contract <- (pricing, attribution) <- (processor), contract <- bus <- the services."""

import ast
from pathlib import Path

import pytest

SERVICES = Path(__file__).parents[2] / "services" / "gpuledger"

# package -> packages of gpuledger that it may import, besides itself
MAY_IMPORT = {
    "contract": set(),
    "logs": set(),
    "serving": {"contract", "logs"},
    "documents": {"contract"},
    "pricing": {"contract"},
    "attribution": {"contract", "pricing"},
    "bus": {"contract", "logs"},
    "kube": {"contract", "logs"},
    "inventory": {"documents", "contract", "bus", "kube", "logs", "serving"},
    "agent": {"contract", "bus", "kube", "logs"},
    "charge": {"documents", "contract", "pricing", "attribution", "agent", "tables"},
    "simulate": {"contract", "bus", "pricing"},
    "processor": {"contract", "bus", "pricing", "attribution", "archive", "serving"},
    "budgets": {
        "documents",
        "contract",
        "bus",
        "pricing",
        "warehouse",
        "processor",
        "logs",
        "configuration",
        "serving",
        "spend",
    },
    "configuration": {"documents", "contract", "bus", "pricing", "warehouse", "logs", "serving"},
    "warehouse": {"contract", "localstack"},
    "sink": {"contract", "bus", "logs", "warehouse", "serving"},
    "spend": {"contract", "pricing", "warehouse", "tables"},
    "tables": set(),
    "notify": {"documents", "contract", "bus", "logs", "pricing", "serving"},
    "exporter": {"contract", "logs", "warehouse", "serving"},
    "recommend": {"documents", "contract", "pricing", "warehouse", "spend"},
    "localstack": {"contract", "bus"},
    "archive": {"contract", "bus", "serving"},
    "explain": {
        "contract",
        "bus",
        "pricing",
        "attribution",
        "processor",
        "archive",
        "sink",
        "warehouse",
    },
    "deadletters": {"contract", "bus", "pricing", "processor"},
    "replay": {
        "documents",
        "contract",
        "bus",
        "pricing",
        "attribution",
        "processor",
        "serving",
        "archive",
        "sink",
        "warehouse",
    },
}
PURE = {"contract", "pricing", "attribution"}
IMPURE_MODULES = {
    "time",
    "socket",
    "subprocess",
    "asyncio",
    "logging",
    "structlog",
    "requests",
    "httpx",
    "threading",
}
READS_THE_MACHINE = {Path("contract/clock.py"), Path("contract/schemas.py")}


def modules() -> list[Path]:
    return sorted(
        path.relative_to(SERVICES)
        for path in SERVICES.rglob("*.py")
        if len(path.relative_to(SERVICES).parts) > 1
    )


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse((SERVICES / path).read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names if node.module == "gpuledger")
    return names


def test_every_package_has_its_place_in_the_order() -> None:
    packages = {path.parts[0] for path in modules()}
    assert packages <= set(MAY_IMPORT), f"say what {packages - set(MAY_IMPORT)} may import"


@pytest.mark.parametrize("path", modules(), ids=str)
def test_imports_go_one_way(path: Path) -> None:
    own = path.parts[0]
    allowed = MAY_IMPORT[own] | {own}
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "gpuledger" and len(parts) > 1 and parts[1] != "__version__":
            assert parts[1] in allowed, f"{path} imports {name}"


@pytest.mark.parametrize("path", [path for path in modules() if path.parts[0] in PURE], ids=str)
def test_the_pure_core_opens_waits_and_logs_nothing(path: Path) -> None:
    if path in READS_THE_MACHINE:
        return
    assert not {name.split(".")[0] for name in imported(path)} & IMPURE_MODULES
