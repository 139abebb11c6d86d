"""The paper kit: numbers, tables, figures, methods and references of a campaign, for LaTeX and for other programs."""
