"""Interceptors of sends and listener calls: RocketMQ's message traces and OpenTelemetry."""
