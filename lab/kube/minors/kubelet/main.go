// Command kubelet is the kubelet of Kubernetes with nothing beneath it, for the hosts of tests. Flags, files, certificates and what
// it tells the API server are the real one's. In place of a container runtime, cgroups, mounts and cAdvisor there are the stand-ins
// with which Kubernetes tests itself, so pods count as running but nothing runs. The container runtime is part of the kubelet, unless the
// program also runs under the name containerd, which serves nothing else.
//
// With WINDLASS_KUBELET_PODS=real in its environment the kubelet runs pods: it uses the container runtime at its endpoint, mounts
// volumes, starts static pods, and serves at the host's addresses. Cgroups, cAdvisor and the OOM killer's priorities stay stand-ins.
//
// Every minor is built from this source: go.mod is that of the newest one, and vX.mod that of vX.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/record"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version/verflag"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	critest "k8s.io/cri-api/pkg/apis/testing"
	"k8s.io/cri-client/pkg/fake"
	"k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	cadvisor "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	"k8s.io/kubernetes/pkg/util/filesystem"
	"k8s.io/kubernetes/pkg/util/oom"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/mount-utils"
)

const (
	// podsVariable is the environment variable that is "real" for a kubelet that runs pods.
	podsVariable = "WINDLASS_KUBELET_PODS"
	// loopback is the only address that a kubelet without pods serves at.
	loopback        = "127.0.0.1"
	defaultEndpoint = "unix:///run/containerd/containerd.sock"
)

func main() {
	name, role := filepath.Base(os.Args[0]), run
	if name == "containerd" {
		role = serveRuntime
	}
	if err := role(genericapiserver.SetupSignalContext(), os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	server, err := parse(ctx, args)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	pods := os.Getenv(podsVariable) == "real"
	restrict(&server.KubeletConfiguration)
	if !pods {
		restrictPods(&server.KubeletConfiguration)
	}
	if err := apply(&server.KubeletConfiguration); err != nil {
		return err
	}
	deps, err := dependencies(ctx, server)
	if err != nil {
		return err
	}
	if pods {
		return app.Run(ctx, server, deps, feature.DefaultFeatureGate)
	}
	deps.Mounter = &mount.FakeMounter{}
	deps.Subpather = &subpath.FakeSubpath{}
	deps.HostUtil = hostutil.NewFakeHostUtil(nil)
	stop, err := startRuntime(ctx, server.ContainerRuntimeEndpoint)
	if err != nil {
		return err
	}
	defer stop()
	return app.Run(ctx, server, deps, feature.DefaultFeatureGate)
}

// parse reads the command line and the file of --config. What both set is taken from the command line.
func parse(ctx context.Context, args []string) (*options.KubeletServer, error) {
	server, err := options.NewKubeletServer()
	if err != nil {
		return nil, fmt.Errorf("making the default settings: %w", err)
	}
	set := newFlagSet(&server.KubeletFlags, &server.KubeletConfiguration)
	if err := set.Parse(args); err != nil {
		return nil, fmt.Errorf("parsing the flags: %w", err)
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("parsing the flags: unknown command %q", set.Arg(0))
	}
	verflag.PrintAndExitIfRequested()
	if err := options.ValidateKubeletFlags(&server.KubeletFlags); err != nil {
		return nil, fmt.Errorf("checking the flags: %w", err)
	}
	if server.KubeletConfigFile == "" {
		return server, nil
	}
	config, err := load(ctx, server.KubeletConfigFile)
	if err != nil {
		return nil, err
	}
	gates := maps.Clone(config.FeatureGates)
	// The second parse sets what flags say in the file's settings. Its other results are those of the first.
	again := newFlagSet(options.NewKubeletFlags(), config)
	again.SetOutput(io.Discard)
	if err := again.Parse(args); err != nil {
		return nil, fmt.Errorf("parsing the flags: %w", err)
	}
	maps.Copy(gates, config.FeatureGates)
	config.FeatureGates = gates
	server.KubeletConfiguration = *config
	return server, nil
}

func newFlagSet(flags *options.KubeletFlags, config *kubeletconfig.KubeletConfiguration) *pflag.FlagSet {
	set := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	flags.AddFlags(set)
	options.AddKubeletConfigFlags(set, config)
	options.AddGlobalFlags(set)
	return set
}

func load(ctx context.Context, name string) (*kubeletconfig.KubeletConfiguration, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("finding the configuration %s: %w", name, err)
	}
	loader, err := configfiles.NewFsLoader(&filesystem.DefaultFs{}, path)
	if err != nil {
		return nil, fmt.Errorf("loading the configuration %s: %w", path, err)
	}
	config, err := loader.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading the configuration %s: %w", path, err)
	}
	return config, nil
}

