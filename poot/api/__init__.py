"""The user's side: traced functions, concrete arrays, devices."""
