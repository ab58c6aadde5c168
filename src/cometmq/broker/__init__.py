"""The broker: receives, stores and delivers messages. `server.Broker` is the whole of it."""
