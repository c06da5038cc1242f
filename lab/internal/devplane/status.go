package devplane

import (
	"fmt"
	"strings"
	"time"
)

// Phase is how far a plane is.
type Phase string

// A plane goes from Starting to Running and, when asked to stop, to Stopping. Failed: it could not be started, or a child
// that is not restarted has ended; what still runs keeps running, for a look at it.
const (
	PhaseStarting Phase = "Starting"
	PhaseRunning  Phase = "Running"
	PhaseFailed   Phase = "Failed"
	PhaseStopping Phase = "Stopping"
)

// Status is what a plane's supervisor knows at one moment. As JSON it is the output of "windlass-lab status -o json".
type Status struct {
	// Revision grows with every change.
	Revision int64 `json:"revision"`
	Phase    Phase `json:"phase"`
	// Message says what the plane is doing, or what is wrong with it.
	Message  string `json:"message"`
	StateDir string `json:"stateDir"`
	// Kubeconfig works from the user's namespace.
	Kubeconfig string `json:"kubeconfig"`
	// Server is the API server's URL from the user's namespace.
	Server string `json:"server"`
	// Isolated is false where the plane shares the user's network.
	Isolated bool `json:"isolated"`
	Detached bool `json:"detached"`
	// PID of the supervisor, as the user sees it.
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"startedAt"`
	// ReadyAfter is the time from the supervisor's start to PhaseRunning.
	ReadyAfter time.Duration `json:"readyAfterNanoseconds,omitempty"`
	// ResidentBytes is the supervisor's own memory.
	ResidentBytes int64 `json:"residentBytes,omitempty"`
	// Inside has the addresses that are valid in the plane's namespace.
	Inside Inside `json:"inside"`
	// Steps of the start, in order.
	Steps []Step `json:"steps"`
	// Children in the order in which they were first started.
	Children []ChildStatus `json:"children"`
}

// Step is one step of a plane's start.
type Step struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	// After is the time from the supervisor's start to the step's beginning.
	After   time.Duration `json:"afterNanoseconds"`
	Warning bool          `json:"warning,omitempty"`
}

// Inside is the plane as its children see it.
type Inside struct {
	Server     string `json:"server"`
	Kubeconfig string `json:"kubeconfig"`
	// CAFile holds the CA of all serving certificates (PEM).
	CAFile string `json:"caFile"`
}

// ChildState is what a child does at the moment.
type ChildState string

// Stopped means that it was asked to stop; Exited that it ended by itself or was killed, and stays down; Restarting that it
// ended so and is about to be started again.
const (
	ChildStarting   ChildState = "Starting"
	ChildReady      ChildState = "Ready"
	ChildStopping   ChildState = "Stopping"
	ChildStopped    ChildState = "Stopped"
	ChildExited     ChildState = "Exited"
	ChildRestarting ChildState = "Restarting"
)

// ChildStatus is one child at one moment.
type ChildStatus struct {
	Name  string     `json:"name"`
	State ChildState `json:"state"`
	// PID as the user sees it; 0 when the child does not run, or runs in a namespace whose ids the system does not translate.
	PID int `json:"pid,omitempty"`
	// Starts counts how often the process was started.
	Starts    int       `json:"starts"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	// ResidentBytes is the memory that the process has now, PeakResidentBytes the most that it ever had, and CPU the time of
	// all processors that it has used since it was started. Of a child that does not run they are 0.
	ResidentBytes     int64         `json:"residentBytes,omitempty"`
	PeakResidentBytes int64         `json:"peakResidentBytes,omitempty"`
	CPU               time.Duration `json:"cpuNanoseconds,omitempty"`
	// Ports by name, as the child sees them.
	Ports map[string]uint16 `json:"ports,omitempty"`
	// CertDir has tls.crt and tls.key, when the child has a serving certificate.
	CertDir string `json:"certDir,omitempty"`
	// LogFile collects everything that the child writes, over all its starts.
	LogFile string `json:"logFile"`
	// Command is the binary and its arguments, with all references replaced.
	Command []string `json:"command,omitempty"`
	// LastExit is the most recent end of the process, if it has ended.
	LastExit *Exit `json:"lastExit,omitempty"`
}

// Exit is how a process ended.
type Exit struct {
	// Code is the exit code, -1 when a signal ended the process.
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"`
	// Message says why there was no process, or why the supervisor ended it unasked.
	Message string `json:"message,omitempty"`
	// Expected is true when the supervisor was asked to stop or kill the child.
	Expected bool      `json:"expected"`
	At       time.Time `json:"at"`
	// LogTail has the last lines of the log at that moment.
	LogTail []string `json:"logTail,omitempty"`
}

func (e Exit) String() string {
	if e.Message != "" {
		return e.Message
	}
	if e.Signal != "" {
		return "killed by signal: " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// Event is one step of Build or Start, for showing progress.
type Event struct {
	// Step is what is being done, or was done: "kube-apiserver", "CRDs".
	Step string
	// Message says it in a sentence.
	Message string
	// Elapsed is the time since the beginning of Build or Start.
	Elapsed time.Duration
	// Index of Total steps, from 1; both 0 when unknown.
	Index, Total int
	// Warning is set on what the user should read even when all goes well.
	Warning bool
}

// ChildError is the unexpected end of a child.
type ChildError struct {
	Name    string
	Exit    Exit
	LogFile string
}

func (e *ChildError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s ended: %s (log: %s)", e.Name, e.Exit, e.LogFile)
	if len(e.Exit.LogTail) > 0 {
		b.WriteString("; its last lines:")
		for _, line := range e.Exit.LogTail {
			b.WriteString("\n  " + line)
		}
	}
	return b.String()
}

// RunningError says that the state directory belongs to a plane that runs.
type RunningError struct {
	StateDir string
	PID      int
}

func (e *RunningError) Error() string {
	return fmt.Sprintf("a management cluster is running on %s (supervisor %d): connect to it, "+
		"stop it, or use another state directory", e.StateDir, e.PID)
}

// NotRunningError says that no plane runs on the state directory.
type NotRunningError struct {
	StateDir string
	// Stale is set when there are leftovers of a plane that ended without cleaning up.
	Stale bool
}

func (e *NotRunningError) Error() string {
	if e.Stale {
		return fmt.Sprintf("no management cluster is running on %s; what is there was left by one that "+
			"crashed, and the next start or stop removes it", e.StateDir)
	}
	return "no management cluster is running on " + e.StateDir
}
