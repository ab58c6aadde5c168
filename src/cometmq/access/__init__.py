"""Access control of a server: users, their signatures and rights, and the gate that checks them."""
