"""Renderers: a prepared kernel as the source of one language."""
