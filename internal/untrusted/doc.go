// Package untrusted parses what tenants store and callers send: JSON and YAML of any size and shape.
// Limits bound the memory and the time of a parse, which are linear in the input. Every other package
// parses such text through this one; TestOnlyParser enforces that.
//
// Everything here is pure and safe for concurrent use, except for Scanner.
package untrusted
