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
