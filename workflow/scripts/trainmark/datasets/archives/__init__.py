"""Archives: unpacked, with everything refused that leaves the folder or grows without bound."""
