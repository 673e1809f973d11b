"""The handbook as a website: `make docs` stages its pages, has Zensical build them, and checks what came out."""
