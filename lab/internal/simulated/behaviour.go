package simulated

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mode is how the updater behaves.
type Mode string

// The modes.
const (
	// Normal does the work and says so.
	Normal Mode = "Normal"
	// Hang never answers: each request waits until its caller gives up.
	Hang Mode = "Hang"
	// Stall answers that it is working, without end.
	Stall Mode = "Stall"
	// Fail fails every operation that ends.
	Fail Mode = "Fail"
	// Lie says that it is done without having done anything.
	Lie Mode = "Lie"
	// WrongAnswer answers decisions with patches away from the desired state.
	WrongAnswer Mode = "WrongAnswer"
)

// Behaviour is how the updater works. It can be changed while it runs.
type Behaviour struct {
	// Mode is Normal where it is empty.
	Mode Mode `json:"mode,omitempty"`
	// Duration is how long an operation takes once it has started.
	Duration metav1.Duration `json:"duration,omitzero"`
	// SlowStart is how long an accepted operation waits before it starts.
	SlowStart metav1.Duration `json:"slowStart,omitzero"`
	// FailureRate is the part of the operations that fail, from 0 to 1. Which ones is a matter of seed, machine and operation
	// id, so that it is the same after a restart.
	FailureRate float64 `json:"failureRate,omitempty"`
}

// maxDuration bounds durations; nobody waits a day for a simulation.
const maxDuration = 24 * time.Hour

func (b Behaviour) check() error {
	switch b.Mode {
	case "", Normal, Hang, Stall, Fail, Lie, WrongAnswer:
	default:
		return fmt.Errorf("the mode %q is unknown; use %s, %s, %s, %s, %s or %s", b.Mode, Normal, Hang, Stall, Fail, Lie, WrongAnswer)
	}
	if math.IsNaN(b.FailureRate) || b.FailureRate < 0 || b.FailureRate > 1 {
		return fmt.Errorf("the failure rate %v is not between 0 and 1", b.FailureRate)
	}
	for _, d := range []time.Duration{b.Duration.Duration, b.SlowStart.Duration} {
		if d < 0 || d > maxDuration {
			return fmt.Errorf("the duration %s is not between 0 and %s", d, maxDuration)
		}
	}
	return nil
}

// DecodeBehaviour decodes changes to a Behaviour from JSON: what is not mentioned stays as it is in before.
func DecodeBehaviour(before Behaviour, raw []byte) (Behaviour, error) {
	after := before
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&after); err != nil {
		return Behaviour{}, fmt.Errorf("reading the behaviour: %w; as in {\"mode\": \"Stall\"}", err)
	}
	if err := after.check(); err != nil {
		return Behaviour{}, err
	}
	return after, nil
}

// fails decides whether an operation fails.
func (b Behaviour) fails(seed uint64, machine, operation string) bool {
	if b.Mode == Fail {
		return true
	}
	hash := fnv.New64a()
	_, _ = fmt.Fprintf(hash, "%d\x00%s\x00%s", seed, machine, operation) // A hash takes everything.
	return unit(hash.Sum64()) < b.FailureRate
}

// unit spreads a hash over [0, 1). FNV's high bits hardly change with the last bytes of short inputs, so they are mixed
// (the finaliser of splitmix64).
func unit(x uint64) float64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	const mantissa = 53
	return float64(x>>(64-mantissa)) / (1 << mantissa)
}
