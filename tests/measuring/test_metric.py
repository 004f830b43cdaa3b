"""Tests of how a metric declares its columns."""

from xnmt_bench.measuring.metric import Column


def test_ranked_columns_have_an_interval_unless_they_say_not():
    column = Column.higher("share", "share %", "{:.1f}".format)
    less = Column.lower("loss", "loss", interval=False, log=True)
    assert (column.better, column.interval, column.form(0.25)) == ("higher", True, "0.2")
    assert (less.better, less.interval, less.log, less.form(0.25)) == ("lower", False, True, "0.25")


def test_a_template_makes_a_column_for_each_value():
    template = Column.lower("top_{}", "first {} word", best=0.0).means("the {} word stays")
    assert list(template.of_each(("source", 2))) == [
        Column.lower("top_source", "first source word", best=0.0).means("the source word stays"),
        Column.lower("top_2", "first 2 word", best=0.0).means("the 2 word stays"),
    ]
