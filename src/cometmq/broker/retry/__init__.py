"""Messages that a consumer sends back: when and where they are delivered again."""
