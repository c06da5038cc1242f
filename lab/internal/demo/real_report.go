package demo

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/journal"
)

// Errors of ReportReal, for an upgrade of a real cluster.
var (
	// ErrIdentity says that a machine or a node is another one than before.
	ErrIdentity = errors.New("machines or nodes are not those that were planned")
	// ErrVersions says that a part does not report the version of the target.
	ErrVersions = errors.New("not everything is at the target")
	// ErrLost says that a member of etcd lacks acknowledged writes, or that a read missed one.
	ErrLost = errors.New("acknowledged writes are lost")
	// ErrUnavailable says that the API did not answer any more when the client stopped.
	ErrUnavailable = errors.New("the API is unavailable")
)

// ReportReal writes what was planned beside what happened, and what the parts of the cluster
// returned. It returns ErrDiffers, ErrIdentity, ErrVersions, ErrLost and ErrUnavailable where
// reality is not what was promised.
func ReportReal(w io.Writer, r Result) error {
	var text strings.Builder
	same, err := writeOperations(&text, r)
	if err != nil {
		return err
	}
	checks := []struct {
		holds bool
		err   error
	}{
		{same, ErrDiffers},
		{writeIdentities(&text, r.Real), ErrIdentity},
		{writeVersions(&text, r.Real), ErrVersions},
		{writeLosses(&text, r.Real), ErrLost},
		{writeAvailability(&text, r.Real.Attempts), ErrUnavailable},
	}
	fmt.Fprintf(&text, "\nThe upgrade took %s.\n", r.Duration.Round(time.Second))
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	var problems []error
	for _, check := range checks {
		if !check.holds {
			problems = append(problems, check.err)
		}
	}
	return errors.Join(problems...)
}

// writeIdentities writes a line for each machine, and reports whether exactly the machines of
// replaced groups are others than before.
func writeIdentities(text *strings.Builder, r *RealResult) bool {
	text.WriteString("\nMachines and nodes before and after:\n\n")
	table := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "GROUP\tMACHINE\tMACHINE UID\tNODE UID\tAFTER")
	holds, kept := len(r.Before) > 0 && len(r.Before) == len(r.After), 0
	write := func(m RealMachine, state string) {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n",
			partName(m.Group), m.Name, short(string(m.UID)), short(string(m.Node)), state)
	}
	for _, before := range r.Before {
		state, asPlanned := before.compare(find(r.After, before.Name))
		holds = holds && asPlanned
		if before.Kept && asPlanned {
			kept++
		}
		write(before, state)
	}
	for _, after := range r.After {
		if find(r.Before, after.Name).Name != "" {
			continue
		}
		state := "new"
		if after.Kept {
			state, holds = "CREATED", false
		}
		write(after, state)
	}
	_ = table.Flush() // It writes to a strings.Builder.
	verdict := fmt.Sprintf("%d machines kept the UIDs of their Machine and their Node; "+
		"the others were replaced, as planned.", kept)
	switch {
	case !holds:
		verdict = "The machines are NOT those that were planned."
	case kept == 0:
		verdict = "All machines were replaced, as planned."
	case kept == len(r.Before):
		verdict = fmt.Sprintf(
			"All %d machines kept the UIDs of their Machine and their Node.", kept,
		)
	}
	fmt.Fprintf(text, "\n%s\n", verdict)
	return holds
}

// compare says what became of a machine, and whether that was planned.
func (m RealMachine) compare(after RealMachine) (state string, asPlanned bool) {
	switch {
	case m.Kept && after.UID == "":
		return "GONE", false
	case m.Kept && (after.UID != m.UID || m.Node == "" || after.Node != m.Node):
		return fmt.Sprintf(
			"CHANGED: %s, %s", short(string(after.UID)), short(string(after.Node)),
		), false
	case m.Kept:
		return "the same", true
	case after.UID == "":
		return "replaced", true
	}
	return "NOT REPLACED", false
}

