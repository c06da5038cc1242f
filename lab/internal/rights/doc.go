// Package rights compares the rules that roles grant with the requests that an API server recorded: which requests
// it refused because a rule is missing, and which rules no request used. It is pure.
package rights
