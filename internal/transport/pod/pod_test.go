package pod_test

import (
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/transport/pod"
)

const node = "node-1.example"

func open(t *testing.T, s *apiServer) port.Host {
	t.Helper()
	h, err := pod.New(pod.Options{Config: s.config(), Namespace: "tools", Node: node, Image: "registry.example/tools:1", StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func wantRuns(t *testing.T, h port.Host) {
	t.Helper()
	got, err := h.Exec(t.Context(), port.HostCommand{Script: "echo ok; exit 3"})
	if err != nil || string(got.Stdout) != "ok\n" || got.ExitCode != 3 {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func wantReason(t *testing.T, err error, reason port.HostReason, words ...string) {
	t.Helper()
	if port.ReasonOfHost(err) != reason {
		t.Fatalf("the reason is %q, want %q: %v", port.ReasonOfHost(err), reason, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the message lacks %q: %v", word, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the message holds a secret: %v", err)
	}
}

func TestSuite(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("scripts must run as root, and this test does not")
		}
		t.Skip("scripts must run as root, and this test does not")
	}
	for name, spdy := range map[string]bool{"WebSocket": false, "SPDY": true} {
		t.Run(name, func(t *testing.T) {
			porttest.RunHostSuite(t, func(t *testing.T) port.Host {
				t.Helper()
				s := newAPIServer(t)
				s.spdy = spdy
				return open(t, s)
			})
		})
	}
}

func TestPodIsShared(t *testing.T) {
	s := newAPIServer(t)
	one, other := open(t, s), open(t, s)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { wantRuns(t, one) })
		group.Go(func() { wantRuns(t, other) })
	}
	group.Wait()
	made := s.one(t)
	want := corev1.PodSpec{
		NodeName: node, HostPID: true, RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: new(int64(3600)), TerminationGracePeriodSeconds: new(int64(1)),
		PriorityClassName: "system-node-critical", AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{
			Name: "host", Image: "registry.example/tools:1", Command: []string{"sleep", "3600"}, SecurityContext: &corev1.SecurityContext{Privileged: new(true)},
		}},
	}
	if diff := cmp.Diff(want, made.Spec); diff != "" {
		t.Errorf("the Pod differs: %s", diff)
	}
	if made.Name != "windlass-host-"+node || made.Namespace != "tools" || made.Labels["cluster.x-k8s.io/drain"] != "skip" {
		t.Errorf("the Pod is %s/%s with %v", made.Namespace, made.Name, made.Labels)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if len(s.pods) != 0 {
		t.Error("Close leaves the Pod")
	}
	_, err := other.Exec(t.Context(), port.HostCommand{Script: "true"})
	wantReason(t, err, port.HostLost, "was replaced")
	wantRuns(t, open(t, s))
	if again := s.one(t); again.UID == made.UID {
		t.Error("the Pod is the old one")
	}
	// The first one's Pod is gone already; it must not delete the second one's.
	if err := one.Close(); err != nil || len(s.pods) != 1 {
		t.Errorf("Close: %v; %d Pods are left", err, len(s.pods))
	}
}

func TestPodIsReplaced(t *testing.T) {
	for name, linger := range map[string]bool{"at once": false, "when it has left": true} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			s.linger = linger
			h := open(t, s)
			wantRuns(t, h)
			first := s.one(t)
			s.set(func() {
				s.pods[first.Name].Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}
			})
			for range 2 {
				_, err := h.Exec(t.Context(), port.HostCommand{Script: "true"})
				wantReason(t, err, port.HostLost, "was replaced", "identified again")
			}
			wantRuns(t, open(t, s))
			if s.one(t).UID == first.UID {
				t.Error("the Pod that is over was used")
			}
		})
	}
}

func TestPodStartsLater(t *testing.T) {
	s := newAPIServer(t)
	s.status = waiting("ContainerCreating", "")
	h := open(t, s)
	var once sync.Once
	s.Config.Handler = after(s.Config.Handler, func() {
		s.set(func() {
			if made := s.pods["windlass-host-"+node]; made != nil {
				once.Do(func() { made.Status = running })
			}
		})
	})
	wantRuns(t, h)
}

