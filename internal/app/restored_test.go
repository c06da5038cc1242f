package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// revisions is an API server that answers each list with the next revision, and an error where that is
// empty. After the last one it ends the test's wait.
type revisions struct {
	client.Reader
	list  []string
	asked int
	ended context.CancelFunc
}

func (r *revisions) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	applied := (&client.ListOptions{}).ApplyOptions(options)
	if applied.Limit != 1 || applied.Raw != nil || applied.Namespace != "ns" {
		return errors.New("a look is expensive, or not consistent")
	}
	if r.asked++; r.asked > len(r.list) {
		r.ended()
		return errors.New("the test ends")
	}
	revision := r.list[r.asked-1]
	if revision == "" {
		return errors.New("the API server is down")
	}
	list.SetResourceVersion(revision)
	return nil
}

// TestRestoredWatch ends the process at the first revision that is lower than one before, also where the API
// server was down in between, and only then.
func TestRestoredWatch(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		list []string
		// ends is whether the process ends with the last one.
		ends bool
		took time.Duration
	}{
		"it rises":               {[]string{"9", "9", "10", "100"}, false, 4 * restoredEvery},
		"it is down for a while": {[]string{"", "9", "", "", "10"}, false, 3*restoredRetry + 2*restoredEvery},
		"it is restored":         {[]string{"9", "10", "9"}, true, 2 * restoredEvery},
		"it is restored, and was down": {
			[]string{"999", "1000", "", "", "999"}, true, 2*restoredEvery + 2*restoredRetry,
		},
		"no number": {[]string{"x", "10", "y", "11"}, false, 2*restoredRetry + 2*restoredEvery},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				server := &revisions{list: tt.list, ended: cancel}
				began := time.Now()
				err := (&restoredWatch{live: server, namespace: "ns"}).Start(ctx)
				if took := time.Since(began); (err != nil) != tt.ends || took != tt.took {
					t.Errorf("it ended after %s with %v, want %s and an error: %t", took, err, tt.took, tt.ends)
				}
				if tt.ends && (server.asked != len(tt.list) || !strings.Contains(err.Error(), "restore")) {
					t.Errorf("after %d looks of %d: %v", server.asked, len(tt.list), err)
				}
			})
		})
	}
}

// TestRestoredWatchThatFails: looks that fail for a minute are logged once, with the reason and a fix, and
// become rare. So is the first one that succeeds again, which compares with the last one before.
func TestRestoredWatchThatFails(t *testing.T) {
	t.Parallel()
	everySecond := int(failingFor / restoredRetry)
	for name, tt := range map[string]struct {
		list []string
		ends bool
		took time.Duration
		// logged is what each line contains.
		logged []string
	}{
		"shorter": {
			slices.Repeat([]string{""}, everySecond-1), false, failingFor - restoredRetry, nil,
		},
		"for good": {
			slices.Repeat([]string{""}, everySecond+100), false,
			failingFor + 100*restoredEvery, []string{"the API server is down"},
		},
		"twice": {
			slices.Concat(slices.Repeat([]string{""}, everySecond+2), []string{"9"}, slices.Repeat([]string{""}, everySecond+1)),
			false, 2*failingFor + 4*restoredEvery, []string{"the API server is down", restoredSeen, "the API server is down"},
		},
		"and it is restored": {
			slices.Concat([]string{"9"}, slices.Repeat([]string{""}, everySecond+2), []string{"8"}), true,
			failingFor + 3*restoredEvery, []string{"the API server is down"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var logged []string
				log := funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{})
				ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), log))
				defer cancel()
				server := &revisions{list: tt.list, ended: cancel}
				began := time.Now()
				err := (&restoredWatch{live: server, namespace: "ns"}).Start(ctx)
				if took := time.Since(began); (err != nil) != tt.ends || took != tt.took {
					t.Errorf("it ended after %s with %v, want %s and an error: %t", took, err, tt.took, tt.ends)
				}
				for i, want := range tt.logged {
					if i >= len(logged) || !strings.Contains(logged[i], want) ||
						want != restoredSeen && !strings.Contains(logged[i], "Fix: ") {
						t.Errorf("line %d is not about %q", i+1, want)
					}
				}
				if len(logged) != len(tt.logged) {
					t.Errorf("logged %d lines, want %d: %q", len(logged), len(tt.logged), logged)
				}
			})
		})
	}
}
