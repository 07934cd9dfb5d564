"""poot on the CPU beside the libraries that one would take instead: `python -m benchmarks.cpu`."""