func TestPodDoesNotRun(t *testing.T) {
	for name, test := range map[string]struct {
		status corev1.PodStatus
		words  []string
	}{
		"image":    {status: waiting("ImagePullBackOff", "no such image"), words: []string{"tools/windlass-host-" + node, "ImagePullBackOff: no such image"}},
		"creating": {status: waiting("ContainerCreating", ""), words: []string{"ContainerCreating", "not within "}},
		"kubelet":  {status: corev1.PodStatus{Phase: corev1.PodPending}, words: []string{"the kubelet has not started it"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			s.status = test.status
			exec := func(timeout time.Duration) (port.Host, error) {
				h, err := pod.New(pod.Options{Config: s.config(), Namespace: "tools", Node: node, Image: "i", StartTimeout: timeout})
				if err != nil {
					t.Fatal(err)
				}
				_, err = h.Exec(t.Context(), port.HostCommand{Script: "true # hunter2"})
				return h, err
			}
			timeout := 300 * time.Millisecond
			h, err := exec(timeout)
			// On a busy machine, the time may be over before the Pod was read.
			for ; timeout < time.Minute && !strings.Contains(err.Error(), test.words[0]); timeout *= 4 {
				h, err = exec(4 * timeout)
			}
			wantReason(t, err, port.HostUnreachable, test.words...)
			if err := h.Close(); err != nil || len(s.pods) != 0 {
				t.Errorf("Close: %v; %d Pods are left", err, len(s.pods))
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for deny, permission := range map[string]string{
		"create pods": "create of pods in namespace tools", "get pods": "get of pods in namespace tools", "pods/exec": "get and create of pods/exec in namespace tools",
		// One of the two is enough where both ways work.
		"get pods/exec": "", "create pods/exec": "",
	} {
		t.Run(deny, func(t *testing.T) {
			s := newAPIServer(t)
			s.deny = deny
			if permission == "" {
				wantRuns(t, open(t, s))
				return
			}
			_, err := open(t, s).Exec(t.Context(), port.HostCommand{Script: "true # hunter2"})
			wantReason(t, err, port.HostLoginRefused, permission)
		})
	}
	t.Run("a Pod of somebody else", func(t *testing.T) {
		s := newAPIServer(t)
		h := open(t, s)
		s.pods["windlass-host-"+node] = &corev1.Pod{}
		_, err := h.Exec(t.Context(), port.HostCommand{Script: "true"})
		wantReason(t, err, port.HostSetup, "not a Pod of ours")
		if _ = h.Close(); len(s.pods) != 1 {
			t.Error("it was deleted")
		}
	})
}

func TestNoWayToTheHost(t *testing.T) {
	for name, test := range map[string]struct {
		nsenter []string
		reason  port.HostReason
		word    string
	}{
		"not privileged": {nsenter: []string{"sh", "-c", "echo 'nsenter: Operation not permitted' >&2; exit 1"}, reason: port.HostNotRoot, word: "Operation not permitted"},
		"no bash":        {nsenter: []string{"sh", "-c", "echo 'env: bash: not found' >&2; exit 127"}, reason: port.HostSetup, word: "bash: not found"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			s.nsenter = test.nsenter
			_, err := open(t, s).Exec(t.Context(), port.HostCommand{Script: "true # hunter2"})
			wantReason(t, err, test.reason, test.word)
		})
	}
}

// An API server that goes away, or ends the connection in good order, must not make a script look as if it had ended well.
func TestConnectionEnds(t *testing.T) {
	for name, spdy := range map[string]bool{"WebSocket": false, "SPDY": true} {
		for way, cut := range map[string]func(*apiServer) func(io.Closer){
			"closed": func(*apiServer) func(io.Closer) { return func(conn io.Closer) { _ = conn.Close() } },
			"cut":    func(s *apiServer) func(io.Closer) { return func(io.Closer) { s.cutAll() } },
		} {
			t.Run(name+" "+way, func(t *testing.T) {
				s := newAPIServer(t)
				end := cut(s)
				var once sync.Once
				s.spdy, s.cut = spdy, func(conn io.Closer) { once.Do(func() { end(conn) }) }
				h := open(t, s)
				_, err := h.Exec(t.Context(), port.HostCommand{Script: "echo hunter2; sleep 1"})
				wantReason(t, err, port.HostLost, "the Pod tools/windlass-host-"+node)
				wantRuns(t, h)
			})
		}
	}
}

func TestNotReached(t *testing.T) {
	h, err := pod.New(pod.Options{Config: &rest.Config{Host: "https://127.0.0.1:1"}, Node: node, Image: "i"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Exec(t.Context(), port.HostCommand{Script: "true"})
	wantReason(t, err, port.HostUnreachable, "refused", "kube-system/windlass-host-")
}

func TestOptions(t *testing.T) {
	good := pod.Options{Config: &rest.Config{Host: "https://127.0.0.1:1"}, Node: node, Image: "i"}
	for word, change := range map[string]func(*pod.Options){
		"API server": func(o *pod.Options) { o.Config = nil },
		"no node":    func(o *pod.Options) { o.Node = "" },
		"no image":   func(o *pod.Options) { o.Image = "" },
		"a second":   func(o *pod.Options) { o.Lifetime = time.Millisecond },
		"client":     func(o *pod.Options) { o.Config = &rest.Config{Host: "::no url"} },
	} {
		o := good
		change(&o)
		_, err := pod.New(o)
		wantReason(t, err, port.HostSetup, word)
	}
}
