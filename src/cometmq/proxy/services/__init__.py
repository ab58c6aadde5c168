"""The methods of MessagingService, answered by the broker in whose process the proxy runs."""
