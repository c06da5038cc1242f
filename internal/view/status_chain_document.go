package view

import (
	"time"

	"github.com/windlass-dev/windlass/internal/status"
)

// upgradeDocument is left out for a Cluster without a managed topology. Versions, and names of the engine and the reason, are
// empty where they are not known.
type upgradeDocument struct {
	// State is UpToDate, Upgrading, Held, Creating, Deleting, Paused or Unknown; Problem says why it is Unknown.
	State   string `json:"state"`
	Problem string `json:"problem"`
	// Engine is Windlass or ClusterAPI.
	Engine string    `json:"engine"`
	From   string    `json:"from"`
	Target string    `json:"target"`
	Began  time.Time `json:"began,omitzero"`
	// Reason is the name of the rule that decides what is due now, and Now says it in words.
	Reason string         `json:"reason"`
	Now    string         `json:"now"`
	Steps  []stepDocument `json:"steps"`
	HeldBy []holdDocument `json:"heldBy"`
	ETA    etaDocument    `json:"eta"`
	// Condition is the Cluster's TopologyReconciled; left out where it has none.
	Condition    *conditionDocument `json:"condition,omitempty"`
	Disagreement string             `json:"disagreement"`
	NotKnown     []string           `json:"notKnown"`
}

type stepDocument struct {
	// State is Done, Running or Next.
	State string `json:"state"`
	// Operation is ControlPlaneUpgrade or WorkersUpgrade, as in a plan.
	Operation string   `json:"operation"`
	GroupKind string   `json:"groupKind"`
	Groups    []string `json:"groups"`
	From      string   `json:"from"`
	To        string   `json:"to"`
	// Updated of Machines are at the version; both are 0 for a step that is done.
	Updated  int       `json:"updated"`
	Machines int       `json:"machines"`
	Began    time.Time `json:"began,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
}

type holdDocument struct {
	// Kind is Hook, UpgradeGate, Annotation, Pause, Rule, Machines or Failure.
	Kind    string    `json:"kind"`
	By      string    `json:"by"`
	Message string    `json:"message"`
	Since   time.Time `json:"since,omitzero"`
	// AtEarliest says that it may have begun later than Since.
	AtEarliest bool `json:"atEarliest"`
}

// etaDocument has the seconds that are left from the last recorded time, or, while the upgrade is held, from when it is let go; then there
// are no times.
type etaDocument struct {
	Known bool `json:"known"`
	// Unknown says why it is not known; it is empty also where nothing is left.
	Unknown       string    `json:"unknown"`
	Earliest      time.Time `json:"earliest,omitzero"`
	Latest        time.Time `json:"latest,omitzero"`
	LeastSeconds  int64     `json:"leastSeconds"`
	LikelySeconds int64     `json:"likelySeconds"`
	MostSeconds   int64     `json:"mostSeconds"`
}

type conditionDocument struct {
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since,omitzero"`
}

func newUpgradeDocument(c *status.Chain) *upgradeDocument {
	if c == nil {
		return nil
	}
	d := &upgradeDocument{
		State: string(c.State), Problem: c.Problem, Engine: string(c.Engine), From: c.From.String(), Target: c.Target.String(), Began: c.Began,
		Reason: string(c.Reason), Now: c.Now, Steps: make([]stepDocument, 0, len(c.Steps)), HeldBy: make([]holdDocument, 0, len(c.Holds)),
		Disagreement: c.Disagreement, NotKnown: append([]string{}, c.NotKnown...),
	}
	for _, s := range c.Steps {
		d.Steps = append(d.Steps, stepDocument{
			State: string(s.State), Operation: string(s.Kind), GroupKind: string(s.GroupKind), Groups: append([]string{}, s.Groups...),
			From: s.From.String(), To: s.To.String(), Updated: s.Updated, Machines: s.Machines, Began: s.Began, Ended: s.Ended,
		})
	}
	for _, h := range c.Holds {
		d.HeldBy = append(d.HeldBy, holdDocument{Kind: string(h.Kind), By: h.By, Message: h.Message, Since: h.Since, AtEarliest: h.AtEarliest})
	}
	d.ETA = etaDocument{Known: c.ETA.Known(), Unknown: c.ETA.Unknown}
	d.ETA.Earliest, d.ETA.Latest = c.ETA.Window()
	d.ETA.LeastSeconds, d.ETA.LikelySeconds, d.ETA.MostSeconds = seconds(c.ETA.Least), seconds(c.ETA.Likely), seconds(c.ETA.Most)
	if c.Condition != nil {
		d.Condition = &conditionDocument{
			Status: string(c.Condition.Status), Reason: c.Condition.Reason, Message: c.Condition.Message, Since: c.Condition.LastTransitionTime.UTC(),
		}
	}
	return d
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
