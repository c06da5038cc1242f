package judge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// content is what is read of the JSON of windlass status.
type content struct {
	SilentSince time.Time `json:"managerSilentSince"`
	Upgrade     *struct {
		State      string    `json:"state"`
		EngineSeen time.Time `json:"engineSeen"`
		AtTarget   int       `json:"machinesAtTarget"`
		Machines   int       `json:"machines"`
		NotKnown   []string  `json:"notKnown"`
		Steps      []struct {
			State     string `json:"state"`
			Operation string `json:"operation"`
			To        string `json:"to"`
		} `json:"steps"`
		Holds []struct {
			Kind       string    `json:"kind"`
			By         string    `json:"by"`
			Message    string    `json:"message"`
			Since      time.Time `json:"since"`
			AtEarliest bool      `json:"atEarliest"`
		} `json:"heldBy"`
	} `json:"upgrade"`
	Machines []struct {
		Name   string `json:"name"`
		State  string `json:"state"`
		Runs   string `json:"runs"`
		Motion string `json:"motion"`
	} `json:"machines"`
	InPlace *struct {
		Machines []struct {
			Machine string `json:"machine"`
			State   string `json:"state"`
		} `json:"machines"`
	} `json:"inPlaceUpgrades"`
	Blocked []struct {
		Kind  string    `json:"kind"`
		Name  string    `json:"name"`
		Since time.Time `json:"since"`
	} `json:"blocked"`
}

// document is the JSON itself, for people.
type document []byte

func (d document) String() string {
	const most = 6000
	return "  " + string(d[:min(len(d), most)])
}

// About says what steps of a control plane and of workers are called in questions.
const (
	controlPlaneStep = "control plane "
	workersStep      = "workers "
)

// ReadStatus answers the questions from a document of windlass status. Beside stock Cluster API, which
// aggregates and drops Events, the document itself says that steps may be missing.
func ReadStatus(line []byte) (Moment, error) {
	var d content
	if err := json.Unmarshal(line, &d); err != nil {
		return Moment{}, fmt.Errorf("reading a status: %w", err)
	}
	a := Answers{}
	for _, m := range d.Machines {
		a[Question{Runs, m.Name}] = is(m.Runs)
		a[Question{Moves, m.Name}] = is(m.Motion)
		if m.State == "Failed" {
			a[Question{HeldBy, "machine " + m.Name}] = is(Yes)
			a[Question{MustAct, "who retries " + m.Name}] = is(Yes)
		}
	}
	d.readAnnotated(a)
	for _, b := range d.Blocked {
		if b.Kind != "Machine" {
			a[Question{HeldBy, b.Kind + " " + b.Name}] = Answer{Is: []string{Yes}, Since: b.Since}
		}
	}
	if !d.SilentSince.IsZero() {
		a[Question{MustAct, controller}] = is(Yes)
	}
	d.readUpgrade(a)
	m := Moment{Answers: a, Objects: document(line)}
	if d.Upgrade != nil && slices.ContainsFunc(d.Upgrade.NotKnown, isAboutSteps) {
		m.Silent = []Kind{Done}
	}
	return m, nil
}

func isAboutSteps(notKnown string) bool {
	return strings.HasPrefix(notKnown, "steps that are done and whose Events have expired")
}

// readAnnotated reads the upgrades that annotations ask for.
func (d content) readAnnotated(a Answers) {
	if d.InPlace == nil {
		return
	}
	for _, m := range d.InPlace.Machines {
		switch m.State {
		case "Upgrading", "Cancelling":
			a[Question{Moves, m.Machine}] = is(moveUpdate)
		case "Failed":
			a[Question{HeldBy, "machine " + m.Machine}] = is(Yes)
			a[Question{MustAct, "who retries " + m.Machine}] = is(Yes)
		}
	}
}

func (d content) readUpgrade(a Answers) {
	u := d.Upgrade
	if u == nil {
		return
	}
	underWay := slices.Contains([]string{"Upgrading", "Held"}, u.State) ||
		u.State == "Paused" && len(u.Steps) > 0
	if underWay {
		a[Question{UnderWay, ""}] = is(Yes)
	}
	a[Question{AtTarget, ""}] = is(fmt.Sprintf("%d of %d", u.AtTarget, u.Machines))
	if !u.EngineSeen.IsZero() {
		a[Question{Seen, ""}] = is(u.EngineSeen.UTC().Format(time.RFC3339Nano))
	}
	for _, s := range u.Steps {
		if s.State != "Done" {
			continue
		}
		name := controlPlaneStep + s.To
		if s.Operation == "WorkersUpgrade" {
			name = workersStep + s.To
		}
		a[Question{Done, name}] = is(Yes)
	}
	for _, h := range u.Holds {
		answer := Answer{Is: []string{Yes}, Since: h.Since, AtEarliest: h.AtEarliest}
		switch h.Kind {
		case "Hook":
			for hook := range strings.SplitSeq(h.By, ", ") {
				a[Question{HeldBy, "hook " + hook}] = answer
			}
		case "UpgradeGate":
			a[Question{HeldBy, "gate " + h.By}] = answer
			if strings.HasPrefix(h.Message, "needs approval") {
				a[Question{MustAct, "who approves at " + h.By}] = is(Yes)
			}
		case "Annotation":
			a[Question{HeldBy, "annotation"}] = is(Yes)
		case "Pause":
			a[Question{HeldBy, pause}] = is(Yes)
			a[Question{MustAct, "who resumes"}] = is(Yes)
		case "Rule", "Failure":
			a[Question{HeldBy, "failure"}] = is(Yes)
			a[Question{MustAct, "who corrects"}] = is(Yes)
		}
	}
}
