package conformance_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/conformance"
)

const fixture = `
updateMachine:
  desired:
    machine:
      apiVersion: cluster.x-k8s.io/v1beta2
      kind: Machine
      metadata: {namespace: ns, name: worker-0}
      spec: {clusterName: cluster, version: v1.32.1, bootstrap: {}, infrastructureRef: {apiGroup: a, kind: b, name: c}}
`

// verify runs the battery against a subject.
func verify(t *testing.T, s *subject, change func(*conformance.Options)) *conformance.Report {
	t.Helper()
	server := httptest.NewUnstartedServer(s)
	server.TLS = s.tls
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	url := server.URL
	if s.plain {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		both := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
		go func() {
			_ = both.Serve(&sniffing{Listener: listener, config: &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12}})
		}()
		t.Cleanup(func() { _ = both.Close() })
		url = "https://" + listener.Addr().String()
	}
	whole, err := conformance.DefaultFixture()
	if err != nil {
		t.Fatal(err)
	}
	updating, err := conformance.ParseFixture([]byte(fixture))
	if err != nil {
		t.Fatal(err)
	}
	whole.UpdateMachine = updating.UpdateMachine
	var clock atomic.Int64
	o := conformance.Options{
		URL: url, CABundle: ca, Fixture: whole, AllowUpdates: true, Operation: "op",
		Now:  func() time.Time { return time.Unix(clock.Load(), 0) },
		Wait: func(ctx context.Context, d time.Duration) error { clock.Add(int64(d / time.Second)); return ctx.Err() },
	}
	o.Restart = func(context.Context) error { return nil }
	if change != nil {
		change(&o)
	}
	report, err := conformance.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func ids(report *conformance.Report, status conformance.Status) []string {
	var found []string
	for _, point := range report.Points {
		if point.Status == status {
			found = append(found, point.ID)
		}
	}
	return found
}

func TestGoodUpdater(t *testing.T) {
	t.Parallel()
	report := verify(t, newSubject(), nil)
	for _, point := range report.Points {
		if point.Status != conformance.Pass {
			t.Errorf("%s: %s: %s", point.ID, point.Status, point.Reason)
		}
		if point.Title == "" || point.Source == "" {
			t.Errorf("%s has no title or no source", point.ID)
		}
	}
	if len(report.Warnings) > 0 {
		t.Errorf("warnings: %q", report.Warnings)
	}
}

// bad makes a subject that breaks one rule.
type bad struct {
	change  func(s *subject)
	options func(o *conformance.Options)
	// words are in the reason.
	words string
	// timeout is that of each hook in seconds, if it is not zero. Other points fail, too, where a busy
	// machine does not serve good answers within it.
	timeout int
}

// verifyBad runs the battery against a subject that breaks a rule.
func verifyBad(t *testing.T, b bad) *conformance.Report {
	t.Helper()
	s := newSubject()
	if b.change != nil {
		b.change(s)
	}
	for _, handler := range s.handlers {
		if b.timeout > 0 {
			handler["timeoutSeconds"] = b.timeout
		}
	}
	return verify(t, s, b.options)
}

// onSet and onMachine change the answers to one of the hooks.
func onHook(set bool, change func(request, response object) object) func(s *subject) {
	return func(s *subject) {
		good := s.decide
		s.decide = func(isSet bool, request object) object {
			response := good(isSet, request)
			if isSet != set {
				return response
			}
			return change(request, response)
		}
	}
}

// badDecisions are updaters that break a rule of one of the two hooks.
func badDecisions(id string, set bool) map[string]bad {
	part, path := "machine", "/spec/version"
	if set {
		part, path = "machineSet", "/spec/template/spec/version"
	}
	var calls atomic.Int32
	differs := func(request object) bool {
		return !cmp.Equal(dig(request["current"], part, "spec"), dig(request["desired"], part, "spec"))
	}
	infrastructure := map[bool]string{false: "infrastructureMachine", true: "infrastructureMachineTemplate"}[set]
	return map[string]bad{
		id + ".patches": {change: onHook(set, func(request, response object) object {
			if response[part+"Patch"] != nil && request["windlassConformance"] == nil && differs(request) {
				response[part+"Patch"] = patch(path, "v9.9.9")
			}
			if request["windlassConformance"] != nil {
				response[part+"Patch"] = patch(path, "v9.9.9")
			}
			return response
		}), words: "not to what is desired"},
		id + ".repeatable": {change: onHook(set, func(request, response object) object {
			// Only the plain question is answered in two ways.
			if differs(request) && request["windlassConformance"] == nil && calls.Add(1) > 1 {
				response["message"] = "asked again"
			}
			return response
		}), words: "what changes at every call"},
		id + ".nothing-to-do": {change: onHook(set, func(request, response object) object {
			if cmp.Equal(request["current"], request["desired"]) {
				response[part+"Patch"] = patch(path, "v9.9.9")
			}
			return response
		}), words: "not to what is desired"},
		id + ".not-covered": {change: onHook(set, func(request, response object) object {
			if !cmp.Equal(dig(request["current"], infrastructure, "spec"), dig(request["desired"], infrastructure, "spec")) {
				return object{"status": "Failure", "message": "cannot do that"}
			}
			return response
		}), words: "cannot do that"},
		id + ".unknown-fields": {change: onHook(set, func(request, response object) object {
			if request["windlassConformance"] != nil {
				return object{"status": "Failure", "message": "unknown field"}
			}
			return response
		}), words: "the status was Success and is Failure"},
		id + ".timing": {change: onHook(set, func(request, response object) object {
			if cmp.Equal(request["current"], request["desired"]) {
				return nil
			}
			return response
		}), timeout: 1, words: "did not answer within "},
	}
}

