"""Verifying: is a results folder, maybe somebody else's, what was written?"""
