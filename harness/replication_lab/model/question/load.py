"""The loads that a question may name: the published inserts, and sysbench's scripts; any other load is a file."""

INSERTS = "inserts"
# sysbench's scripts, and whether each transaction changes a row. Without bulk_insert: its events are no transactions.
SYSBENCH = {
    "oltp_delete": False,  # the row may be missing already
    "oltp_insert": True,
    "oltp_point_select": False,
    "oltp_read_only": False,
    "oltp_read_write": True,
    "oltp_update_index": True,
    "oltp_update_non_index": True,
    "oltp_write_only": True,
    "select_random_points": False,
    "select_random_ranges": False,
}
OTHER = "FILE.lua or FILE.sql"
# Bytes. The file becomes part of the record, which is read as a whole.
LARGEST = 16 << 20
