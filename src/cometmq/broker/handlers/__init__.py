"""What a broker does on each request; one module a kind of request, one function a code."""
