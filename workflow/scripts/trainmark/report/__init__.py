"""What people look at: figures, the report's page, network pictures and the terminal's summary."""
