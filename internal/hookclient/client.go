package hookclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options configure a Client.
type Options struct {
	// Catalog knows the hooks and converts between their versions.
	Catalog *runtimecatalog.Catalog
	// Namespaces reads the metadata of Namespaces, for namespace selectors; it should be a cache.
	Namespaces client.Reader
	// CertFile and KeyFile are the paths of the client certificate for extensions that ask for one, in PEM; both or none are set. The files
	// are read again when they change, as long as Start runs.
	CertFile, KeyFile string
	// Local are handlers in this process, by the name of the ExtensionConfig in whose place they answer. Everything else about it, from its
	// registration to selector, settings and timeouts, is as for one that is called over HTTP, which other processes do.
	Local map[string][]server.ExtensionHandler
	// Fallback are handlers in this process, one per hook. Each serves its hook for the namespaces that no registered extension
	// is for. Discovery does not list them, and other processes cannot call them.
	Fallback []server.ExtensionHandler
	// Metrics is where the metrics are registered; nil means nowhere.
	Metrics prometheus.Registerer
}

// Client calls the extensions that are registered with it. It is a manager.Runnable. It is safe for concurrent use, and never changes what it is
// given, responses excepted.
type Client struct {
	catalog     *runtimecatalog.Catalog
	namespaces  client.Reader
	local       map[string]*local
	fallback    map[runtimecatalog.GroupHook]registration
	watcher     *certwatcher.CertWatcher
	metrics     *callMetrics
	states      states
	registry    registry
	mu          sync.Mutex
	connections map[string]*connection
}

var _ runtimeclient.Client = (*Client)(nil)

// New returns a Client that is not ready before WarmUp. It reads the client certificate.
func New(o Options) (*Client, error) {
	c := &Client{catalog: o.Catalog, namespaces: o.Namespaces, local: map[string]*local{}, connections: map[string]*connection{}, states: newStates()}
	for _, name := range slices.Sorted(maps.Keys(o.Local)) {
		l, err := newLocal(o.Catalog, o.Local[name])
		if err != nil {
			return nil, fmt.Errorf("serving ExtensionConfig %q in this process: %w", name, err)
		}
		c.local[name] = l
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, errors.New("a client certificate for extensions needs two files, the certificate and its key; name both or none")
	}
	var err error
	if c.fallback, err = newFallback(o.Catalog, o.Fallback); err != nil {
		return nil, fmt.Errorf("serving hooks that no extension serves: %w", err)
	}
	if o.CertFile != "" {
		if c.watcher, err = certwatcher.New(o.CertFile, o.KeyFile); err != nil {
			return nil, fmt.Errorf("reading the client certificate for extensions: %w", err)
		}
	}
	if c.metrics, err = newCallMetrics(o.Metrics); err != nil {
		return nil, err
	}
	return c, nil
}

// Start watches the files of the client certificate until ctx is done.
func (c *Client) Start(ctx context.Context) error {
	if c.watcher == nil {
		<-ctx.Done()
		return nil
	}
	if err := c.watcher.Start(ctx); err != nil {
		return fmt.Errorf("watching the client certificate for extensions: %w", err)
	}
	return nil
}

// NeedLeaderElection lets Start run in every replica.
func (c *Client) NeedLeaderElection() bool { return false }

// WarmUp registers all ExtensionConfigs that there are, and makes the Client ready. If one cannot be registered, none is. It can succeed only once.
func (c *Client) WarmUp(list *runtimev1.ExtensionConfigList) error {
	if list == nil {
		return errors.New("loading the extensions: no list of ExtensionConfigs was given")
	}
	configs := map[string][]registration{}
	var errs []error
	for i := range list.Items {
		handlers, err := c.registrations(&list.Items[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		configs[list.Items[i].Name] = handlers
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("loading the extensions: %w", err)
	}
	if err := c.registry.warmUp(configs); err != nil {
		return fmt.Errorf("loading the extensions: %w", err)
	}
	return nil
}

// IsReady reports whether WarmUp has succeeded. Before, everything but WarmUp, Discover and IsReady returns a *NotReadyError.
func (c *Client) IsReady() bool { return c.registry.isReady() }

// Register puts what an ExtensionConfig says, with the handlers in its status, in the place of what was registered of it. On an error what was
// registered stays: no extension would mean that nobody objects.
func (c *Client) Register(config *runtimev1.ExtensionConfig) error {
	if config == nil {
		return errors.New("registering an ExtensionConfig: none was given")
	}
	if !c.registry.isReady() {
		return &NotReadyError{Doing: fmt.Sprintf("registering ExtensionConfig %q", config.Name)}
	}
	handlers, err := c.registrations(config)
	if err != nil {
		return fmt.Errorf("registering: %w", err)
	}
	previous, _ := c.registry.replace(config.Name, handlers)
	if len(previous) > 0 && (len(handlers) == 0 || previous[0].connection != handlers[0].connection) {
		previous[0].connection.closeIdle()
	}
	return nil
}

// Unregister removes what is registered of the ExtensionConfig with this name. It succeeds where there is nothing.
func (c *Client) Unregister(config *runtimev1.ExtensionConfig) error {
	if config == nil {
		return errors.New("unregistering an ExtensionConfig: none was given")
	}
	previous, ready := c.registry.replace(config.Name, nil)
	if !ready {
		return &NotReadyError{Doing: fmt.Sprintf("unregistering ExtensionConfig %q", config.Name)}
	}
	if len(previous) > 0 {
		previous[0].connection.closeIdle()
	}
	c.disconnect(config.Name)
	c.states.forget(config.Name)
	c.metrics.forget(config.Name)
	return nil
}

func (c *Client) registrations(config *runtimev1.ExtensionConfig) ([]registration, error) {
	conn, err := c.connect(config)
	if err != nil {
		return nil, err
	}
	return computeRegistrations(config, conn)
}
