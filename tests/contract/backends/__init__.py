"""What every backend does whose tool server answers a call in the same exchange, whatever its protocol."""
