package diagnostics

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/windlass-dev/windlass/internal/httplimit"
	"github.com/windlass-dev/windlass/internal/loglimit"
)

const (
	// off is the address of a server that is not to run.
	off = "0"
	// gathersAtOnce bounds the answers with all metrics that are in memory at the same time.
	gathersAtOnce = 4
	// maxLines and maxLinesEach bound the lines a minute about callers that are not let in.
	maxLines, maxLinesEach = 10, 10
)

// Off has a manager of controller-runtime serve no metrics: [Add] does, within bounds.
func Off() metricsserver.Options { return metricsserver.Options{BindAddress: off} }

// Add has a manager serve metrics and profiles, as the options say. In contrast to the server of
// controller-runtime, this one bounds what callers take before their tokens are reviewed.
func Add(ctx context.Context, mgr manager.Manager, o metricsserver.Options) error {
	o.BindAddress = cmp.Or(o.BindAddress, metricsserver.DefaultBindAddress)
	if o.BindAddress == off {
		return nil
	}
	mux, err := newMux(mgr, o)
	if err != nil {
		return err
	}
	if !o.SecureServing {
		return serve(ctx, mgr, "diagnostics", o.BindAddress, httplimit.ForDiagnostics, mux)
	}
	host, service, err := net.SplitHostPort(o.BindAddress)
	if err != nil {
		return fmt.Errorf("reading the address of diagnostics: %w", err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return fmt.Errorf("reading the port of diagnostics: %w", err)
	}
	o.CertDir = cmp.Or(o.CertDir, filepath.Join(os.TempDir(), "k8s-metrics-server", "serving-certs"))
	options := webhook.Options{
		Host: host, Port: int(port), WebhookMux: mux, TLSOpts: o.TLSOpts, CertDir: o.CertDir,
		CertName: cmp.Or(o.CertName, "tls.crt"), KeyName: cmp.Or(o.KeyName, "tls.key"),
	}
	if !exists(options.CertDir, options.CertName) || !exists(options.CertDir, options.KeyName) {
		signed, err := signOwn()
		if err != nil {
			return err
		}
		options.TLSOpts = append(slices.Clip(options.TLSOpts), signed)
	}
	server := httplimit.NewTLSServer("diagnostics", options, httplimit.ForDiagnostics, nil)
	if err := mgr.Add(server); err != nil {
		return fmt.Errorf("adding the server of diagnostics: %w", err)
	}
	return nil
}

// newMux returns the handlers of metrics and profiles, behind the options' filter.
func newMux(mgr manager.Manager, o metricsserver.Options) (*http.ServeMux, error) {
	handlers := map[string]http.Handler{
		"/metrics": httplimit.Fair(gathersAtOnce, promhttp.HandlerFor(
			metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})),
	}
	maps.Copy(handlers, o.ExtraHandlers)
	filter := func(handler http.Handler) (http.Handler, error) { return handler, nil }
	if o.FilterProvider != nil {
		provided, err := o.FilterProvider(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			return nil, fmt.Errorf("preparing reviews of the callers of diagnostics: %w", err)
		}
		refusals := loglimit.New(time.Now, maxLines, maxLinesEach)
		logger := refusals.Limit(log.Log.WithName("diagnostics"), "")
		filter = func(handler http.Handler) (http.Handler, error) { return provided(logger, handler) }
	}
	mux := http.NewServeMux()
	for path, handler := range handlers {
		filtered, err := filter(handler)
		if err != nil {
			return nil, fmt.Errorf("preparing reviews of the callers of %s: %w", path, err)
		}
		mux.Handle(path, filtered)
	}
	return mux, nil
}

// AddHealth has a manager serve probes at address; "" and "0" mean none. Everybody may reach the port,
// as kubelets do.
func AddHealth(
	ctx context.Context, mgr manager.Manager, address string, alive, ready map[string]healthz.Checker,
) error {
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": alive, "/readyz": ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler)
	}
	return serve(ctx, mgr, "health", address, httplimit.ForCalls, mux)
}

// AddProfiles has a manager serve profiles over plain HTTP at address; "" and "0" mean none.
func AddProfiles(ctx context.Context, mgr manager.Manager, address string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return serve(ctx, mgr, "profiles", address, httplimit.ForDiagnostics, mux)
}

// serve adds a server of plain HTTP to a manager.
func serve(
	ctx context.Context, mgr manager.Manager, name, address string, bounds httplimit.Bounds,
	handler http.Handler,
) error {
	if address == "" || address == off {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening on %s for %s: %w", address, name, err)
	}
	if err := mgr.Add(httplimit.NewServer(name, listener, bounds, handler)); err != nil {
		return fmt.Errorf("adding the server of %s: %w", name, err)
	}
	return nil
}

func exists(elements ...string) bool {
	_, err := os.Stat(filepath.Join(elements...))
	return !os.IsNotExist(err)
}

// signOwn returns an option by which a server has a certificate that it signed itself, as the servers
// of Cluster API's managers have. It encrypts, and proves nothing.
func signOwn() (func(*tls.Config), error) {
	certificate, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures(
		"localhost", []net.IP{{127, 0, 0, 1}}, nil, "")
	if err != nil {
		return nil, fmt.Errorf("making a certificate for diagnostics: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate for diagnostics: %w", err)
	}
	return func(config *tls.Config) {
		config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
	}, nil
}
