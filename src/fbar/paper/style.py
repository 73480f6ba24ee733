"""Colours, markers and names of the methods in the paper's figures."""

from __future__ import annotations

from fbar.plot.look import GREEN, GREY, ORANGE, PURPLE, SKY, letter, method_look, panels, render

__all__ = ["COLOURS", "LABELS", "MARKERS", "letter", "panels", "render"]

SAME = {"min-mse-oracle": "min-mse", "max-acceptance": "prior", "adaptive-min-mse": "adaptive"}
"""What settings of the paper's figures are called elsewhere."""

OWN = {
    "stratified-design-independent": (ORANGE, "D"),
    "min-unnormalised-mse": (PURPLE, "v"),
    "ibs": (GREY, ">"),
    "local-mvn": (PURPLE, "o"),
    "uniform": (GREEN, "s"),
    "local-mvn-fast": (SKY, "^"),
}
"""The look of settings that only the paper has."""

LABELS = {
    "targeted": "targeted",
    "stratified": "stratified",
    "stratified-design-independent": "stratified's design,\nindependent draws",
    "prior": "prior",
    "posterior": "posterior",
    "max-ess": "max ESS",
    "min-unnormalised-mse": "min unnormalised MSE",
    "min-mse": "min MSE",
    "ibs": "IBS",
    "max-acceptance": "max acceptance",
    "adaptive-posterior": "adaptive posterior",
    "adaptive-min-mse": "adaptive min MSE",
    "min-mse-oracle": "min MSE (oracle)",
    "local-mvn": "local MVN",
    "uniform": "uniform",
    "local-mvn-fast": "local MVN, fast ε",
    "rejection": "rejection",
}

_LOOKS = {name: OWN.get(name) or tuple(method_look(SAME.get(name, name)).values()) for name in LABELS}
COLOURS = {name: look[0] for name, look in _LOOKS.items()}
MARKERS = {name: look[1] for name, look in _LOOKS.items()}
