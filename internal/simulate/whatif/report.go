package whatif

// Report is what was found out. As JSON it is a stable interface: fields are never renamed or removed, lists are never null unless it is said, durations
// are seconds, times are seconds since the upgrade was asked for.
type Report struct {
	Inputs Inputs `json:"inputs"`
	// Assumptions are what was assumed about the world, as it was given.
	Assumptions []string `json:"assumptions"`
	// Versions are all versions that machines had in any variant's median run, the oldest first.
	Versions []string `json:"versions"`
	Variants []Result `json:"variants"`
}

// Inputs say what was simulated.
type Inputs struct {
	Clusters int `json:"clusters"`
	Pools    int `json:"pools"`
	// Machines are all of them; ControlPlaneMachines are part of it.
	Machines             int `json:"machines"`
	ControlPlaneMachines int `json:"controlPlaneMachines"`
	// From are the versions that control planes have, and To those that they go to; each once, the oldest first.
	From []string `json:"from"`
	To   []string `json:"to"`
	// Runs is how many runs there are of each variant: with Seed, and the numbers after it.
	Runs int    `json:"runs"`
	Seed uint64 `json:"seed"`
	// Verified says that invariants were checked after every step of every run.
	Verified bool `json:"verified"`
	// Faults says that the engine was disturbed: by conflicts, stale reads, lost requests or crashes. Outages of failure domains are part of the world.
	Faults bool `json:"faults"`
}

// Result is what the runs of one variant came to.
type Result struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Outcomes    Outcomes `json:"outcomes"`
	// Duration is null where no run was completed.
	Duration *Durations `json:"duration"`
	// PerRun are means over all runs, completed or not.
	PerRun PerRun `json:"perRun"`
	// Unfinished says what runs that were not completed waited for, the most frequent first, at most maxReasons.
	Unfinished []Unfinished `json:"unfinished"`
	// Violation is that of the run with the first seed that has one; null where there is none.
	Violation *Violation `json:"violation"`
	Median    Median     `json:"median"`
}

// Outcomes count runs by how they ended.
type Outcomes struct {
	Completed int `json:"completed"`
	Stuck     int `json:"stuck"`
	GivenUp   int `json:"givenUp"`
	Violated  int `json:"violated"`
}

// Durations are percentiles over the completed runs. Each is the duration of one of them: that of the nearest rank.
type Durations struct {
	// Runs is how many were completed.
	Runs       int     `json:"runs"`
	MinSeconds float64 `json:"minSeconds"`
	P10Seconds float64 `json:"p10Seconds"`
	P50Seconds float64 `json:"p50Seconds"`
	P90Seconds float64 `json:"p90Seconds"`
	MaxSeconds float64 `json:"maxSeconds"`
}

// PerRun are means over all runs. The median run is a completed one, so it has fewer of these than others where many runs are not completed.
type PerRun struct {
	// Failed counts attempts that failed, GaveUp machines whose update failed finally.
	Failed float64 `json:"failed"`
	GaveUp float64 `json:"gaveUp"`
}

// Unfinished are runs that were not completed for the same reason.
type Unfinished struct {
	Outcome string `json:"outcome"`
	Why     string `json:"why"`
	// Machine is the one that Why is about in the first of these runs; empty where it is about no machine.
	Machine string `json:"machine"`
	Runs    int    `json:"runs"`
	// Seed is that of the first of these runs.
	Seed uint64 `json:"seed"`
}

// Violation is an invariant that did not hold.
type Violation struct {
	Seed      uint64   `json:"seed"`
	AtSeconds float64  `json:"atSeconds"`
	Cluster   string   `json:"cluster"`
	Problem   string   `json:"problem"`
	Trace     []string `json:"trace"`
}

// Median is the completed run whose duration is p50; of equal ones that with the first seed. Where none was completed it is the first run.
type Median struct {
	Seed            uint64  `json:"seed"`
	Outcome         string  `json:"outcome"`
	Why             string  `json:"why"`
	DurationSeconds float64 `json:"durationSeconds"`
	// DownSeconds is how long machines were drained, updated or missing, added up over all machines.
	DownSeconds float64 `json:"downSeconds"`
	// Replaced, Updated and Drained count machines, once for each time; Failed attempts that failed, GaveUp machines whose update failed finally.
	Replaced int `json:"replaced"`
	Updated  int `json:"updated"`
	Drained  int `json:"drained"`
	Failed   int `json:"failed"`
	GaveUp   int `json:"gaveUp"`
	// MaxInFlight is the greatest number of machines that were updated or being replaced at once.
	MaxInFlight  int          `json:"maxInFlight"`
	Writes       Writes       `json:"writes"`
	CriticalPath CriticalPath `json:"criticalPath"`
	// Groups stand in the order of the configuration, control planes before their pools.
	Groups []Group `json:"groups"`
	Charts Charts  `json:"charts"`
}

