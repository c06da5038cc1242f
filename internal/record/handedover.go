package record

import (
	"errors"
	"fmt"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// HandOverState is how far a hand-over is.
type HandOverState string

// The states of a hand-over. An unknown one is that of a newer release.
const (
	// HandOverAsked: the updater is being asked. Nobody knows whether it has accepted.
	HandOverAsked HandOverState = "Asked"
	// HandOverAccepted: the updater has accepted.
	HandOverAccepted HandOverState = "Accepted"
	// HandOverEnded: the updater was told to stop, and has stopped.
	HandOverEnded HandOverState = "Ended"
)

// HandedOver is the record of a hand-over, on the MachineSet whose Machines were handed over.
type HandedOver struct {
	// Operation names the hand-over to the updater. One that has ended is not continued: another one
	// begins.
	Operation string `json:"operation"`
	// Decision is the id of the decision that the updater carries out, and Updater its name.
	Decision string         `json:"decision"`
	Updater  string         `json:"updater"`
	State    HandOverState  `json:"state"`
	Budget   HandOverBudget `json:"budget"`
}

// HandOverBudget are the limits that an updater is given, in Machines of the group.
type HandOverBudget struct {
	// AtOnce is how many may be worked on at once, at least 1.
	AtOnce int32 `json:"atOnce"`
	// First is how many are updated before all others; 0 for none. It does not change while the
	// operation is under way.
	First int32 `json:"first,omitempty"`
	// Stay is how many stay at the old template.
	Stay int32 `json:"stay,omitempty"`
}

// HandedOverOf returns the record of a hand-over; nil if there is none. It returns an error if the
// record cannot be read: nobody knows then what an updater does.
func HandedOverOf(annotations map[string]string) (*HandedOver, error) {
	h, err := Read[HandedOver](annotations, v1alpha1.HandedOverAnnotation)
	if err != nil || h == nil {
		return nil, err
	}
	if !h.State.isKnown() {
		return nil, fmt.Errorf("the state %q is unknown", h.State)
	}
	if h.Operation == "" || h.Updater == "" {
		return nil, errors.New("it names no operation or no updater")
	}
	return h, nil
}

func (s HandOverState) isKnown() bool {
	switch s {
	case HandOverAsked, HandOverAccepted, HandOverEnded:
		return true
	}
	return false
}

// IsActive reports whether the updater may be at work.
func (h *HandedOver) IsActive() bool { return h != nil && h.State != HandOverEnded }

// Next returns the hand-over for a decision: h as long as it is active, with the new budget but
// for First, and else a new one with this operation. h may be nil. A hand-over for another decision
// must have ended.
func (h *HandedOver) Next(operation, decision, updater string, b HandOverBudget) HandedOver {
	if !h.IsActive() {
		return HandedOver{
			Operation: operation, Decision: decision, Updater: updater,
			State: HandOverAsked, Budget: b,
		}
	}
	next := *h
	// First is about the Machines with which the operation began. Those that arrive since lower it,
	// and are no reason to ask again.
	b.First = h.Budget.First
	if next.Budget != b {
		next.State, next.Budget = HandOverAsked, b
	}
	return next
}
