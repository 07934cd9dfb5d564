"""poot: a tensor compute stack for people with mixed hardware."""
