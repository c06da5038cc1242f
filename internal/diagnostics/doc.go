// Package diagnostics serves metrics, profiles and probes of a manager. It bounds what callers take, and
// how often the server asks the API server whether a caller may read metrics and profiles.
package diagnostics
