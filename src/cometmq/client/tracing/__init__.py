"""Interceptors of sends and listeners: RocketMQ's traces and OpenTelemetry."""
