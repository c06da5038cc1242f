package conformance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/internal/updaters"
)

// Where the rules are written. Sections are named, because lines move.
const (
	sourceExtensions = "Cluster API book, Implementing Runtime Extensions, "
	sourceHooks      = "Cluster API book, Implementing in-place update hooks, "
	sourceProposal   = "Cluster API proposal 20240807-in-place-updates, "
	sourceWindlass   = "Windlass docs/how-to/write-an-updater.md, "
)

func tlsPoints() []definition {
	return []definition{
		{"tls.trusted", "the certificate is trusted, for the URL's host, and TLS is 1.2 or newer", sourceExtensions + "Implementation (HTTPS server)", checkTrusted},
		{"tls.version", "connections with TLS older than 1.2 are refused", sourceWindlass + "TLS", checkVersion},
		{"tls.plain-http", "plain HTTP is not served", sourceWindlass + "TLS", checkPlain},
	}
}

// probeTimeout bounds a connection.
const probeTimeout = 10 * time.Second

// dial opens a TLS connection with a version in a range.
func (k *kit) dial(ctx context.Context, lowest, highest uint16) error {
	base, err := url.Parse(k.options.URL)
	if err != nil {
		return fmt.Errorf("reading the URL: %w", err)
	}
	config := &tls.Config{ServerName: base.Hostname(), MinVersion: lowest, MaxVersion: highest}
	if len(k.options.CABundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(k.options.CABundle)
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	connection, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", hostPort(base))
	if err != nil {
		return err
	}
	_ = connection.Close()
	return nil
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func checkTrusted(ctx context.Context, k *kit) outcome {
	if err := k.dial(ctx, tls.VersionTLS12, tls.VersionTLS13); err != nil {
		return failed("connecting: %v", err)
	}
	k.connected = true
	return passed()
}

func checkVersion(ctx context.Context, k *kit) outcome {
	if !k.connected {
		return skipped("no connection")
	}
	if err := k.dial(ctx, tls.VersionTLS10, tls.VersionTLS11); err == nil {
		return failed("a connection with TLS 1.1 or older was accepted. Fix: set the lowest version to 1.2")
	}
	return passed()
}

func checkPlain(ctx context.Context, k *kit) outcome {
	if !k.connected {
		return skipped("no connection")
	}
	base, err := url.Parse(k.options.URL)
	if err != nil {
		return failed("reading the URL: %v", err)
	}
	plain := *base
	plain.Scheme, plain.Host, plain.Path = "http", hostPort(base), updaters.HookPath("Discovery", "")
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, plain.String(), strings.NewReader("{}"))
	if err != nil {
		return failed("making the request: %v", err)
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return passed()
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, updaters.MaxResponseBytes))
	_ = answer.Body.Close()
	if answer.StatusCode < http.StatusMultipleChoices {
		return failed("a request without TLS was answered with the status %d; serve nothing but https there", answer.StatusCode)
	}
	return passed()
}

func discoveryPoints() []definition {
	const discovery = sourceExtensions + "Implementation (discovery)"
	return []definition{
		{"discovery.answers", "Discovery answers Success within 10 s", discovery, checkDiscovery},
		{"discovery.hooks", "UpdateMachine, and CanUpdateMachine or CanUpdateMachineSet, are served in v1alpha1, each once", sourceHooks + "Introduction (one extension for each hook)", checkHooks},
		{"discovery.names", "the handlers' names are DNS labels, each used once", discovery, checkNames},
		{"discovery.timeouts", "the handlers' timeouts are at most 30 s", sourceExtensions + "Timeouts", checkTimeouts},
		{"discovery.failure-policy", "the handlers' failure policy is Fail", sourceExtensions + "Error management; with Ignore, Cluster API takes an updater that it cannot reach for one that is done", checkPolicies},
	}
}

// inPlaceHooks are the hooks that the battery is about.
var inPlaceHooks = []string{"CanUpdateMachine", "CanUpdateMachineSet", hookUpdateMachine}

const hookUpdateMachine = "UpdateMachine"

