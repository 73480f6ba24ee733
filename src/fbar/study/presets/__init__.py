"""Studies that are ready to run, with the claims that they test.

The command line imports `preset`; a preset is a file here.
"""

from fbar.checks import choice
from fbar.study.presets.base import Chosen, Claim, Preset
from fbar.study.presets.infer import INFER
from fbar.study.presets.paper_claims import PAPER_CLAIMS
from fbar.study.presets.systems import SYSTEMS
from fbar.study.presets.truth import TRUTH

__all__ = ["PRESETS", "Chosen", "Claim", "Preset", "preset"]

PRESETS: dict[str, Preset] = {item.name: item for item in (PAPER_CLAIMS, INFER, TRUTH, SYSTEMS)}


def preset(name: str) -> Preset:
    return PRESETS[choice(name, PRESETS, "preset")]
