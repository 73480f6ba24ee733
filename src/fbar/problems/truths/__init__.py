"""Numerical methods that give true posteriors: cubature, importance sampling, nested quadrature, brute force.

The models import from here, and nothing else does.
"""
