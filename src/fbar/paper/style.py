"""Colours, markers and names of the methods in the paper's figures."""

from __future__ import annotations

from fbar.pictures import letter, panels, render

__all__ = ["COLOURS", "LABELS", "MARKERS", "letter", "panels", "render"]

COLOURS = {
    "targeted": "#7b4ab0",
    "stratified": "#2aa3b8",
    "stratified-design-independent": "#d08a2e",
    "prior": "#3b6fb6",
    "posterior": "#c8452f",
    "max-ess": "#2a8f5c",
    "min-unnormalised-mse": "#9a6a3a",
    "min-mse": "#7b4ab0",
    "ibs": "#666666",
    "max-acceptance": "#3b6fb6",
    "adaptive-posterior": "#c8452f",
    "adaptive-min-mse": "#2a8f5c",
    "min-mse-oracle": "#7b4ab0",
    "local-mvn": "#3b6fb6",
    "uniform": "#c8452f",
    "local-mvn-fast": "#2a8f5c",
    "rejection": "#7b4ab0",
}
MARKERS = {
    "targeted": "o",
    "prior": "D",
    "posterior": "s",
    "max-ess": "^",
    "min-unnormalised-mse": "v",
    "min-mse": "o",
    "adaptive-posterior": "p",
    "adaptive-min-mse": "^",
    "min-mse-oracle": "*",
    "local-mvn": "o",
    "uniform": "D",
    "local-mvn-fast": "s",
    "rejection": "^",
}
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
