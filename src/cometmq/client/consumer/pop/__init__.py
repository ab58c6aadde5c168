"""The simple consumer, which acknowledges each message, and the pop requests that other consumers use, too."""
