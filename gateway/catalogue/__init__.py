"""Which tools there are: asked for in the background, judged, and kept as the bytes of lists."""
