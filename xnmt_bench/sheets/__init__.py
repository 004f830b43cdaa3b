"""Sheets of questions for people: made from results, answered in a browser or a spreadsheet."""
