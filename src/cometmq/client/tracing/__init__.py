"""Interceptors of sends, ends of transactions and listener calls: RocketMQ's message traces and OpenTelemetry."""
