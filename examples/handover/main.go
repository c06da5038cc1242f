// Command handover is a complete hand-over updater: it is offered a group of machines, chooses their order, and updates
// each one to another Kubernetes version by running a command. If a whole group is handed over, it also writes the
// machines' objects. Of Windlass it imports only api;
// docs/how-to/write-a-hand-over-updater.md explains the protocol.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
)

// options are the flags.
type options struct {
	bindAddress string
	port        int
	certDir     string
	kubeconfig  string
	inventory   string
	stateDir    string
	command     string
	holdFile    string
	anyChange   bool
}

func main() {
	var o options
	flag.StringVar(&o.bindAddress, "bind-address", "127.0.0.1", "address to serve on")
	flag.IntVar(&o.port, "port", 9443, "port to serve on")
	flag.StringVar(&o.certDir, "cert-dir", "certs", "folder with tls.crt and tls.key")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the management cluster (default: the Pod's service account)")
	flag.StringVar(&o.inventory, "inventory", "inventory.json",
		`file with the machines in the order of their updates, as in [{"machine": "default/worker-0", "host": "10.0.0.7"}]`)
	flag.StringVar(&o.stateDir, "state-dir", "state", "folder for what was handed over")
	flag.StringVar(&o.command, "command", "./update.sh", "program that updates a host; its arguments are the host and the version")
	flag.StringVar(&o.holdFile, "hold-file", "hold", "choose no machine while this file exists")
	flag.BoolVar(&o.anyChange, "any-change", false,
		"accept changes beyond the version; for whole groups the command reads the desired objects from its standard input")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "handover:", err)
		os.Exit(1)
	}
}

// machines are Cluster API's Machines.
var machines = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}

// run serves until ctx ends.
func run(ctx context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	u, err := newUpdater(ctx, o, config)
	if err != nil {
		return err
	}
	if err := u.resume(); err != nil { //nolint:contextcheck // The updater has it.
		return err
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(o.certDir, "tls.crt"), filepath.Join(o.certDir, "tls.key"))
	if err != nil {
		return fmt.Errorf("reading the serving certificate: %w", err)
	}
	server := &http.Server{
		Addr: net.JoinHostPort(o.bindAddress, strconv.Itoa(o.port)), Handler: u, ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	u.running.Wait()
	return nil
}

// newUpdater returns an updater that works until ctx ends.
func newUpdater(ctx context.Context, o options, config *rest.Config) (*updater, error) {
	content, err := os.ReadFile(o.inventory)
	if err != nil {
		return nil, fmt.Errorf("reading the inventory: %w", err)
	}
	u := &updater{work: ctx, options: o, jobs: map[string]*job{}, groups: map[string]*group{}, cancelled: map[string]bool{}}
	if err := json.Unmarshal(content, &u.inventory); err != nil {
		return nil, fmt.Errorf("reading the inventory: %w", err)
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client of the management cluster: %w", err)
	}
	u.machines = client.Resource(machines)
	if u.objects, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("creating the client of the management cluster: %w", err)
	}
	if err := os.MkdirAll(o.stateDir, 0o750); err != nil {
		return nil, fmt.Errorf("making the state folder: %w", err)
	}
	return u, nil
}

// maxRequestBytes bounds a request.
const maxRequestBytes = 8 << 20

// ServeHTTP answers a request of Windlass. It never waits for the work.
func (u *updater) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := &updatesv1.HandOverRequest{}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBytes)).Decode(request); err != nil {
		http.Error(w, "the request is not the JSON of a HandOverRequest", http.StatusBadRequest)
		return
	}
	chosen, declined := u.answer(request) //nolint:contextcheck // The work outlives the request.
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(updatesv1.HandOverResponse{ // The caller may be gone.
		APIVersion: updatesv1.APIVersion, Kind: updatesv1.HandOverResponseKind,
		Accepted: declined == "", Reason: declined, Machines: chosen,
	})
}

// answer returns the machines that may begin, and why the request is declined; empty if it is accepted.
func (u *updater) answer(request *updatesv1.HandOverRequest) (chosen []updatesv1.ObjectName, declined string) {
	var err error
	switch request.Phase {
	case updatesv1.Offer:
		err = u.offer(request)
	case updatesv1.Choose:
		chosen, err = u.choose(request)
	case updatesv1.Start:
		err = u.start(request)
	case updatesv1.HandOver:
		err = u.take(request)
	case updatesv1.Cancel:
		err = u.cancel(request.OperationID, request.Reason)
	default:
		err = fmt.Errorf("the phase %q is unknown", request.Phase)
	}
	if err != nil {
		return nil, err.Error()
	}
	return chosen, ""
}
