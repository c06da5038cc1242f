// Package judge compares what `windlass status` shows with what really happens, second by second.
// It answers fixed questions from recorded objects, and again from the JSON of windlass status. It
// is written apart from the model that makes that JSON, and imports nothing of it.
package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kind is what a question asks.
type Kind string

// The questions.
const (
	// Runs: which version does this machine run?
	Runs Kind = "runs"
	// Moves: is this machine being created, updated in place, or removed?
	Moves Kind = "moves"
	// UnderWay: is an upgrade under way?
	UnderWay Kind = "under way"
	// AtTarget: how many machines have arrived at the target?
	AtTarget Kind = "at target"
	// Done: is this step of the upgrade under way done?
	Done Kind = "done"
	// HeldBy: does this hold the upgrade, and since when?
	HeldBy Kind = "held by"
	// MustAct: must this person or program act?
	MustAct Kind = "must act"
	// Seen: when was the controller last seen? It is asked when a status comes, because that alone
	// is no reason for another one.
	Seen Kind = "controller seen"
)

// Yes answers questions to which no answer means no.
const Yes = "yes"

// Question is about one machine, step, hold or person; about the Cluster if About is empty.
type Question struct {
	Kind  Kind
	About string
}

func (q Question) String() string { return strings.TrimSpace(string(q.Kind) + " " + q.About) }

// Answer is what is so.
type Answer struct {
	// Is has several texts where each of them is right. Empty stands for no answer.
	Is []string
	// Since is when that began; zero if nobody asks or nothing is shown.
	Since time.Time
	// AtEarliest says that it began at Since or later.
	AtEarliest bool
}

func is(texts ...string) Answer { return Answer{Is: texts} }

// Answers are those of one moment. A question that has none is answered by "".
type Answers map[Question]Answer

// Moment is when answers began to be right, or to be shown.
type Moment struct {
	At      time.Time
	Answers Answers
	// Silent are the kinds of questions that have no right answer now. Of what is shown, they are those of
	// which it says that answers are missing.
	Silent []Kind
	// Objects tells what there was, or was shown, for people.
	Objects fmt.Stringer
}

// Lag is how many seconds old an answer may be. Seconds are counted as the judge had them: while
// the machine has no processor for the judge, it has none for the command either.
const Lag = 5

// BusyLag is how old it may be where other tests take the processors.
const BusyLag = 3 * Lag

// ahead is how much earlier than the judge a command may see a change.
const ahead = time.Second

// Fault is a wrong answer.
type Fault struct {
	Question Question
	// From and To are the first and the last second with the fault.
	From, To time.Time
	// Right is what was right at any time between From less the lag and From; Shown is what was
	// shown.
	Right, Shown []string
	// Objects are those at From, and Status what was shown then.
	Objects, Status fmt.Stringer
}

// Line tells the fault without objects.
func (f Fault) Line() string {
	clock := func(t time.Time) string { return t.UTC().Format("15:04:05.0") }
	return fmt.Sprintf("%s to %s: %s: shown %s, right %s", clock(f.From), clock(f.To), f.Question,
		quote(f.Shown), quote(f.Right))
}

func (f Fault) String() string {
	var text strings.Builder
	text.WriteString(f.Line())
	for _, there := range []fmt.Stringer{f.Objects, f.Status} {
		if there != nil {
			text.WriteString("\n" + there.String())
		}
	}
	return text.String()
}

func quote(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = fmt.Sprintf("%q", t)
	}
	return strings.Join(quoted, " or ")
}

// Compare returns the answers of status that were wrong, by time and question. truth and status are
// in order. seconds are when answers are compared. An answer is right if it was right at any time
// in the last lag seconds: an older one is a fault, and so is a missing one.
func Compare(truth, status []Moment, seconds []time.Time, lag int) []Fault {
	var faults []Fault
	open := map[Question]int{}
	for i, now := range seconds {
		shown, ok := lastAt(status, now)
		if !ok || i < lag {
			continue
		}
		window := between(truth, seconds[i-lag], now.Add(ahead))
		if len(window) == 0 {
			continue
		}
		fresh := shown.At.After(seconds[i-1])
		for q := range questions(window, shown) {
			if q.Kind == Seen && !fresh {
				continue
			}
			right, ok := check(window, q, shown.Answers[q])
			_, answered := shown.Answers[q]
			if ok || !answered && slices.Contains(shown.Silent, q.Kind) {
				delete(open, q)
				continue
			}
			if at, continues := open[q]; continues {
				faults[at].To = now
				continue
			}
			open[q] = len(faults)
			there, _ := lastAt(truth, now)
			faults = append(faults, Fault{
				Question: q, From: now, To: now, Right: right, Shown: describe(shown.Answers[q]),
				Objects: there.Objects, Status: shown.Objects,
			})
		}
	}
	slices.SortStableFunc(faults, func(a, b Fault) int {
		if order := a.From.Compare(b.From); order != 0 {
			return order
		}
		return strings.Compare(a.Question.String(), b.Question.String())
	})
	return faults
}

// lastAt returns the moment that counts at a time.
func lastAt(moments []Moment, at time.Time) (Moment, bool) {
	i := after(moments, at)
	if i == 0 {
		return Moment{}, false
	}
	return moments[i-1], true
}

// after returns the index of the first moment after a time.
func after(moments []Moment, at time.Time) int {
	i, _ := slices.BinarySearchFunc(moments, at, func(m Moment, at time.Time) int {
		if m.At.After(at) {
			return 1
		}
		return -1
	})
	return i
}

// between returns the moments that counted at any time from one to another.
func between(moments []Moment, from, to time.Time) []Moment {
	first := after(moments, from)
	return moments[max(0, first-1):after(moments, to)]
}

func questions(window []Moment, shown Moment) map[Question]bool {
	all := map[Question]bool{}
	for _, m := range append(slices.Clone(window), shown) {
		for q := range maps.Keys(m.Answers) {
			all[q] = true
		}
	}
	return all
}

// check reports whether an answer was right in any of the moments, and what was right.
func check(window []Moment, q Question, shown Answer) (right []string, ok bool) {
	for _, m := range window {
		if slices.Contains(m.Silent, q.Kind) {
			return nil, true
		}
		if matches(m.Answers[q], shown) {
			return nil, true
		}
		for _, text := range describe(m.Answers[q]) {
			if !slices.Contains(right, text) {
				right = append(right, text)
			}
		}
	}
	return right, false
}

func matches(right, shown Answer) bool {
	same := slices.ContainsFunc(texts(shown), func(s string) bool {
		return slices.Contains(texts(right), s)
	})
	if !same || right.Since.IsZero() || shown.Since.IsZero() {
		return same
	}
	// Times of the API are whole seconds.
	const tolerance = (Lag + 1) * time.Second
	off := shown.Since.Sub(right.Since)
	return off <= tolerance && (shown.AtEarliest || off >= -tolerance)
}

func texts(a Answer) []string {
	if len(a.Is) == 0 {
		return []string{""}
	}
	return a.Is
}

func describe(a Answer) []string {
	if a.Since.IsZero() {
		return texts(a)
	}
	since := " since "
	if a.AtEarliest {
		since = " since at earliest "
	}
	var all []string
	for _, t := range texts(a) {
		all = append(all, t+since+a.Since.UTC().Format(time.TimeOnly))
	}
	return all
}
