"""`make bench`: what a call through the gateway costs, beside a stock echo and a plain reverse proxy."""
