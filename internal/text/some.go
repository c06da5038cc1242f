package text

import (
	"fmt"
	"slices"
	"strings"
)

// JoinSome joins at most so many items, and says how many more there are.
func JoinSome(items []string, most int, separator string) string {
	if more := len(items) - most; more > 0 {
		items = append(slices.Clone(items[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(items, separator)
}

// Count returns a number with what is counted: "1 machine", "2 machines".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// CountAre returns Count with the verb that belongs to it: "1 machine is", "2 machines are".
func CountAre(n int, what string) string {
	if n == 1 {
		return Count(n, what) + " is"
	}
	return Count(n, what) + " are"
}