// restrict gives harmless values to settings of things that a host of a test does not have, or shares with its surroundings.
func restrict(config *kubeletconfig.KubeletConfiguration) {
	config.HealthzBindAddress, config.ReadOnlyPort = loopback, 0
	config.CgroupsPerQOS, config.EnforceNodeAllocatable = false, nil
	config.CgroupRoot, config.KubeletCgroups, config.SystemCgroups = "", "", ""
	config.KubeReservedCgroup, config.SystemReservedCgroup = "", ""
	config.FailSwapOn, config.FailCgroupV1, config.ProtectKernelDefaults = false, false, false
	config.MakeIPTablesUtilChains = false
	config.ShutdownGracePeriod.Duration, config.ShutdownGracePeriodCriticalPods.Duration = 0, 0
	config.ImageServiceEndpoint = ""
}

// restrictPods does the same for settings of pods, which do not run.
func restrictPods(config *kubeletconfig.KubeletConfiguration) {
	config.Address = loopback
	config.StaticPodPath, config.StaticPodURL = "", ""
}

// apply checks the settings, and makes feature gates and logs as they say.
func apply(config *kubeletconfig.KubeletConfiguration) error {
	if err := feature.DefaultMutableFeatureGate.SetFromMap(config.FeatureGates); err != nil {
		return fmt.Errorf("setting feature gates: %w", err)
	}
	logs.InitLogs()
	if err := logsapi.ValidateAndApplyAsField(&config.Logging, feature.DefaultFeatureGate, field.NewPath("logging")); err != nil {
		return fmt.Errorf("setting up logs: %w", err)
	}
	if err := validation.ValidateKubeletConfiguration(config, feature.DefaultFeatureGate); err != nil {
		return fmt.Errorf("checking the configuration: %w", err)
	}
	return nil
}

func dependencies(ctx context.Context, server *options.KubeletServer) (*kubelet.Dependencies, error) {
	deps, err := app.UnsecuredDependencies(ctx, server, feature.DefaultFeatureGate)
	if err != nil {
		return nil, fmt.Errorf("preparing the kubelet: %w", err)
	}
	deps.ContainerManager = cm.NewStubContainerManager()
	deps.CAdvisorInterface = &cadvisor.Fake{NodeName: server.HostnameOverride}
	deps.OOMAdjuster = oom.NewFakeOOMAdjuster()
	// With any other recorder the kubelet watches the kernel's log for processes that ran out of memory.
	deps.Recorder = &record.FakeRecorder{}
	return deps, nil
}

// startRuntime serves a container runtime at the endpoint, unless another process like this one does: see serveRuntime.
func startRuntime(ctx context.Context, endpoint string) (stop func(), err error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("looking for a container runtime at %s: %w", endpoint, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	version, err := cri.NewRuntimeServiceClient(conn).Version(ctx, &cri.VersionRequest{})
	if err == nil && version.RuntimeName != critest.FakeRuntimeName {
		return nil, fmt.Errorf("%s serves at %s: the pods of a real container runtime must not be touched, name another endpoint", version.RuntimeName, endpoint)
	}
	if err == nil {
		return func() {}, nil
	}
	server := fake.NewFakeRemoteRuntime()
	if err := server.Start(endpoint); err != nil {
		return nil, fmt.Errorf("starting the container runtime: %w", err)
	}
	return server.Stop, nil
}

// serveRuntime is all that the program does when its name is containerd: a runtime that outlives kubelets, as on a real host.
func serveRuntime(ctx context.Context, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("serving a container runtime: want at most one argument, its endpoint, not %q", args)
	}
	endpoint := defaultEndpoint
	if len(args) == 1 {
		endpoint = args[0]
	}
	stop, err := startRuntime(ctx, endpoint)
	if err != nil {
		return err
	}
	defer stop()
	<-ctx.Done()
	return nil
}
