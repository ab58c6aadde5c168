"""Messages for any time: they wait in the timer's wheel until their millisecond (docs/design/0010)."""
