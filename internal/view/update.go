package view

import (
	"strings"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// allReplaced reports whether no UpdatePolicy has anything to do with a chain. What is Unknown then are MachinePools, for
// which there are no policies.
func allReplaced(c Chain) bool {
	some := false
	check := func(u cover.Update) bool {
		some = some || u.Outcome == cover.Replace
		return u.Policy == "" && (u.Outcome == cover.Replace || u.Outcome == cover.Unknown)
	}
	if c.ControlPlaneUpdate != nil && !check(*c.ControlPlaneUpdate) {
		return false
	}
	for _, g := range c.Plan.Groups {
		if u, asked := c.Updates[g.Name]; asked && !check(u) {
			return false
		}
	}
	return some
}

// formatUpdatesOf says how machines will be updated; groups of which the same is said share a line.
func formatUpdatesOf(buffer *strings.Builder, s Screen, c Chain) {
	if allReplaced(c) {
		buffer.WriteString("\nMachines are replaced, because no UpdatePolicy selects them.\n")
		return
	}
	var messages []string
	groups := map[string][]string{}
	add := func(name, message string) {
		if groups[message] == nil {
			messages = append(messages, message)
		}
		groups[message] = append(groups[message], name)
	}
	if c.ControlPlaneUpdate != nil {
		add("control plane", c.ControlPlaneUpdate.Message)
	}
	for _, g := range c.Plan.Groups {
		if update, asked := c.Updates[g.Name]; asked {
			add(g.Name, update.Message)
		}
	}
	topics := make([]topic, 0, len(messages))
	for _, m := range messages {
		topics = append(topics, topic{name: describeGroups(groups[m]), text: m})
	}
	formatTopics(buffer, s, "Machines", topics)
}
