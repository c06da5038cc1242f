package kube_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/pkg/version"
)

// samples is how many settings of each component are tried.
const samples = 25

// TestOracle starts the real components with settings, some of which they lack. A component ends with
// an error about a setting if and only if the catalog says so.
//
// It is not parallel, because TestBuild removes the kubelet for a moment.
func TestOracle(t *testing.T) {
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to compile Kubernetes")
	}
	minors := []version.Minor{settings.Newest()}
	if os.Getenv("WINDLASS_LONG") == "1" {
		minors = append(minors, version.Minor{Major: 1, Minor: 35}, version.Minor{Major: 1, Minor: 34})
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, minor := range minors {
		release, err := kube.BuildRelease(t.Context(), repository, minor)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []settings.Component{
			settings.APIServer, settings.ControllerManager, settings.Scheduler, settings.Kubelet,
		} {
			compareHelp(t, release, c)
			refused := 0
			for _, arg := range sample(random, c, minor) {
				if tryArg(t, release, c, arg) {
					refused++
				}
			}
			if refused < 2 || refused == samples {
				t.Errorf("%s %s refuses %d of %d settings, so little was compared",
					c, minor, refused, samples)
			}
		}
	}
}

// compareHelp compares the flags that a component explains with those of the catalog. The catalog has
// more: some are hidden, and some are of Windows.
func compareHelp(t *testing.T, release kube.Release, c settings.Component) {
	t.Helper()
	out, err := component(t.Context(), release, c, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("asking %s %s for help: %v: %s", c, release.Version, err, out)
	}
	known := settings.BuiltIn().Lines(c, release.Version.Minor().Minor)
	flags := flagInHelp.FindAllStringSubmatch(string(out), -1)
	if len(flags) < 40 {
		t.Errorf("%s %s explains %d flags, so little was compared", c, release.Version, len(flags))
	}
	for _, match := range flags {
		name := strings.ReplaceAll(match[1], "_", "-")
		if !slices.Contains(known, "flag "+name) {
			t.Errorf("%s %s has the flag --%s, and the catalog does not", c, release.Version, name)
		}
	}
}

// component returns the command of a component. It ends soon, so nothing is gained by collecting
// garbage: the start of one costs a third less without.
func component(
	ctx context.Context, release kube.Release, c settings.Component, args ...string,
) *exec.Cmd {
	cmd := exec.CommandContext(ctx, release.Hyperkube, args...)
	cmd.Args[0] = string(c)
	if c == settings.Kubelet {
		cmd = exec.CommandContext(ctx, release.Kubelet, args...)
	}
	cmd.Env = append(os.Environ(), "GOGC=off")
	return cmd
}

var flagInHelp = regexp.MustCompile(`(?m)^ +(?:-., )?--([A-Za-z0-9_-]+)`)

// sample returns arguments of a component: settings of any minor, and gates that nobody knows.
func sample(random *rand.Rand, c settings.Component, minor version.Minor) []settings.Arg {
	var lines []string
	for m := settings.Oldest().Minor; m <= settings.Newest().Minor; m++ {
		lines = append(lines, settings.BuiltIn().Lines(c, m)...)
	}
	// The catalog has flags of Windows, which the components of this machine do not have.
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "flag windows-")
	})
	slices.Sort(lines)
	lines = slices.Compact(lines)
	known := settings.BuiltIn().Lines(c, minor.Minor)
	isGone := func(line string) bool { return !slices.Contains(known, line) }
	args := []settings.Arg{
		{Name: "feature-gates", Value: "NoSuchGate=true"}, {Name: "no-such-flag"},
		{Name: "feature-gates", Value: "UserNamespacesPodSecurityStandards=true"},
		{Name: "feature-gates", Value: "GracefulNodeShutdown=false"},
		{Name: "feature-gates", Value: "GangScheduling=true"},
	}
	for len(args) < samples {
		line := lines[random.IntN(len(lines))]
		fields := strings.Fields(line)
		// Half of them are what the minor does not have.
		if len(args)%2 == 0 && !isGone(line) {
			continue
		}
		switch fields[0] {
		case "field", "needs":
		case "flag":
			if fields[1] == "feature-gates" {
				continue
			}
			args = append(args, settings.Arg{Name: fields[1]})
		case "gate":
			value := fmt.Sprintf("%s=%t", fields[1], random.IntN(2) == 0)
			args = append(args, settings.Arg{Name: "feature-gates", Value: value})
		}
	}
	return args
}

// tryArg starts a component with an argument, and reports whether it refuses it. The test fails if the
// catalog says otherwise.
func tryArg(t *testing.T, release kube.Release, c settings.Component, arg settings.Arg) bool {
	t.Helper()
	uses := settings.FromArgs(settings.Place{}, c, []settings.Arg{arg})
	want := len(settings.Check(settings.Upgrade{To: release.Version}, uses)) > 0
	word := "--" + arg.Name
	if arg.Value != "" {
		word += "=" + arg.Value
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// --version ends a component that accepts its arguments. A flag comes last, so one that needs a
	// value has none, and ends the component with another error.
	first := "--version"
	if c == settings.Kubelet {
		// It checks its number of Pods after its gates.
		first = "--max-pods=-1"
	}
	cmd := component(ctx, release, c, first, word)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("starting %s %s: %v", c, release.Version, err)
	}
	text := string(out)
	got := strings.Contains(text, "unknown flag: "+word)
	if arg.Name == "feature-gates" {
		got = err != nil
	}
	if c == settings.Kubelet && arg.Name == "feature-gates" {
		got = strings.Contains(text, "setting feature gates")
	}
	if got != want {
		t.Errorf("%s %s with %s: refused is %t, the catalog says %t:\n%s",
			c, release.Version, word, got, want, text)
	}
	return got
}
