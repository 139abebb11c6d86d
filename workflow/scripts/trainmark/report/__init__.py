"""Output for people: figures, the report, and the summary in the terminal."""
