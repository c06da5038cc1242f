//go:build linux

package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"

	"github.com/windlass-dev/windlass/lab/internal/cri/internal/container"
	"github.com/windlass-dev/windlass/lab/internal/cri/internal/images"
)

// Name is what the runtime calls itself.
const Name = "windlass-process"

// Options of a runtime. A zero field has the default of its comment.
type Options struct {
	// Socket is where the runtime serves: /run/containerd/containerd.sock.
	Socket string
	// Images is the folder in place of registries: /srv/windlass-images.
	Images string
	// State is the folder of sandboxes and containers, lost with the power: /run/windlass-cri.
	State string
	// Store is the folder of pulled images: /var/lib/windlass-cri.
	Store string
	// IP is the address of all pods: the first global IPv4 address of the host.
	IP string
	// Version of the runtime: dev.
	Version string
	// Log takes what fails: discarded.
	Log io.Writer
}

func (o Options) withDefaults() Options {
	o.Socket = cmp.Or(o.Socket, "/run/containerd/containerd.sock")
	o.Images = cmp.Or(o.Images, "/srv/windlass-images")
	o.State = cmp.Or(o.State, "/run/windlass-cri")
	o.Store = cmp.Or(o.Store, "/var/lib/windlass-cri")
	o.Version = cmp.Or(o.Version, "dev")
	if o.Log == nil {
		o.Log = io.Discard
	}
	return o
}

// RunChild must come first in the main function of a program that calls Serve: the program is also the
// shim of each container. If ok, the process was one, and must exit with the status.
func RunChild(args []string) (status int, ok bool) { return container.RunChild(args) }

// server implements both services. StartContainer is the only method that starts processes.
type server struct {
	runtime.UnimplementedRuntimeServiceServer
	runtime.UnimplementedImageServiceServer

	options Options
	images  *images.Store
	stream  streaming.Server

	mu         sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*containerRecord
}

// Serve serves until ctx ends. Containers outlive it. One process at a time may serve from a State.
func Serve(ctx context.Context, options Options) error {
	options = options.withDefaults()
	s := &server{
		options: options, sandboxes: map[string]*sandbox{}, containers: map[string]*containerRecord{},
	}
	lock, err := own(options.State)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if s.images, err = images.Open(options.Images, filepath.Join(options.Store, "images")); err != nil {
		return err
	}
	if err := s.load(); err != nil {
		return err
	}
	streams, err := s.startStreaming()
	if err != nil {
		return err
	}
	defer func() { _ = streams.Close() }()
	listener, err := listen(ctx, options.Socket)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(options.Log, nil))
	g := grpc.NewServer(grpc.UnaryInterceptor(logErrors(logger)))
	runtime.RegisterRuntimeServiceServer(g, s)
	runtime.RegisterImageServiceServer(g, s)
	stop := context.AfterFunc(ctx, g.Stop)
	defer stop()
	if err := notifyReady(ctx); err != nil {
		return err
	}
	logger.Info("serving", "socket", options.Socket, "sandboxes", len(s.sandboxes), "containers", len(s.containers))
	if err := g.Serve(listener); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving at %s: %w", options.Socket, err)
	}
	return nil
}

// own makes the folder of the state, and locks it for this process.
func own(state string) (*os.File, error) {
	for _, dir := range []string{"sandboxes", "containers"} {
		if err := os.MkdirAll(filepath.Join(state, dir), 0o700); err != nil {
			return nil, fmt.Errorf("making the folder of the state: %w", err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(state, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the state: %w", err)
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("another runtime serves from %s. Fix: stop it, or use another --state", state)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// listen takes the place of a socket that a killed runtime has left.
func listen(ctx context.Context, socket string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of the socket: %w", err)
	}
	if info, err := os.Lstat(socket); err == nil && info.Mode().Type() == os.ModeSocket {
		if err := os.Remove(socket); err != nil {
			return nil, fmt.Errorf("removing the old socket: %w", err)
		}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return listener, nil
}

// notifyReady tells systemd that clients can connect. The socket accepts before Serve begins.
func notifyReady(ctx context.Context) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	socket, err := new(net.Dialer).DialContext(ctx, "unixgram", path)
	if err == nil {
		_, err = io.WriteString(socket, "READY=1")
		err = errors.Join(err, socket.Close())
	}
	if err != nil {
		return fmt.Errorf("notifying systemd: %w", err)
	}
	return nil
}

func logErrors(logger *slog.Logger) grpc.UnaryServerInterceptor {
	return func(
		ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
	) (any, error) {
		response, err := handle(ctx, request)
		if err != nil {
			logger.Error("failed", "method", info.FullMethod, "error", err)
		}
		return response, err
	}
}

// startStreaming serves exec and port-forward to the kubelet of this host.
func (s *server) startStreaming() (*http.Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for streams: %w", err)
	}
	config := streaming.DefaultConfig
	config.BaseURL = &url.URL{Scheme: "http", Host: listener.Addr().String()}
	if s.stream, err = streaming.NewServer(config, streams{s}); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing streams: %w", err), listener.Close())
	}
	h := &http.Server{Handler: s.stream, ReadHeaderTimeout: time.Minute}
	go func() { _ = h.Serve(listener) }()
	return h, nil
}

// hostIP is the address of the pods; empty while the host has none.
func (s *server) hostIP() string {
	if s.options.IP != "" {
		return s.options.IP
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, address := range addresses {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	return ""
}
