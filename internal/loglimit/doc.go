// Package loglimit bounds the lines that callers and tenants cause in the log. A line that a request
// causes tells about a state once; a caller who repeats the request must not fill the log with it.
package loglimit
