"""Where HTTP arrives: the public ASGI application, what stands before it, and what is noted of each request."""