// badUpdates are updaters that break a rule of UpdateMachine.
func badUpdates() map[string]bad {
	onAsk := func(change func(asked int, response object) object) func(s *subject) {
		return func(s *subject) {
			good := s.update
			s.update = func(machine, operation string) object {
				response := good(machine, operation)
				s.mu.Lock()
				defer s.mu.Unlock()
				if machine != "worker-0" {
					return response
				}
				return change(s.asked[operation], response)
			}
		}
	}
	failure := object{"status": "Failure", "message": "no"}
	return map[string]bad{
		"update-machine.unknown-machine": {change: func(s *subject) {
			good := s.update
			s.update = func(machine, operation string) object {
				if machine != "worker-0" {
					return object{"status": "Success", "retryAfterSeconds": 0}
				}
				return good(machine, operation)
			}
		}, words: "Success"},
		"update-machine.repeatable": {change: onAsk(func(asked int, response object) object {
			if asked == 2 {
				return failure
			}
			return response
		}), words: "second request got the status Failure"},
		"update-machine.restart": {change: onAsk(func(asked int, response object) object {
			if asked == 3 {
				return failure
			}
			return response
		}), words: "got the status Failure"},
		"update-machine.completes": {change: onAsk(func(_ int, _ object) object {
			return object{"status": "Success", "retryAfterSeconds": 5}
		}), words: "has not ended after 15m0s"},
		"update-machine.done-again": {change: onAsk(func(asked int, response object) object {
			if asked > 5 {
				return object{"status": "Success", "retryAfterSeconds": 5}
			}
			return response
		}), words: "retryAfterSeconds 5"},
		"update-machine.retry-after": {change: onAsk(func(asked int, response object) object {
			if asked == 1 {
				return object{"status": "Success", "retryAfterSeconds": -1}
			}
			return response
		}), words: "was -1"},
		"update-machine.timing": {
			change: onAsk(func(int, object) object { return nil }), timeout: 1, words: "did not answer within ",
		},
	}
}

func badConnections() map[string]bad {
	return map[string]bad{
		"tls.trusted": {options: func(o *conformance.Options) { o.CABundle = nil }, words: "unknown authority"},
		"tls.version": {change: func(s *subject) {
			s.tls = &tls.Config{MinVersion: tls.VersionTLS10}
		}, words: "TLS 1.1 or older was accepted"},
		"tls.plain-http":    {change: func(s *subject) { s.plain = true }, words: "without TLS"},
		"discovery.answers": {change: func(s *subject) { s.handlers = nil }, words: "not ready"},
		"discovery.hooks": {change: func(s *subject) {
			// An extension that was written for an old version, of which one hook is left.
			s.handlers[2]["requestHook"] = object{"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha0", "hook": "UpdateMachine"}
		}, words: "v1alpha0"},
		"discovery.names":          {change: func(s *subject) { s.handlers[1]["name"] = "On_Set" }, words: "DNS label"},
		"discovery.timeouts":       {change: func(s *subject) { s.handlers[1]["timeoutSeconds"] = 31 }, words: "31"},
		"discovery.failure-policy": {change: func(s *subject) { s.handlers[2]["failurePolicy"] = "Ignore" }, words: "Ignore"},
	}
}

// TestBadUpdaters breaks each rule on purpose: exactly its point must fail. All points have a bad updater.
func TestBadUpdaters(t *testing.T) {
	t.Parallel()
	all := map[string]bad{}
	for _, some := range []map[string]bad{
		badConnections(), badDecisions("can-update-machine", false), badDecisions("can-update-machine-set", true), badUpdates(),
	} {
		maps.Copy(all, some)
	}
	for _, point := range verify(t, newSubject(), nil).Points {
		if _, ok := all[point.ID]; !ok {
			t.Errorf("no updater breaks %s", point.ID)
		}
	}
	for id, b := range all {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			report := verifyBad(t, b)
			for b.timeout > 0 && b.timeout < 60 && len(ids(report, conformance.Fail)) != 1 {
				b.timeout *= 4
				report = verifyBad(t, b)
			}
			if diff := cmp.Diff([]string{id}, ids(report, conformance.Fail)); diff != "" {
				t.Errorf("failed points (-want +got):\n%s", diff)
			}
			for _, point := range report.Points {
				if point.ID == id && !strings.Contains(point.Reason, b.words) {
					t.Errorf("the reason is %q, want it to say %q", point.Reason, b.words)
				}
				if point.Status == conformance.Skipped && point.Reason == "" {
					t.Errorf("%s was skipped without a reason", point.ID)
				}
			}
		})
	}
}

