"""What happens to a request between its bytes and its answer, to its follow-ups and to callbacks."""
