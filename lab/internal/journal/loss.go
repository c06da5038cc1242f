package journal

import (
	"fmt"
	"slices"
	"strings"
)

// Stored is a write as a member of etcd has it.
type Stored struct {
	// Revision is etcd's revision of the object's last change.
	Revision int64
	Value    string
}

// Loss is what a member of etcd lacks of the acknowledged writes, by their numbers, in order.
type Loss struct {
	Missing []int
	// Changed are those with another value or another revision than was acknowledged.
	Changed []int
}

// None reports whether the member returns every acknowledged write.
func (l Loss) None() bool { return len(l.Missing) == 0 && len(l.Changed) == 0 }

// String names the writes.
func (l Loss) String() string {
	var parts []string
	if n := len(l.Missing); n > 0 {
		parts = append(parts, fmt.Sprintf("%d missing (%s)", n, formatNumbers(l.Missing)))
	}
	if n := len(l.Changed); n > 0 {
		parts = append(parts, fmt.Sprintf("%d changed (%s)", n, formatNumbers(l.Changed)))
	}
	return strings.Join(parts, "; ")
}

// Compare returns what a member that has these writes, by number, lacks. A write that was not
// acknowledged may be there or not.
func Compare(attempts []Attempt, stored map[int]Stored) Loss {
	var loss Loss
	for _, write := range Acknowledged(attempts) {
		switch has, ok := stored[write.Number]; {
		case !ok:
			loss.Missing = append(loss.Missing, write.Number)
		case has != Stored{Revision: write.Revision, Value: Value(write.Number)}:
			loss.Changed = append(loss.Changed, write.Number)
		}
	}
	slices.Sort(loss.Missing)
	slices.Sort(loss.Changed)
	return loss
}

// shownRanges is how many ranges of numbers a message has at most.
const shownRanges = 8

// formatNumbers writes sorted numbers as ranges: "1, 3 to 5".
func formatNumbers(numbers []int) string {
	var ranges []string
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		text := fmt.Sprint(numbers[i])
		if end > i {
			text = fmt.Sprintf("%d to %d", numbers[i], numbers[end])
		}
		ranges = append(ranges, text)
		i = end + 1
	}
	if more := len(ranges) - shownRanges; more > 0 {
		ranges = append(ranges[:shownRanges], fmt.Sprintf("and %d more ranges", more))
	}
	return strings.Join(ranges, ", ")
}

// Member is a member of etcd that was asked alone.
type Member struct {
	// Machine is the name of its machine.
	Machine string
	// Version is that of etcd.
	Version string
	// Known are the names of all members that it knows, sorted.
	Known []string
	// Stored are the writes that it has, by number.
	Stored map[int]Stored
	// Problem says why it did not answer; it is empty otherwise.
	Problem string
}

// Verify compares a journal with all members of etcd. It returns a sentence for each thing that is
// not as acknowledged, and nothing if every member has every acknowledged write.
func Verify(attempts []Attempt, members []Member) []string {
	var problems []string
	report := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf(format, args...))
	}
	if len(members) == 0 {
		report("No member of etcd was asked.")
	}
	if len(Acknowledged(attempts)) == 0 {
		report("The API acknowledged no write.")
	}
	for _, m := range members {
		loss := Compare(attempts, m.Stored)
		switch {
		case m.Problem != "":
			report("The member of etcd on %s did not answer: %s", m.Machine, m.Problem)
		case !loss.None():
			report("The member of etcd on %s does not have all acknowledged writes: %s.",
				m.Machine, loss)
		case len(m.Known) != len(members):
			report("The member of etcd on %s knows %d members, and there are %d machines: %s.",
				m.Machine, len(m.Known), len(members), strings.Join(m.Known, ", "))
		}
	}
	for _, a := range attempts {
		if a.Wrong != "" {
			report("Through the load balancer, %s.", a.Wrong)
		}
	}
	return problems
}
