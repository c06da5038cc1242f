// Package eventlimit makes the recorders of Events. It is the only place that does, so that each note
// has at most [MaxBytes]: the API server refuses an Event whose note is longer, and the recorder of
// client-go then drops it.
package eventlimit
