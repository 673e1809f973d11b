"""OTC 1.0, its RFC form, OXP and the form of LangChain: for callers and for tool servers."""
