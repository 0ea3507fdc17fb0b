"""What a guarantee says, for people: sentences, pages and notebooks.

Only numbers and names come in here: a claim, points of a curve, labels. Who has them, an
accountant or a fitted model, stands above and hands them down.
"""
