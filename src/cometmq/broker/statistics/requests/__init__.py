"""Request handlers of statistics: runtime figures, rates, progress of groups, ends of topics."""
