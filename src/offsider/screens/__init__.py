"""Screens: what a person sees and does, described once as plain data for the pages and the terminal.

A screen (`WebTab`) has pages, which consist of tables, facts, notes, buttons and forms, and actions. Its functions read
the fields of a `ScreenRequest`. `plain` turns a page into JSON values; each face renders those.
"""
