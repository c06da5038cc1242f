package linuxhost_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestPutBackAsksTheNode: what ran before comes back only if the Node still reports it, or if the
// program has not changed.
func TestPutBackAsksTheNode(t *testing.T) {
	t.Parallel()
	reports := func(v string) *inplace.Node {
		return &inplace.Node{Exists: true, Kubelet: version.MustParse(v)}
	}
	const restores, onlyStarts = "put back", "start only"
	for name, test := range map[string]struct {
		node *inplace.Node
		kept string
		want string
	}{
		"the old version":              {node: reports("v1.35.4"), kept: "v1.35.4", want: restores},
		"the old version of a build":   {node: reports("v1.35.4-eks-1"), kept: "v1.35.4", want: restores},
		"the new version":              {node: reports("v1.36.3"), kept: "v1.35.4", want: onlyStarts},
		"a newer patch of the old one": {node: reports("v1.35.5"), kept: "v1.35.4", want: onlyStarts},
		"no version":                   {node: &inplace.Node{Exists: true}, kept: "v1.35.4", want: onlyStarts},
		"no such Node":                 {node: &inplace.Node{}, kept: "v1.35.4", want: onlyStarts},
		"nobody looks":                 {kept: "v1.35.4", want: onlyStarts},
		"an unknown Node":              {node: &inplace.Node{Unknown: "no answer"}, kept: "v1.35.4", want: "wait"},
		"nothing is kept":              {node: reports("v1.35.4"), want: onlyStarts},
		"the configuration only":       {node: reports("v1.36.3"), kept: "v1.36.3", want: restores},
		"the configuration, unknown":   {node: &inplace.Node{Unknown: "no answer"}, kept: "v1.36.3", want: restores},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, steps, seen := situation(t, "")
			seen.Facts.NotStarted, seen.Node, seen.Facts.Installed = true, test.node, g.Version
			if test.kept != "" {
				seen.Facts.Kept = version.MustParse(test.kept)
			}
			p := linuxhost.Decide(g, steps, seen)
			got := "wait"
			if run, ok := p.Begin.(linuxhost.Run); ok {
				got = onlyStarts
				if strings.Contains(run.Script, "RESTORE='yes'") {
					got = restores
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" || p.Step != linuxhost.PutBack {
				t.Errorf("%s, %+v", diff, p)
			}
		})
	}
}

// TestPutBackEndsTheAttempt: once the job has ended, the attempt has failed by its reason, and the
// next attempt begins where the host is.
func TestPutBackEndsTheAttempt(t *testing.T) {
	t.Parallel()
	g, steps, seen := situation(t, "")
	seen.Facts.Job = linuxhost.Job{
		Operation: g.Operation(), Step: linuxhost.PutBack, Attempt: seen.Attempt, Manifest: g.Manifest(),
		State: linuxhost.JobEnded, ExitCode: 1, Output: linuxhost.ReasonMark + "ServiceNotStarted: kubelet ends",
	}
	const want = "fail: ServiceNotStarted: step put-back: kubelet ends"
	if got := wordNext(linuxhost.Decide(g, steps, seen)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	seen.Attempt = "another"
	if got := wordNext(linuxhost.Decide(g, steps, seen)); !strings.HasPrefix(got, "start ") {
		t.Errorf("the next attempt: %s", got)
	}
}

// TestPutBackLooksAgain: a put-back that found the service started, and stopped it again, is decided
// about again, once in an attempt.
func TestPutBackLooksAgain(t *testing.T) {
	t.Parallel()
	g, steps, seen := situation(t, "")
	seen.Facts.NotStarted, seen.Facts.Installed = true, g.Version
	seen.Facts.Kept = version.MustParse("v1.35.4")
	seen.Facts.Job = linuxhost.Job{
		Operation: g.Operation(), Step: linuxhost.PutBack, Attempt: seen.Attempt, Manifest: g.Manifest(),
		State: linuxhost.JobEnded,
	}
	if got := wordNext(linuxhost.Decide(g, steps, seen)); got != "start put-back-again" {
		t.Error(got)
	}
	held := seen
	held.Facts.NotStarted = false
	if p := linuxhost.Decide(g, steps, held); p.Failure == nil {
		t.Errorf("the host has started the service: %+v", p)
	}
	seen.Facts.Job.Step, seen.Facts.Job.ExitCode = linuxhost.PutBackAgain, 1
	if p := linuxhost.Decide(g, steps, seen); p.Failure == nil || p.Failure.Step != linuxhost.PutBackAgain {
		t.Errorf("%+v", p)
	}
}
