"""RCRT: tools that are called and answer by breadcrumbs."""
