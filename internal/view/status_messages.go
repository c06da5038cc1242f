package view

import (
	"fmt"
	"strings"

	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
)

// message is what is reported about an update, or about several that wait for the same.
type message struct {
	machine, text string
	// others counts the further machines with the same text.
	others int
}

// formatMessages lists the messages of updates under way, then why others have not begun. Machines
// that are listed as blocked are left out.
func formatMessages(buffer *strings.Builder, s Screen, updates []status.Update, blocked []status.Blocked) {
	messages, more := listMessages(updates, blocked)
	formatList(buffer, s, "Messages", len(messages), func(i int) (string, string) {
		m := messages[i]
		if m.others > 0 {
			return fmt.Sprintf("%s and %s", m.machine, text.Count(m.others, "more machine")), m.text
		}
		return m.machine, m.text
	})
	if more > 0 {
		buffer.WriteString("  and " + text.Count(more, "more message") + "; -o wide shows them\n")
	}
}

// listMessages returns one message for each update under way, and one for each distinct text of those
// that wait, because those can be very many. more is how many texts of waiting machines are left out.
func listMessages(updates []status.Update, blocked []status.Blocked) (messages []message, more int) {
	isBlocked := make(map[string]bool, len(blocked))
	for _, b := range blocked {
		isBlocked[b.Name] = isBlocked[b.Name] || b.Kind == "Machine"
	}
	var waiting []message
	known := map[string]int{}
	for _, u := range updates {
		words := u.Text()
		switch {
		case words == "" || isBlocked[u.Machine]:
		case isWorkedOn(u):
			messages = append(messages, message{machine: u.Machine, text: words})
		case u.State == status.Queued:
			i, again := known[words]
			if again {
				waiting[i].others++
				continue
			}
			known[words] = len(waiting)
			waiting = append(waiting, message{machine: u.Machine, text: words})
		}
	}
	shown := min(len(waiting), shownGroupRows)
	return append(messages, waiting[:shown]...), len(waiting) - shown
}
