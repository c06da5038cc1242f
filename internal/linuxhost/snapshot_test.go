package linuxhost_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestOldSnapshot: an old snapshot is taken again, as long as nothing was changed after it.
func TestOldSnapshot(t *testing.T) {
	t.Parallel()
	rke2 := func(g *linuxhost.Goal, _ *linuxhost.Seen) { g.Distribution = linuxhost.RKE2 }
	done := func(name linuxhost.Name) func(*linuxhost.Goal, *linuxhost.Seen) {
		return func(_ *linuxhost.Goal, s *linuxhost.Seen) {
			s.Checks[name] = linuxhost.CheckResult{Done: true}
		}
	}
	ended := func(attempt string, step linuxhost.Name) func(*linuxhost.Goal, *linuxhost.Seen) {
		return func(g *linuxhost.Goal, s *linuxhost.Seen) {
			s.Facts.Job = linuxhost.Job{
				Operation: g.Operation(), Step: step, Attempt: attempt, State: linuxhost.JobEnded,
			}
		}
	}
	const old = time.Hour + time.Second
	for name, test := range map[string]struct {
		age  time.Duration
		edit func(*linuxhost.Goal, *linuxhost.Seen)
		want bool
	}{
		"fresh":                        {age: time.Hour, want: true},
		"old":                          {age: old},
		"of the future":                {age: -old},
		"of RKE2":                      {age: old, edit: rke2},
		"kubeadm has run":              {age: old, edit: done(linuxhost.KubeadmUpgrade), want: true},
		"commands have run":            {age: old, edit: done(linuxhost.BeforeCommands)},
		"saved by this attempt":        {age: old, edit: ended("a1", linuxhost.EtcdSnapshot), want: true},
		"saved by another attempt":     {age: old, edit: ended("a0", linuxhost.EtcdSnapshot)},
		"this attempt has gone beyond": {age: old, edit: ended("a1", linuxhost.BeforeCommands)},
		"counts at any age": {want: true, edit: func(_ *linuxhost.Goal, s *linuxhost.Seen) {
			s.Checks[linuxhost.EtcdSnapshot] = linuxhost.CheckResult{Done: true}
		}},
		"kubeadm has begun": {age: old, edit: func(_ *linuxhost.Goal, s *linuxhost.Seen) {
			s.Facts.Begun = true
		}},
		"RKE2 is installed": {age: old, want: true, edit: func(g *linuxhost.Goal, s *linuxhost.Seen) {
			rke2(g, s)
			done(linuxhost.InstallPrefix+"rke2")(g, s)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := linuxhost.Goal{Distribution: linuxhost.Kubeadm, Version: version.MustParse("v1.36.3")}
			s := linuxhost.Seen{
				Attempt: "a1", Facts: linuxhost.Facts{Now: clock}, Checks: make(linuxhost.Checks),
			}
			saved := strconv.FormatInt(clock.Add(-test.age).Unix(), 10)
			s.Checks[linuxhost.EtcdSnapshot] = linuxhost.CheckResult{Done: true, Output: saved}
			if test.edit != nil {
				test.edit(&g, &s)
			}
			if got := linuxhost.ExpireSnapshot(g, s)[linuxhost.EtcdSnapshot].Done; got != test.want {
				t.Errorf("the snapshot is done: %t, want %t", got, test.want)
			}
			if !s.Checks[linuxhost.EtcdSnapshot].Done {
				t.Error("the checks were changed")
			}
		})
	}
}
