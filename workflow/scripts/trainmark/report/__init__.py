"""Output for people: figures, the report, its pictures of networks, and the summary in the terminal."""
