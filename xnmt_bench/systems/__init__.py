"""Systems that come with the package: a folder each, with a card.

`python -m xnmt_bench.systems FOLDER NAME` makes such a folder of a trained system.
"""
