"""What a broker counts, once: each number is here, and whoever shows one reads it here."""
