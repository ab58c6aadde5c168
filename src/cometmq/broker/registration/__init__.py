"""Registration of the broker, its topics and its addresses at nameservers."""
