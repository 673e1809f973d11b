"""Programs of others that judge the requests we make of OpenAPI documents, APIs they serve, and real documents."""
