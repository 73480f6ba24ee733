"""What importing fbar loads, and which way imports point."""

import subprocess
import sys
from pathlib import Path

from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[2]


def modules_after(statement):
    code = f"import sys; {statement}; print(' '.join(sorted({{m.split('.')[0] for m in sys.modules}})))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_fbar_loads_numpy_and_scipy_alone():
    loaded = modules_after("import fbar")
    bare = modules_after("import numpy, scipy.stats")  # numpy.f2py takes charset_normalizer where it is installed
    third_party = {m for m in loaded - bare if m not in sys.stdlib_module_names and not m.startswith("_")}
    assert third_party <= {"fbar"}
    assert not loaded & {"matplotlib", "dask", "distributed", "numba", "pandas", "rich", "cyclopts", "arviz", "sklearn"}


def test_imports_point_down(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"))
    assert status == 0, capsys.readouterr().out
