// Package text prepares text for conditions, Events, annotations, logs and terminals: it bounds text
// from outside, and writes tables. Widths are numbers of characters. Everything here is pure and safe
// for concurrent use.
package text
