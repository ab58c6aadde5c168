"""Messages that a consumer gives back: when and where they come again."""
