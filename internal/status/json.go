package status

import (
	"strconv"
	"time"

	"github.com/windlass-dev/windlass/internal/text"
)

// MarshalJSON shows every state, also those that no machine is in.
func (c Counts) MarshalJSON() ([]byte, error) {
	all := make(map[State]int, len(States()))
	for _, s := range States() {
		all[s] = c[s]
	}
	return text.EncodeJSON(all)
}

// Seconds are whole seconds in JSON.
type Seconds struct{ time.Duration }

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, int64(s.Duration/time.Second), 10), nil
}
