"""The stages in their order: each is made once and found again by its fingerprint.

corpus -> subwords -> encoded -> nmt -> rules -> proxy -> scores
"""
