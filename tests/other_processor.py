"""Run a command as another processor would: python tests/other_processor.py COMMAND …

numpy chooses its exp, log and sums by processor, BLAS its kernels and the C library its functions. Here numpy does
without all that it would choose, and BLAS and the C library take what an old processor has.
"""

from __future__ import annotations

import os
import platform
import sys

X86 = platform.machine() in ("x86_64", "AMD64")
ASKED = "FBAR_OTHER_PROCESSOR"
"""In the environment of a run that is meant to be another processor's."""
OLD = {"x86_64": "Nehalem", "AMD64": "Nehalem", "aarch64": "ARMV8"}.get(platform.machine(), "")
WITHOUT = "-AVX512F,-AVX2,-AVX,-FMA,-FMA4"


def chosen() -> list[str]:
    """What numpy chooses here because the processor has it."""
    from numpy._core import _multiarray_umath as numpys

    return [name for name in numpys.__cpu_dispatch__ if numpys.__cpu_features__.get(name)]


def environment() -> dict[str, str]:
    """What makes Python's numbers those of another processor; empty where numpy has nothing to choose."""
    features = chosen()
    if not features:
        return {}
    found = {ASKED: " ".join(features), "NPY_DISABLE_CPU_FEATURES": " ".join(features)}
    if OLD:
        found["OPENBLAS_CORETYPE"] = OLD
    if X86 and sys.platform == "linux":
        found["GLIBC_TUNABLES"] = f"glibc.cpu.hwcaps={WITHOUT}"
    return found


if __name__ == "__main__":
    other = environment()
    if not other:
        print("numpy has nothing to choose by processor on this machine; there is no other arithmetic to try")
        sys.exit(0)
    print(f"without {other[ASKED]}; BLAS as on {OLD or 'this processor'}", flush=True)
    os.execvpe(sys.argv[1], sys.argv[1:], {**os.environ, **other})
