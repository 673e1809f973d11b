"""The processes that serve: one or several, how they are watched over, and how a configuration is read again."""
