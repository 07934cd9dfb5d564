"""Schedules: how a group of equations becomes kernels, one module for each kind of group."""
