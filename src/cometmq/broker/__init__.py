"""The broker: takes messages, keeps them, gives them to consumers. `server.Broker` is all of it."""
