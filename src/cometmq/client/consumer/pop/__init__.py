"""The simple consumer, whose user acknowledges messages, and the pop requests that push consumers use, too."""
