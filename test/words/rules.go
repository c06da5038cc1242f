package main

import (
	"regexp"
	"strings"
)

// rule forbids what pattern matches, in lower or upper case. A space in a pattern is any white space.
type rule struct {
	pattern string
	// use is what to write instead.
	use string
}

// rules are the forbidden words and phrases. Add one only if it is always wrong: a check with false
// alarms gets disabled.
var rules = []rule{
	{`mend(s|ed|ing)?\b`, "fix"},
	{`dear(er|est)?\b`, "expensive"},
	{`(leave|leaves|left|leaving)( [^\s.]+){0,3} away\b`, "omit"},
	{`(be|been|being) had\b`, "is unavailable; cannot get"},
	{`belong(s|ed|ing)? into\b`, "belongs in"},
	{`for ever\b`, "indefinitely"},
	{`(stands?|stood) in\b`, "is in; replaces"},
	{`as (it|they) (is|was|are|were)([,.;:)]| and\b)`, "unchanged"},
	{`(comes?|came|coming) to\b`, "results in"},
	{`(go|goes|went|going|gone) on\b`, "continue"},
	{`whoever\b`, "the person or program that"},
	{`of (its|their) own accord\b`, "by itself"},
	{`anew\b`, "again"},
	{`(be|been) told\b`, "is unknown"},
	{`(stands?|stood) still\b`, "is stuck"},
	{`shall\b`, "must; should"},
	{`fortnights?\b`, "two weeks"},
}

// matcher is a rule that is ready for use.
type matcher struct {
	*regexp.Regexp

	use string
}

func compile(rules []rule) []matcher {
	matchers := make([]matcher, 0, len(rules))
	for _, r := range rules {
		pattern := `(?i)\b` + strings.ReplaceAll(r.pattern, " ", `\s+`)
		matchers = append(matchers, matcher{Regexp: regexp.MustCompile(pattern), use: r.use})
	}
	return matchers
}
