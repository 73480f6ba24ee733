"""Numerical methods that give true posteriors: cubature, quasi-random importance sampling, nested quadrature, brute force.

The models import from here, and nothing else does.
"""
