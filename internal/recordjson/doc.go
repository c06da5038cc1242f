// Package recordjson encodes the records that Windlass writes and reads again, so that what a newer
// release has added to one is kept when an older release writes it again.
package recordjson