// writeVersions writes what each part reports, and reports whether it is the target everywhere.
func writeVersions(text *strings.Builder, r *RealResult) bool {
	text.WriteString("\nVersions, as each part reports its own:\n\n")
	table := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "MACHINE\tKUBELET\tAPI SERVER\tETCD")
	target := r.Target.String()
	holds := len(r.After) > 0
	for _, m := range r.After {
		apiServer, etcd := "-", "-"
		if m.Group == controlPlaneName {
			member := findMember(r.Members, m.Name)
			apiServer, etcd = member.APIServer, member.Version
			holds = holds && apiServer == target && etcd == r.Etcd
		}
		holds = holds && m.Kubelet == target
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", m.Name, m.Kubelet, apiServer, etcd)
	}
	_ = table.Flush() // It writes to a strings.Builder.
	verdict := fmt.Sprintf("All are at the target: Kubernetes %s with etcd %s.", target, r.Etcd)
	if !holds {
		verdict = fmt.Sprintf(
			"NOT all are at the target: Kubernetes %s with etcd %s.", target, r.Etcd,
		)
	}
	fmt.Fprintf(text, "\n%s\n", verdict)
	return holds
}

func findMember(members []RealMember, machine string) RealMember {
	for _, m := range members {
		if m.Machine == machine {
			return m
		}
	}
	return RealMember{}
}

// writeLosses writes what members of etcd lack, and reports whether each has every acknowledged
// write.
func writeLosses(text *strings.Builder, r *RealResult) bool {
	members := make([]journal.Member, 0, len(r.Members))
	for _, m := range r.Members {
		members = append(members, m.Member)
	}
	if problems := journal.Verify(r.Attempts, members); len(problems) > 0 {
		fmt.Fprintf(text, "\n%s\n", strings.Join(problems, "\n"))
		return false
	}
	who := fmt.Sprintf("Each of the %d members of etcd, asked alone,", len(members))
	if len(members) == 1 {
		who = "The only member of etcd"
	}
	acknowledged := len(journal.Acknowledged(r.Attempts))
	fmt.Fprintf(text, "\n%s returns all %d acknowledged writes.\n", who, acknowledged)
	return true
}

// writeAvailability writes how the client fared, and reports whether its last attempts succeeded.
func writeAvailability(text *strings.Builder, attempts []journal.Attempt) bool {
	text.WriteString("\nThe API, as a client behind the load balancer saw it throughout:\n\n")
	table := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "\tSUCCEEDED\tFAILED\tOUTAGES\tUNAVAILABLE\tLONGEST\tSLOWEST ANSWER")
	holds := true
	for _, operation := range operations {
		a := journal.Measure(attempts, operation)
		holds = holds && a.Recovered()
		_, _ = fmt.Fprintf(table, "%ss\t%d\t%d\t%d\t%s\t%s\t%s\n",
			operation, a.Succeeded, a.Failed, len(a.Outages), seconds(a.Total()), seconds(a.Longest()), seconds(a.Slowest))
	}
	_ = table.Flush() // It writes to a strings.Builder.
	writeOutages(text, attempts)
	if !holds {
		text.WriteString("\nThe API did NOT answer when the client stopped.\n")
	}
	return holds
}

var operations = []journal.Operation{journal.Write, journal.Read}

// shownError is how much of an error a line has, in bytes.
const shownError = 160

// writeOutages writes when outages were, since the client began.
func writeOutages(text *strings.Builder, attempts []journal.Attempt) {
	var lines []string
	for _, operation := range operations {
		for _, o := range journal.Measure(attempts, operation).Outages {
			after := clock(o.From.Sub(attempts[0].Began))
			lines = append(lines, fmt.Sprintf("%s\t%ss\t%s\t%.*s",
				after, operation, seconds(o.Duration()), shownError, o.Error))
		}
	}
	if len(lines) == 0 {
		return
	}
	slices.Sort(lines)
	text.WriteString("\n")
	table := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(
		table, "AFTER\tOUTAGE OF\tLASTED\tFIRST ERROR\n%s\n", strings.Join(lines, "\n"),
	)
	_ = table.Flush() // It writes to a strings.Builder.
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
