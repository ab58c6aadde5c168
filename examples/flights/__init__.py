"""336,776 real flights through a broker and a Spark job: `python -m examples.flights`."""
