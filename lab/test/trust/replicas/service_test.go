package replicas

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

const (
	// pace is between two calls.
	pace = 50 * time.Millisecond
	// callTimeout bounds one call.
	callTimeout = time.Second

	guardPath        = "/guard-machine"
	discoveryRequest = `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"DiscoveryRequest"}`
	// review is about a Machine that no policy keeps.
	review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"DELETE",
"namespace":"none","name":"m","kind":{"group":"cluster.x-k8s.io","version":"v1beta2","kind":"Machine"},
"resource":{"group":"cluster.x-k8s.io","version":"v1beta2","resource":"machines"},
"oldObject":{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"namespace":"none","name":"m"}}}}`
)

var discovery = wire.Hook{Hook: "Discovery"}

// service connects callers with the Pod that has the label, as a Service with its selector does.
type service struct {
	hooks, guard net.Listener
	client       *http.Client

	mu sync.Mutex
	// processes are those of Pods; active is the Pods that have the label.
	processes map[string]*wire.Process
	active    map[string]bool
}

func newService(t *testing.T, plane *wire.Plane, namespace string, authority *loopback.Authority) *service {
	t.Helper()
	s := &service{
		processes: map[string]*wire.Process{}, active: map[string]bool{},
		client: &http.Client{Timeout: callTimeout, Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: authority.Pool()},
		}},
	}
	s.hooks = s.listen(t, func(p *wire.Process) string { return p.Hooks })
	s.guard = s.listen(t, func(p *wire.Process) string { return p.Guard })
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It ends with ctx only.
		_ = wire.Await(ctx, plane.Client, &corev1.PodList{}, func(p *corev1.Pod) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.active, p.Name)
			if p.Labels[v1alpha1.ActiveLabel] == "true" {
				s.active[p.Name] = true
			}
			return false
		}, client.InNamespace(namespace))
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

func (s *service) add(pod string, p *wire.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes[pod] = p
}

// target returns the process behind the Service: of two Pods with the label, the first by name.
func (s *service) target() *wire.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.active))
	for name := range s.active {
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil
	}
	return s.processes[slices.Min(names)]
}

// listen forwards connections to one of the ports of the process behind the Service.
func (s *service) listen(t *testing.T, port func(*wire.Process) string) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			caller, err := listener.Accept()
			if err != nil {
				return
			}
			go s.forward(caller, port)
		}
	}()
	return listener
}

func (s *service) forward(caller net.Conn, port func(*wire.Process) string) {
	defer func() { _ = caller.Close() }()
	p := s.target()
	if p == nil {
		return
	}
	pod, err := net.DialTimeout("tcp", strings.TrimPrefix(port(p), "https://"), callTimeout)
	if err != nil {
		return
	}
	defer func() { _ = pod.Close() }()
	go func() {
		defer func() { _ = pod.Close() }()
		_, _ = io.Copy(pod, caller)
	}()
	_, _ = io.Copy(caller, pod)
}

// calls are requests to the Service, one of each kind at a pace.
type calls struct {
	end  chan struct{}
	done sync.WaitGroup

	mu sync.Mutex
	// answered has when each call began that was answered.
	answered map[string][]time.Time
}

func (s *service) begin(t *testing.T) *calls {
	t.Helper()
	c := &calls{end: make(chan struct{}), answered: map[string][]time.Time{}}
	for what, call := range map[string]func() error{
		"hooks": func() error {
			return post(t.Context(), s.client, "https://"+s.hooks.Addr().String()+discovery.Path(), discoveryRequest)
		},
		"guard": func() error { return post(t.Context(), s.client, "https://"+s.guard.Addr().String()+guardPath, review) },
	} {
		c.done.Go(func() { c.repeat(what, call) })
	}
	return c
}

func (c *calls) repeat(what string, call func() error) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		select {
		case <-c.end:
			return
		case <-ticker.C:
		}
		c.done.Go(func() {
			began := time.Now()
			if call() != nil {
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.answered[what] = append(c.answered[what], began)
		})
	}
}

// awaitAnswers waits until calls of both kinds that begin from now on are answered.
func (c *calls) awaitAnswers(t *testing.T) {
	t.Helper()
	now := time.Now()
	loopback.Eventually(t, "the Service answers hooks and guard", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, what := range []string{"hooks", "guard"} {
			if !slices.ContainsFunc(c.answered[what], now.Before) {
				return false
			}
		}
		return true
	})
}

// stop ends the calls, and returns the longest time between the beginnings of two calls with an answer and
// none in between.
func (c *calls) stop() map[string]time.Duration {
	close(c.end)
	c.done.Wait()
	gaps := map[string]time.Duration{}
	for what, answered := range c.answered {
		slices.SortFunc(answered, time.Time.Compare)
		for i := 1; i < len(answered); i++ {
			gaps[what] = max(gaps[what], answered[i].Sub(answered[i-1]))
		}
	}
	return gaps
}

// post returns nil if a request is answered with success.
func post(ctx context.Context, c *http.Client, url, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, answer)
	}
	return nil
}
