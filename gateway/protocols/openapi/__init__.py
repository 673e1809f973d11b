"""HTTP APIs with an OpenAPI document as tool servers."""
