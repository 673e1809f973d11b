"""What `make release` does: builds all that a release has, twice, and tries each from an empty environment.

Everything is put into `dist/`. One build is of this checkout, the other of a copy of it in another folder. Both have to
be the same, byte for byte.
"""
