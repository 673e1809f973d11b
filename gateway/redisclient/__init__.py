"""The client of Redis, Valkey and their clusters: addresses, connections, scripts, batches. Knows no calls."""
