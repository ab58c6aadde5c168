"""The only asyncio sockets of the project: servers, outgoing channels, and the request dispatcher."""
