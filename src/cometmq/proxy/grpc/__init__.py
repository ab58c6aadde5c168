"""A server of gRPC calls over HTTP/2: connections, calls, deadlines and limits, for services of any kind."""
