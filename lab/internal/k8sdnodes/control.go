package k8sdnodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/updaters/k8sd/k8sdtest"
	"github.com/windlass-dev/windlass/internal/updaterserver"
)

// maxRequest bounds a request to the control listener, in bytes.
const maxRequest = 64 << 10

// Faults are what goes wrong with one machine: those of k8sdtest, with durations in words, such as "2s".
type Faults struct {
	k8sdtest.Faults
	RestartFor metav1.Duration `json:"restartFor,omitzero"`
}

// Behaviour is what POST /behaviour of a stand-in for k8sd takes.
type Behaviour struct {
	// Duration is how long a refresh takes that begins from now on; nil leaves it as it is.
	Duration *metav1.Duration `json:"duration,omitempty"`
	// Faults are by Machine, as NAMESPACE/NAME, or NAME where one Machine only has it. They replace those that the Machine had.
	Faults map[string]Faults `json:"faults,omitempty"`
}

// Machine is what GET /stats says about a Machine.
type Machine struct {
	k8sdtest.MachineState
	Changes []k8sdtest.Change `json:"changes,omitempty"`
}

// Stats is what GET /stats answers: the Machines that there are, by NAMESPACE/NAME.
type Stats struct {
	Machines map[string]Machine `json:"machines"`
}

// ParseFaults reads the faults of one machine from JSON.
func ParseFaults(text string) (Faults, error) {
	var faults Faults
	if err := decodeStrictly(strings.NewReader(text), &faults); err != nil {
		return Faults{}, fmt.Errorf(`%w; as in {"times": 2, "internalError": "disk full"}, and {} for none`, err)
	}
	if faults.Times < 0 || faults.RestartFor.Duration < 0 {
		return Faults{}, errors.New("times and restartFor cannot be negative")
	}
	return faults, nil
}

// decodeStrictly reads one JSON value with known fields only.
func decodeStrictly(from io.Reader, into any) error {
	decoder := json.NewDecoder(from)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("reading the JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("reading the JSON: there is more than one value")
	}
	return nil
}

// handler serves GET /stats and POST /behaviour.
func (s *standIn) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, r *http.Request) {
		stats, err := s.stats(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(stats) // Nobody is left to tell.
	})
	mux.HandleFunc("POST /behaviour", func(w http.ResponseWriter, r *http.Request) {
		if err := s.behave(r.Context(), http.MaxBytesReader(w, r.Body, maxRequest)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// control serves the handler until ctx is cancelled.
func (s *standIn) control(ctx context.Context, listener net.Listener) error {
	return updaterserver.ServeControl(ctx, listener, s.handler())
}

func (s *standIn) stats(ctx context.Context) (Stats, error) {
	var machines clusterv1.MachineList
	if err := s.live.List(ctx, &machines); err != nil {
		return Stats{}, fmt.Errorf("listing Machines: %w", err)
	}
	stats := Stats{Machines: map[string]Machine{}}
	for i := range machines.Items {
		name := machines.Items[i].Namespace + "/" + machines.Items[i].Name
		if state, known := s.server.Machine(name); known {
			stats.Machines[name] = Machine{MachineState: state, Changes: s.server.Changes(name)}
		}
	}
	return stats, nil
}

// behave changes the behaviour, all of it or nothing.
func (s *standIn) behave(ctx context.Context, body io.Reader) error {
	var wanted Behaviour
	if err := decodeStrictly(body, &wanted); err != nil {
		return err
	}
	stats, err := s.stats(ctx)
	if err != nil {
		return err
	}
	faults := map[string]k8sdtest.Faults{}
	for machine, f := range wanted.Faults {
		name, err := findMachine(stats, machine)
		if err != nil {
			return err
		}
		f.Faults.RestartFor = f.RestartFor.Duration
		faults[name] = f.Faults
	}
	if wanted.Duration != nil {
		if wanted.Duration.Duration < 0 {
			return fmt.Errorf("the duration %s is negative", wanted.Duration.Duration)
		}
		s.server.SetDuration(wanted.Duration.Duration)
	}
	for name, f := range faults {
		if err := s.server.SetFaults(name, f); err != nil {
			return err
		}
	}
	return nil
}

// findMachine finds the full name of a Machine.
func findMachine(stats Stats, name string) (string, error) {
	if _, known := stats.Machines[name]; known {
		return name, nil
	}
	found := ""
	for full := range stats.Machines {
		if strings.HasSuffix(full, "/"+name) {
			if found != "" {
				return "", fmt.Errorf("there is a Machine %s in several namespaces; say which with NAMESPACE/%s", name, name)
			}
			found = full
		}
	}
	if found == "" {
		return "", fmt.Errorf("there is no Machine %s; kubectl get machines -A lists those that there are", name)
	}
	return found, nil
}

func parseKey(name string) (types.NamespacedName, error) {
	namespace, machine, found := strings.Cut(name, "/")
	if !found {
		return types.NamespacedName{}, fmt.Errorf("%q is not of the form NAMESPACE/NAME", name)
	}
	return types.NamespacedName{Namespace: namespace, Name: machine}, nil
}
