"""What is shipped to run the gateway elsewhere: image, chart, alerts, compose file. Run by `make test-deploy`."""
