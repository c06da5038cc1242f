// Package diagnostics configures the server of metrics and profiles. It limits how often the server asks
// the API server whether a caller may read them.
package diagnostics
