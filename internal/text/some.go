package text

import (
	"fmt"
	"strings"
)

// ListBytes bounds a list in a message, in bytes, without the words that count the others.
const ListBytes = 768

// Some collects the first items of a list that can grow, and counts the others. It holds at most
// Most items, at least one, and ListBytes bytes. The zero value is no list: set Most. It is not safe
// for concurrent use.
type Some struct {
	// Most is how many items are named.
	Most int

	named       []string
	bytes, more int
	closed      bool
}

// IsFull reports whether the next item is only counted, so that its words need not be made.
func (s *Some) IsFull() bool { return s.closed || len(s.named) >= max(s.Most, 1) }

// Add adds an item. One that does not fit is counted, and so are all after it.
func (s *Some) Add(item string) {
	if len(s.named) == 0 {
		item = Fit(item, ListBytes)
	}
	if s.closed = s.IsFull() || s.bytes+len(item) > ListBytes; s.closed {
		s.more++
		return
	}
	s.named, s.bytes = append(s.named, item), s.bytes+len(item)
}

// Len is how many items were added.
func (s *Some) Len() int { return len(s.named) + s.more }

// Join joins the items, and says how many more there are: "a, b and 2 more", or, with another
// separator, "a; b; and 2 more".
func (s *Some) Join(separator string) string {
	joined := strings.Join(s.named, separator)
	if s.more == 0 {
		return joined
	}
	if separator == ", " {
		separator = " "
	}
	return fmt.Sprintf("%s%sand %d more", joined, separator, s.more)
}

// JoinSome joins at most so many items of at most ListBytes bytes, and says how many more there are.
func JoinSome[T ~string](items []T, most int, separator string) string {
	some := Some{Most: most}
	for _, item := range items {
		some.Add(string(item))
	}
	return some.Join(separator)
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