// Writes are requests to the management cluster that change something.
type Writes struct {
	// Engine counts those of Windlass, except for Events: it makes one or more for each machine and update. Others estimates those of Cluster API's controllers.
	Engine           int     `json:"engine"`
	Others           int     `json:"others"`
	EnginePerMachine float64 `json:"enginePerMachine"`
	OthersPerMachine float64 `json:"othersPerMachine"`
	// WaitedSeconds is how long requests of the engine waited for its budget, added up.
	WaitedSeconds float64 `json:"waitedSeconds"`
}

// Group is what happened to the machines of a control plane or pool.
type Group struct {
	Cluster  string `json:"cluster"`
	Group    string `json:"group"`
	Machines int    `json:"machines"`
	Stops    int    `json:"stops"`
	// Disruptions counts machines that were updated or replaced, once for each time.
	Disruptions int     `json:"disruptions"`
	Updated     int     `json:"updated"`
	Replaced    int     `json:"replaced"`
	Drained     int     `json:"drained"`
	Failed      int     `json:"failed"`
	GaveUp      int     `json:"gaveUp"`
	MaxDown     int     `json:"maxDown"`
	DownSeconds float64 `json:"downSeconds"`
}

// CriticalPath is what the duration is made of.
type CriticalPath struct {
	// Sentence says it in words.
	Sentence string `json:"sentence"`
	// Shares are the largest first.
	Shares []Share `json:"shares"`
}

// Kind is what a part of the critical path, or a row of a timeline, is about.
type Kind string

// The kinds.
const (
	ControlPlane Kind = "ControlPlane"
	Pool         Kind = "Pool"
	// Wait is a time in which no machine was worked on.
	Wait Kind = "Wait"
)

// Share is a part of the critical path: all that is of one kind, at one limit.
type Share struct {
	Kind Kind `json:"kind"`
	// Limit is what bounded it, such as "maxInFlight 10"; of a wait, what was waited for.
	Limit string `json:"limit"`
	// Groups is how many different ones are part of it. Longest is the one with the longest time, and LongestSeconds that time.
	Groups         int     `json:"groups"`
	LongestCluster string  `json:"longestCluster"`
	Longest        string  `json:"longest"`
	LongestSeconds float64 `json:"longestSeconds"`
	Seconds        float64 `json:"seconds"`
	// Share is Seconds as a part of the duration, from 0 to 1.
	Share float64 `json:"share"`
}

// Charts are what is drawn of a run, with fewer points than the run has.
type Charts struct {
	// Timeline has at most maxRows rows: groups next to each other share one where there are more.
	Timeline []Row `json:"timeline"`
	// InFlight says how many machines were in flight from a time on, until the next. It keeps the peaks. At most maxPoints.
	InFlight []Point `json:"inFlight"`
	// Machines says how many machines had each of Versions at a time. At most maxPoints.
	Versions []string        `json:"versions"`
	Machines []MachinesPoint `json:"machines"`
}

// Row is what happened to a group, or to several, over time.
type Row struct {
	// Kind is Wait for times in which gates held a cluster's upgrade.
	Kind Kind `json:"kind"`
	// Cluster and Name are the first cluster and group, LastCluster and LastName the last ones; the same where there is one.
	Cluster     string `json:"cluster"`
	Name        string `json:"name"`
	LastCluster string `json:"lastCluster"`
	LastName    string `json:"lastName"`
	// Groups is how many share the row.
	Groups int   `json:"groups"`
	Bars   []Bar `json:"bars"`
}

// Bar is the way of a row's groups to one version: from when the first began to when the last was there.
type Bar struct {
	// From is empty where they began at different versions; both are empty for holds.
	From string `json:"from"`
	To   string `json:"to"`
	// Method is how machines got there; empty for holds.
	Method Method `json:"method"`
	// Limit is empty where groups had different ones.
	Limit        string  `json:"limit"`
	BeganSeconds float64 `json:"beganSeconds"`
	EndedSeconds float64 `json:"endedSeconds"`
	// Operations is how many are put together.
	Operations int `json:"operations"`
}

// Method is how machines get to another version.
type Method string

// The methods.
const (
	InPlace Method = "InPlace"
	Replace Method = "Replace"
	Mixed   Method = "Mixed"
)

// Point is a number of machines at a time.
type Point struct {
	AtSeconds float64 `json:"atSeconds"`
	Machines  int     `json:"machines"`
}

// MachinesPoint is how many machines have each version at a time.
type MachinesPoint struct {
	AtSeconds float64 `json:"atSeconds"`
	Counts    []int   `json:"counts"`
}
