"""The transformations and predicates that come with Connect, and Debezium's ExtractNewRecordState.

Those for keys or values (`Key` or `Value` at the end of their names) do the same to one half of a
record. Texts of errors and keys of configs are Connect's.
"""
