// Package refusal handles writes that the API server refuses for what they contain or for a quota:
// repeating them at once is of no use. It retries them ever more seldom, logs each refusal once, and
// counts all of them.
package refusal
