// Package record declares the records of updates in place: what one package writes on an object as
// JSON and others read. Each has one type and one decoder. [Limits] has the limit in bytes of each
// annotation that Windlass writes. A record that cannot be read is unknown: nothing is done because
// of it. Decisions that cannot be read count as none.
//
// It also has the rule for recorded times.
//
// Other processes have written a record, by other clocks, and a clock may be set back. So a recorded
// time after now counts as now, and no wait that begins with it lasts longer than the wait's own
// duration:
//
//   - A record that Windlass writes itself is corrected: Past replaces its times, and the corrected
//     record is written before anything is decided on it.
//   - A time that others have written cannot be corrected. A Clock remembers when the process first
//     read it.
package record