// TestFurtherFaults are those that make more than one point fail.
func TestFurtherFaults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		bad
		failed []string
	}{
		"no UpdateMachine":   {bad{change: func(s *subject) { s.handlers = s.handlers[:2] }, words: "UpdateMachine is not served"}, []string{"discovery.hooks"}},
		"only UpdateMachine": {bad{change: func(s *subject) { s.handlers = s.handlers[2:] }, words: "neither"}, []string{"discovery.hooks"}},
		"a hook twice":       {bad{change: func(s *subject) { s.handlers = append(s.handlers, s.handlers[0]) }, words: "second"}, []string{"discovery.hooks", "discovery.names"}},
		"nobody there":       {bad{options: func(o *conformance.Options) { o.URL = "https://127.0.0.1:1" }, words: "connecting"}, []string{"tls.trusted"}},
		"restart that fails": {bad{options: func(o *conformance.Options) {
			o.Restart = func(context.Context) error { return errors.New("no such command") }
		}, words: "no such command"}, []string{"update-machine.restart"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSubject()
			if tt.change != nil {
				tt.change(s)
			}
			report := verify(t, s, tt.options)
			if diff := cmp.Diff(tt.failed, ids(report, conformance.Fail)); diff != "" {
				t.Errorf("failed points (-want +got):\n%s", diff)
			}
			if i := slices.IndexFunc(report.Points, func(p conformance.Point) bool { return p.Status == conformance.Fail }); i >= 0 && !strings.Contains(report.Points[i].Reason, tt.words) {
				t.Errorf("the reason is %q, want it to say %q", report.Points[i].Reason, tt.words)
			}
		})
	}
}

// TestNothingCovered: of an updater that covers nothing of the fixture, patches cannot be said to be right.
func TestNothingCovered(t *testing.T) {
	t.Parallel()
	s := newSubject()
	onHook(true, func(object, object) object { return object{"status": "Success"} })(s)
	report := verify(t, s, nil)
	want := []string{"can-update-machine-set.patches", "can-update-machine-set.repeatable", "can-update-machine-set.unknown-fields"}
	if diff := cmp.Diff(want, ids(report, conformance.Skipped)); diff != "" {
		t.Errorf("skipped points (-want +got):\n%s", diff)
	}
	if failed := ids(report, conformance.Fail); len(failed) > 0 {
		t.Errorf("failed points: %q", failed)
	}
	if diff := cmp.Diff([]string{"CanUpdateMachineSet covered nothing of the fixture: use --fixture with changes that yours covers"}, report.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// TestFieldsThatAreNotCompared checks that patches outside of the spec, such as those of marshaled Go objects, are no failure.
func TestFieldsThatAreNotCompared(t *testing.T) {
	t.Parallel()
	s := newSubject()
	onHook(false, func(_, response object) object {
		var fields []string
		for _, field := range []string{"/status", "/metadata/creationTimestamp", "/a", "/b", "/c"} {
			fields = append(fields, fmt.Sprintf(`{"op":"add","path":%q,"value":{}}`, field))
		}
		data := base64.StdEncoding.EncodeToString([]byte("[" + strings.Join(fields, ",") + "]"))
		response["infrastructureMachinePatch"] = object{"patchType": "JSONPatch", "patch": data}
		return response
	})(s)
	report := verify(t, s, nil)
	if failed := ids(report, conformance.Fail); len(failed) > 0 {
		t.Errorf("failed points: %q", failed)
	}
	want := []string{"CanUpdateMachine patches fields that Cluster API does not compare, and that are ignored: " +
		"InfrastructureMachine /a, InfrastructureMachine /b, InfrastructureMachine /c, InfrastructureMachine /metadata/creationTimestamp and 1 more. " +
		"Fix: patch fields below /spec only"}
	if diff := cmp.Diff(want, report.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestWithoutUpdatesNothingIsUpdated(t *testing.T) {
	t.Parallel()
	s := newSubject()
	s.update = func(machine, _ string) object {
		t.Errorf("machine %s was updated", machine)
		return object{"status": "Success"}
	}
	report := verify(t, s, func(o *conformance.Options) { o.AllowUpdates = false })
	if got := report.Count(conformance.Skipped); got != 7 || report.Count(conformance.Fail) != 0 {
		t.Errorf("%d points were skipped, %v failed", got, ids(report, conformance.Fail))
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]conformance.Options{
		"http":              {URL: "http://127.0.0.1"},
		"no machine at all": {URL: "https://127.0.0.1", AllowUpdates: true},
		"no CA in the CA":   {URL: "https://127.0.0.1", CABundle: []byte("a")},
	} {
		if _, err := conformance.Run(t.Context(), o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	for name, content := range map[string]string{
		"nothing": "", "a list": "[]", "another member": "canUpdate: {}", "a machine without a name": "updateMachine: {desired: {machine: {spec: {version: v1.30.0}}}}",
	} {
		if _, err := conformance.ParseFixture([]byte(content)); err == nil {
			t.Errorf("the fixture with %s was accepted", name)
		}
	}
}
