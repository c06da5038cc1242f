package view

import (
	"time"

	"github.com/windlass-dev/windlass/internal/status"
)

// The types below are the stable interface of `windlass status -o json` and `-o yaml`. Fields are never renamed or removed;
// lists are never null. Times are RFC 3339 in UTC; those that are not known are left out.

type statusDocument struct {
	Namespace string                  `json:"namespace"`
	Cluster   string                  `json:"cluster"`
	Upgrade   *upgradeDocument        `json:"upgrade,omitempty"`
	Groups    []statusGroupDocument   `json:"groups"`
	Machines  []statusMachineDocument `json:"machines"`
	Updates   []statusUpdateDocument  `json:"updates"`
	// InPlace is left out where no annotation asks for an upgrade in place.
	InPlace *inPlaceDocument `json:"inPlaceUpgrades,omitempty"`
	// OffSpec is left out where no Machine at rest runs another version than its spec says.
	OffSpec   []statusOffSpecDocument  `json:"offSpec,omitempty"`
	Blocked   []statusBlockedDocument  `json:"blocked"`
	Dirty     []statusDirtyDocument    `json:"dirtyFields"`
	Durations []statusDurationDocument `json:"durations"`
	Problems  []statusProblemDocument  `json:"problems"`
}

type statusGroupDocument struct {
	Name     string               `json:"name"`
	Kind     string               `json:"kind"`
	Object   string               `json:"object"`
	Policy   statusPolicyDocument `json:"policy"`
	Machines int                  `json:"machines"`
	// Missing is how many fewer there are than the group's replicas.
	Missing int `json:"missing"`
	// States has every state, also those that no machine is in.
	States map[status.State]int `json:"states"`
}

type statusPolicyDocument struct {
	// Name is empty where no UpdatePolicy selects the group. Strategy is empty where Problem says why.
	Name        string `json:"name"`
	Strategy    string `json:"strategy"`
	Fallback    string `json:"fallback"`
	MaxInFlight int    `json:"maxInFlight"`
	MaxAttempts int    `json:"maxAttempts"`
	SoakSeconds int64  `json:"soakSeconds"`
	Problem     string `json:"problem"`
}

type statusMachineDocument struct {
	Name    string `json:"name"`
	Group   string `json:"group"`
	State   string `json:"state"`
	Version string `json:"version"`
}

type statusUpdateDocument struct {
	Machine     string    `json:"machine"`
	Group       string    `json:"group"`
	State       string    `json:"state"`
	Phase       string    `json:"phase"`
	Updater     string    `json:"updater"`
	Step        int       `json:"step"`
	Steps       int       `json:"steps"`
	Attempt     int       `json:"attempt"`
	MaxAttempts int       `json:"maxAttempts"`
	From        string    `json:"from"`
	To          string    `json:"to"`
	Began       time.Time `json:"began,omitzero"`
	Since       time.Time `json:"since,omitzero"`
	NotBefore   time.Time `json:"notBefore,omitzero"`
	Operation   string    `json:"operation"`
	Message     string    `json:"message"`
	LastError   string    `json:"lastError"`
	// ETA is left out where it is unknown.
	ETA  time.Time `json:"eta,omitzero"`
	Late bool      `json:"late"`
}

// statusOffSpecDocument is a Machine that an annotation brought to another version.
type statusOffSpecDocument struct {
	Machine string `json:"machine"`
	Group   string `json:"group"`
	Runs    string `json:"runs"`
	Spec    string `json:"spec"`
	// BlocksTopology says that Cluster API refuses another spec.topology.version meanwhile.
	BlocksTopology bool   `json:"blocksTopology"`
	Message        string `json:"message"`
}

type statusBlockedDocument struct {
	Kind    string    `json:"kind"`
	Name    string    `json:"name"`
	Group   string    `json:"group"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since,omitzero"`
}

type statusDirtyDocument struct {
	Machine string    `json:"machine"`
	Group   string    `json:"group"`
	Object  string    `json:"object"`
	Path    string    `json:"path"`
	Since   time.Time `json:"since,omitzero"`
}

