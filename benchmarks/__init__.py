"""Measurements beside other libraries, in one run each; results are committed under benchmarks/results/."""
