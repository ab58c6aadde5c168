"""Registration at nameservers: the broker, its topics and its addresses."""
