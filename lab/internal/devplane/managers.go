package devplane

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Ports that parts get inside a plane. In a network namespace they are free, so they are always these; without one, each is the
// first free port from here on. All lie below the ports that systems hand out for outgoing connections.
const (
	apiServerPort   = 6443
	webhookPort     = 9443
	healthPort      = 9540
	diagnosticsPort = 9640
	childPort       = 10500
	lastPort        = 18999
)

// Names of a stock manager's ports in its status.
const (
	portWebhook     = "webhook"
	portHealth      = "health"
	portDiagnostics = "diagnostics"
)

// placement is who stands in a stock manager's place.
type placement int

const (
	placeStock placement = iota
	placeReplaced
	placeEmpty
)

func computePlacement(config Config, manager string) placement {
	for _, child := range config.Children {
		if child.Replaces == manager {
			return placeReplaced
		}
	}
	if slices.Contains(config.Without, manager) {
		return placeEmpty
	}
	return placeStock
}

// picker hands out ports. It is safe for concurrent use.
type picker struct {
	mu   sync.Mutex
	used map[uint16]bool
	// free reports whether a port could be listened on.
	free func(port uint16) bool
}

// pick returns the first port from first on that is free and was not handed out.
func (p *picker) pick(first uint16) (uint16, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for port := first; port <= lastPort; port++ {
		if !p.used[port] && p.free(port) {
			p.used[port] = true
			return port, nil
		}
	}
	return 0, fmt.Errorf("no port from %d to %d is free", first, lastPort)
}

// portFree tries all interfaces, because some parts listen on all.
func portFree(port uint16) bool {
	listener, err := net.Listen("tcp", ":"+strconv.Itoa(int(port))) //nolint:noctx // for a moment, to learn whether a part could; nothing to wait for
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// managerPorts picks a manager's ports.
func (p *picker) managerPorts() (map[string]uint16, error) {
	out := map[string]uint16{}
	for name, first := range map[string]uint16{portWebhook: webhookPort, portHealth: healthPort, portDiagnostics: diagnosticsPort} {
		port, err := p.pick(first)
		if err != nil {
			return nil, err
		}
		out[name] = port
	}
	return out, nil
}

// computeManager is the command of a stock manager.
func computeManager(m managerAssets, config Config, l layout, ports map[string]uint16) Child {
	c := Child{
		Name: m.Name,
		Path: filepath.Join(config.AssetsDir, binDir, m.Name),
		Args: []string{
			"--kubeconfig=" + l.clientKubeconfig(m.Name),
			"--leader-elect=false",
			"--webhook-port=" + strconv.Itoa(int(ports[portWebhook])),
			"--webhook-cert-dir=" + l.certDir(m.Name),
			"--health-addr=" + loopback(ports[portHealth]),
			"--diagnostics-address=" + loopback(ports[portDiagnostics]),
			"--insecure-diagnostics",
			"--v=" + strconv.Itoa(config.LogLevel),
		},
		Ready:   Readiness{URL: "http://" + loopback(ports[portHealth]) + "/readyz"},
		Restart: config.Restart,
	}
	if gates := computeGates(m.FeatureGates, config.FeatureGates); gates != "" {
		c.Args = append(c.Args, "--feature-gates="+gates)
	}
	if m.Name == InMemoryManager {
		c.Env = []string{
			// Where workload clusters' API servers are reached.
			"POD_IP=" + endpointHost(config.BindAddress),
			// The provider connects to Docker when it can, for its other kinds. A plane has no business with the user's containers.
			"DOCKER_HOST=unix:///nonexistent/docker.sock",
		}
	}
	return c
}

// computeGates renders the gates that a manager knows, sorted.
func computeGates(known []string, wanted map[string]bool) string {
	var gates []string
	for _, gate := range slices.Sorted(maps.Keys(wanted)) {
		if slices.Contains(known, gate) {
			gates = append(gates, gate+"="+strconv.FormatBool(wanted[gate]))
		}
	}
	return strings.Join(gates, ",")
}

// computeAPIServer is the command of the API server. gogc is its GOGC, which trades memory for CPU
// time; empty for the default.
func computeAPIServer(config Config, l layout, port uint16, gogc string) Child {
	server := Child{
		Name: APIServer,
		Path: filepath.Join(config.AssetsDir, binDir, APIServer),
		Args: []string{
			"--data-dir=" + l.apiServer(),
			"--bind-address=" + config.BindAddress.String(),
			"--secure-port=" + strconv.Itoa(int(port)),
			"--client-ca-file=" + l.ca(),
			"--tls-cert-file=" + filepath.Join(l.certDir(APIServer), certFile),
			"--tls-private-key-file=" + filepath.Join(l.certDir(APIServer), keyFile),
			"--service-account-key-file=" + filepath.Join(l.certDir(APIServer), serviceAccountFile),
			"--controllers-kubeconfig=" + l.clientKubeconfig(APIServer),
		},
		// The default is half of Go's: a fifth more CPU, half the memory with many objects.
		Env:     []string{"GOGC=" + cmp.Or(gogc, "50")},
		Ready:   Readiness{URL: "https://" + endpoint(config.BindAddress, port) + "/readyz"},
		Restart: config.Restart,
	}
	if config.AdmissionConfig != "" {
		server.Args = append(server.Args, "--admission-control-config-file="+config.AdmissionConfig)
	}
	return server
}

// endpointHost is an address at which a server bound to bind is reached.
func endpointHost(bind netip.Addr) string {
	if !bind.IsValid() || bind.IsUnspecified() {
		return "127.0.0.1"
	}
	return bind.String()
}

func endpoint(bind netip.Addr, port uint16) string {
	return net.JoinHostPort(endpointHost(bind), strconv.Itoa(int(port)))
}

func loopback(port uint16) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))) }

// computeNames lists the names in serving certificates, each once.
func computeNames(config Config) []string {
	names := []string{"127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if host := endpointHost(config.BindAddress); !slices.Contains(names, host) {
		names = append(names, host)
	}
	if config.Veth != nil {
		names = append(names, config.Veth.Address.Addr().String())
	}
	for _, name := range config.CertificateNames {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