type statusDurationDocument struct {
	Updater       string `json:"updater"`
	MedianSeconds int64  `json:"medianSeconds"`
	Measured      int    `json:"measured"`
}

type statusProblemDocument struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Annotation string `json:"annotation"`
	Message    string `json:"message"`
}

func newStatusDocument(r status.Report) statusDocument {
	d := statusDocument{
		Namespace: r.Namespace, Cluster: r.Cluster, Upgrade: newUpgradeDocument(r.Chain), InPlace: newInPlaceDocument(r.InPlace),
		Groups:    make([]statusGroupDocument, 0, len(r.Groups)),
		Machines:  make([]statusMachineDocument, 0, len(r.Machines)),
		Updates:   make([]statusUpdateDocument, 0, len(r.Updates)),
		Blocked:   make([]statusBlockedDocument, 0, len(r.Blocked)),
		Dirty:     make([]statusDirtyDocument, 0, len(r.Dirty)),
		Durations: make([]statusDurationDocument, 0, len(r.Durations)),
		Problems:  make([]statusProblemDocument, 0, len(r.Problems)),
	}
	for _, g := range r.Groups {
		d.Groups = append(d.Groups, newStatusGroupDocument(g))
	}
	for _, m := range r.Machines {
		d.Machines = append(d.Machines, statusMachineDocument{Name: m.Name, Group: m.Group, State: string(m.State), Version: m.Version})
	}
	for _, u := range r.Updates {
		d.Updates = append(d.Updates, newStatusUpdateDocument(u))
	}
	for _, o := range r.OffSpec {
		d.OffSpec = append(d.OffSpec, statusOffSpecDocument{
			Machine: o.Machine, Group: o.Group, Runs: o.Runs.String(), Spec: o.Spec.String(), BlocksTopology: o.Blocks, Message: o.Text(r.Namespace),
		})
	}
	for _, b := range r.Blocked {
		d.Blocked = append(d.Blocked, statusBlockedDocument(b))
	}
	for _, f := range r.Dirty {
		d.Dirty = append(d.Dirty, statusDirtyDocument{
			Machine: f.Machine, Group: f.Group, Object: string(f.Field.Part), Path: f.Field.Path, Since: f.Since,
		})
	}
	for _, m := range r.Durations {
		d.Durations = append(d.Durations, statusDurationDocument{Updater: m.Updater, MedianSeconds: int64(m.Median / time.Second), Measured: m.Measured})
	}
	for _, p := range r.Problems {
		d.Problems = append(d.Problems, statusProblemDocument(p))
	}
	return d
}

func newStatusGroupDocument(g status.Group) statusGroupDocument {
	d := statusGroupDocument{
		Name: g.Name, Kind: g.Kind, Object: g.Object, Machines: g.Machines, Missing: g.Missing, States: make(map[status.State]int),
		Policy: statusPolicyDocument{
			Name: g.Policy.Name, Strategy: string(g.Policy.Strategy), Fallback: string(g.Policy.Fallback),
			MaxInFlight: g.Policy.MaxInFlight, MaxAttempts: g.Policy.MaxAttempts,
			SoakSeconds: int64(g.Policy.Soak / time.Second), Problem: g.Policy.Problem,
		},
	}
	for _, s := range status.States() {
		d.States[s] = g.Count[s]
	}
	return d
}

func newStatusUpdateDocument(u status.Update) statusUpdateDocument {
	return statusUpdateDocument{
		Machine: u.Machine, Group: u.Group, State: string(u.State), Phase: string(u.Phase),
		Updater: u.Updater, Step: u.Step, Steps: u.Steps, Attempt: u.Attempt, MaxAttempts: u.MaxAttempts,
		From: u.From.String(), To: u.To.String(), Began: u.Began, Since: u.Since, NotBefore: u.NotBefore,
		Operation: u.Operation, Message: u.Message, LastError: u.LastError, ETA: u.ETA.At, Late: u.ETA.Late,
	}
}
