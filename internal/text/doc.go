// Package text prepares text for conditions, Events, annotations, logs, terminals and reports: it
// bounds text from outside, and writes tables and JSON. Widths are numbers of characters. Everything
// here is pure and safe for concurrent use.
package text
