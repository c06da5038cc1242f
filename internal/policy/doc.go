// Package policy says what an UpdatePolicy asks for. A Compiled policy is parsed once for each version
// of the object; the Policy in it is handed unchanged to whatever decides about the group that it
// counts for. The package decides nothing about machines. It is pure and safe for concurrent use.
package policy
