package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/updaters"
)

// Options say which updater is tested, and with what.
type Options struct {
	// URL is the updater's https URL.
	URL string
	// CABundle holds the certificates, in PEM, one of which must have signed the updater's; empty means the system's.
	CABundle []byte
	// Fixture is what the updater is asked; nil means DefaultFixture.
	Fixture *Fixture
	// AllowUpdates permits to update the fixture's machine.
	AllowUpdates bool
	// UpdateTimeout is how long its update may take; zero means DefaultUpdateTimeout.
	UpdateTimeout time.Duration
	// Restart restarts the updater and returns once that was set about; nil skips the point that needs it.
	Restart func(ctx context.Context) error
	// Now is the clock, and Wait waits; nil means the real ones.
	Now  func() time.Time
	Wait func(ctx context.Context, d time.Duration) error
	// Operation is the operation id of the update; empty means a random one.
	Operation string
}

// DefaultUpdateTimeout is how long the update of the fixture's machine may take.
const DefaultUpdateTimeout = 15 * time.Minute

// discoveryTimeout is how long Cluster API waits for Discovery.
const discoveryTimeout = 10 * time.Second

// kit is a battery under way. It is for one goroutine.
type kit struct {
	options Options
	// connected says that the updater could be reached in a way that can be trusted.
	connected  bool
	discovered *runtimehooksv1.DiscoveryResponse
	// handlers are the usable handlers by hook.
	handlers map[string]handler
	// slow is the first request of a hook that was not answered in time.
	slow    map[string]error
	answers map[string]*answers
	// uncompared are the fields that a hook's answer to the fixture's request patches without effect, by hook.
	uncompared map[string][]cover.Pointer
	update     *updateRun
}

type handler struct {
	name    string
	timeout time.Duration
}

// definition is a point and how it is tested.
type definition struct {
	id, title, source string
	run               func(ctx context.Context, k *kit) outcome
}

// Run runs the battery. The error is about the options; what is wrong with the updater is in the report. It takes seconds
// without updates.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := complete(&o); err != nil {
		return nil, err
	}
	k := &kit{options: o, handlers: map[string]handler{}, slow: map[string]error{}, answers: map[string]*answers{}, uncompared: map[string][]cover.Pointer{}}
	definitions := append(append(tlsPoints(), discoveryPoints()...), decisionPoints()...)
	definitions = append(definitions, updatePoints()...)
	report := &Report{URL: o.URL, Points: make([]Point, 0, len(definitions))}
	for _, d := range definitions {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("verifying %s: %w", o.URL, err)
		}
		result := d.run(ctx, k)
		report.Points = append(report.Points, Point{ID: d.id, Title: d.title, Source: d.source, Status: result.status, Reason: result.reason})
	}
	for _, hook := range decisionHooks {
		report.Warnings = append(report.Warnings, k.warnings(hook)...)
	}
	return report, nil
}

func complete(o *Options) error {
	if _, err := newClient(*o, updaters.DefaultTimeout); err != nil {
		return err
	}
	if o.Fixture == nil {
		fixture, err := DefaultFixture()
		if err != nil {
			return err
		}
		o.Fixture = fixture
	}
	if o.AllowUpdates && o.Fixture.UpdateMachine == nil {
		return errors.New("to allow updates, the fixture must have updateMachine: the request about a real Machine that may be updated")
	}
	if o.UpdateTimeout == 0 {
		o.UpdateTimeout = DefaultUpdateTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Wait == nil {
		o.Wait = wait
	}
	if o.Operation == "" {
		o.Operation = "conformance-" + rand.Text()
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newClient(o Options, timeout time.Duration) (*updaters.Client, error) {
	return updaters.NewClient(updaters.ClientOptions{Name: "under test", URL: o.URL, CABundle: o.CABundle, Timeout: timeout})
}

// errSlow marks that a request was not answered within its handler's timeout.
var errSlow = errors.New("it was not answered within the handler's timeout")

// call sends a request to a hook. A response with a status is an answer, a Failure too.
func (k *kit) call(
	ctx context.Context, hook string, request map[string]any, response runtimehooksv1.ResponseObject,
) error {
	h := k.handlers[hook]
	client, err := newClient(k.options, h.timeout)
	if err != nil {
		return err
	}
	defer client.Close()
	err = call(ctx, client, hook, h.name, request, response)
	response.SetMessage(updaters.CleanMessage(response.GetMessage()))
	if errors.Is(err, context.DeadlineExceeded) {
		if k.slow[hook] == nil {
			k.slow[hook] = err
		}
		return errSlow
	}
	return err
}

// call is updaters.Client.Call, for which a Failure is no error.
func call(
	ctx context.Context, client *updaters.Client, hook, handler string,
	request map[string]any, response runtimehooksv1.ResponseObject,
) error {
	request["apiVersion"], request["kind"] = runtimehooksv1.GroupVersion.String(), hook+"Request"
	err := client.Call(ctx, hook, handler, request, response)
	if failure, ok := errors.AsType[*updaters.Error](err); ok && failure.Class == updaters.Refused {
		return nil
	}
	return err
}
