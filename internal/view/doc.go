// Package view turns plans into what people and scripts read: a table, JSON, YAML, or a Mermaid diagram.
//
// Everything here is pure but for the io.Writer that it is given, and bytes are stable: the same input always gives the
// same output. All functions are safe for concurrent use.
package view
