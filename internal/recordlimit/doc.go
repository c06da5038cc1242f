// Package recordlimit bounds the annotations in which Windlass records: all annotations of one object
// share 256 KiB, and a write beyond that fails, whatever it is about. record.Limits is the list of
// them, and the client of [NewClient] refuses a write with a longer one. Controllers, hooks and
// webhooks have no other client of the management cluster, so the limit holds where the write happens.
//
// A record is refused, and never cut: decisions depend on it. What makes a record keeps its lists and
// texts short enough.
package recordlimit