func checkDiscovery(ctx context.Context, k *kit) outcome {
	if !k.connected {
		return skipped("no connection")
	}
	client, err := newClient(k.options, discoveryTimeout)
	if err != nil {
		return failed("%v", err)
	}
	defer client.Close()
	response := &runtimehooksv1.DiscoveryResponse{}
	switch err := call(ctx, client, "Discovery", "", map[string]any{}, response); {
	case errors.Is(err, updaters.ErrHandOver):
		return failed("the answer is a %s: %v. Fix: add --protocol HandOver",
			updatesv1.HandOverResponseKind, updaters.ErrHandOver)
	case err != nil:
		return failed("%v", err)
	}
	if response.Status != runtimehooksv1.ResponseStatusSuccess {
		return failed("the answer has the status %q: %s", response.Status, updaters.CleanMessage(response.Message))
	}
	k.discovered = response
	return passed()
}

// eachHandler judges the discovered handlers of the in-place hooks, in whatever version, one by one.
func (k *kit) eachHandler(judge func(h *runtimehooksv1.ExtensionHandler) string) outcome {
	if k.discovered == nil {
		return skipped("nothing was discovered")
	}
	for i := range k.discovered.Handlers {
		h := &k.discovered.Handlers[i]
		for _, hook := range inPlaceHooks {
			if h.RequestHook.Hook != hook {
				continue
			}
			if problem := judge(h); problem != "" {
				return failed("handler %q of %s: %s", updaters.CleanWord(h.Name), hook, problem)
			}
		}
	}
	return passed()
}

func checkHooks(_ context.Context, k *kit) outcome {
	counted := map[string]int{}
	result := k.eachHandler(func(h *runtimehooksv1.ExtensionHandler) string {
		hook := h.RequestHook.Hook
		if h.RequestHook.APIVersion != runtimehooksv1.GroupVersion.String() {
			return fmt.Sprintf("it is of version %q, which is not known", updaters.CleanWord(h.RequestHook.APIVersion))
		}
		if counted[hook]++; counted[hook] > 1 {
			return "it is a second handler of that hook"
		}
		timeout := time.Duration(runtimehooksv1.DefaultHandlersTimeoutSeconds) * time.Second
		if h.TimeoutSeconds != nil && *h.TimeoutSeconds > 0 {
			timeout = min(time.Duration(*h.TimeoutSeconds)*time.Second, updaters.MaxTimeout)
		}
		k.handlers[hook] = handler{name: h.Name, timeout: timeout}
		return ""
	})
	switch {
	case result.status != Pass:
		return result
	case counted[hookUpdateMachine] == 0:
		return failed("UpdateMachine is not served")
	case len(counted) == 1:
		return failed("neither CanUpdateMachine nor CanUpdateMachineSet is served")
	}
	return result
}

func checkNames(_ context.Context, k *kit) outcome {
	used := map[string]bool{}
	return k.eachHandler(func(h *runtimehooksv1.ExtensionHandler) string {
		if problems := validation.IsDNS1123Label(h.Name); len(problems) > 0 {
			return "the name is no DNS label: " + strings.Join(problems, "; ")
		}
		if used[h.Name] {
			return "the name is used twice"
		}
		used[h.Name] = true
		return ""
	})
}

func checkTimeouts(_ context.Context, k *kit) outcome {
	return k.eachHandler(func(h *runtimehooksv1.ExtensionHandler) string {
		if seconds := h.TimeoutSeconds; seconds != nil && (*seconds < 0 || *seconds > 30) {
			return fmt.Sprintf("timeoutSeconds is %d; it must be from 0 to 30", *seconds)
		}
		return ""
	})
}

func checkPolicies(_ context.Context, k *kit) outcome {
	return k.eachHandler(func(h *runtimehooksv1.ExtensionHandler) string {
		if policy := h.FailurePolicy; policy != nil && *policy != runtimehooksv1.FailurePolicyFail {
			return fmt.Sprintf("failurePolicy is %q; it must be Fail, or left out", updaters.CleanWord(string(*policy)))
		}
		return ""
	})
}
