"""Devices: everything that loads and runs compiled programs."""
