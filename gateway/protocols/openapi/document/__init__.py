"""OpenAPI documents as lists of tools, and the operations of them as calls (OpenAPI 3.0 to 3.2, Swagger 2.0). Pure."""
