"""What consoles and mqadmin ask of a broker about topics, groups and their clients."""
