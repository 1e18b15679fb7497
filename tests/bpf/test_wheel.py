"""What is installed on a node carries all that the agent loads: probes, schemas, tables."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from gpuledger.agent.probes.compile import compile_object
from gpuledger.agent.probes.cudart import OBJECT_BUILT
from gpuledger.agent.probes.libbpf import BUILT, DRIVER_BUILT
from gpuledger.agent.probes.loader import CHECKOUT, DRIVER_SOURCE

LOAD = """
import json
from gpuledger.agent.probes.libbpf import DRIVER_OBJECT, LibbpfLoader, object_path
from gpuledger.agent.probes.symbols import Limits
from gpuledger.contract.schemas import schema_directory
loader = LibbpfLoader(Limits(ring_bytes=1 << 16))
found = [loader.program("leave") > 0, loader.map("events") > 0]
loader.close()
print(json.dumps([str(object_path()), str(object_path(DRIVER_OBJECT)), str(schema_directory()), all(found)]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compile_object(DRIVER_BUILT, DRIVER_SOURCE)
    directory = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)], CHECKOUT)
    (built,) = directory.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel, and the project's dependencies from here."""
    place = tmp_path_factory.mktemp("node")
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    command = ["install", "-q", "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)]
    run([sys.executable, "-m", "pip", "--python", str(python), *command], place)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def run(command: list[str], directory: Path) -> str:
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_is_of_this_kind_of_machine_and_holds_every_data_file(wheel: Path) -> None:
    assert wheel.name.endswith(f"-py3-none-{sysconfig.get_platform().replace('-', '_')}.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    built = (*(CHECKOUT / "bpf").iterdir(), BUILT, DRIVER_BUILT, OBJECT_BUILT)
    bpf = {f"gpuledger/_bpf/{path.name}" for path in built}
    schemas = {f"gpuledger/_schemas/{path.name}" for path in (CHECKOUT / "schemas").glob("*.avsc")}
    package = CHECKOUT / "services" / "gpuledger"
    data = {
        f"gpuledger/{path.relative_to(package)}"
        for path in package.rglob("*")
        if path.is_file() and path.suffix in (".tsv", ".sql", ".xml", ".proto")
    }
    assert bpf | schemas | data <= inside


def test_the_installed_agent_loads_its_probes_without_a_checkout_or_a_compiler(installed: Path) -> None:
    place = installed.parents[1]
    *places, loaded = json.loads(run([str(installed), "-c", LOAD], place))
    assert loaded
    assert all(Path(found).is_relative_to(place) for found in places)


def test_the_installed_command_runs(installed: Path) -> None:
    said = run([str(installed.parent / "gpuledger"), "--version"], installed.parents[1])
    assert said.strip()


def test_a_wheel_without_compiled_probes_is_refused_unless_it_is_asked_for(tmp_path: Path) -> None:
    """A wheel that can not load its probes is no surprise on a node."""
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "schemas", "bpf", "services"):
        (tmp_path / name).symlink_to(CHECKOUT / name)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "out")]
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "run make bpf, or set GPULEDGER_WHEEL_WITHOUT_OBJECTS=1" in refused.stderr
    asked = {"GPULEDGER_WHEEL_WITHOUT_OBJECTS": "1", "PATH": "/usr/bin:/bin"}
    subprocess.run(command, cwd=tmp_path, check=True, env=asked, capture_output=True)
    assert [path.name.partition("-py3")[2] for path in (tmp_path / "out").iterdir()] == ["-none-any.whl"]
