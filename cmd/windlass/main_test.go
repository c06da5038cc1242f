package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/test/apiserver"
	"github.com/windlass-dev/windlass/test/scripts"
)

// TestMain makes the test binary behave as windlass when a script calls it by that name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"windlass": main, "kubectl-windlass": main, "connect-and-log": connectAndLog, "knows-roots": knowsRoots})
}

// connectAndLog is what a command does that has controller-runtime log something.
func connectAndLog() {
	if _, _, err := management.Connect(cli.NewKubeFlags()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(int(cli.ExitFailure))
	}
	ctrl.Log.Error(errors.New("the watch broke"), "Watching")
	klog.Flush()
}

// TestScripts runs the command line as users do. Beside the usual commands scripts have:
//
//	exits CODE COMMAND ARGS...   runs a command that must exit with that code
//	apiserver FOLDER KUBECONFIG  serves the objects in a folder's YAML files, and writes a kubeconfig for it
//	jsonkeys FILE KEY...         checks which keys the top level of a JSON document has
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("WINDLASS_UPDATE") != "",
		Setup: func(env *testscript.Env) error {
			// Neither a kubeconfig nor a service account of the machine may reach a script.
			env.Setenv("KUBECONFIG", filepath.Join(env.WorkDir, "no-kubeconfig"))
			env.Setenv("KUBERNETES_SERVICE_HOST", "")
			samples, err := filepath.Abs(filepath.Join("..", "..", "config", "samples"))
			env.Setenv("SAMPLES", samples)
			env.Setenv("DOCS", filepath.Join(samples, "..", "..", "docs"))
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": scripts.Exits, "apiserver": cmdAPIServer, "jsonkeys": cmdJSONKeys,
		},
	})
}

func cmdJSONKeys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: jsonkeys FILE KEY...")
	}
	var document map[string]json.RawMessage
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &document))
	got := make([]string, 0, len(document))
	for key := range document {
		got = append(got, key)
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(args[1:])); !slices.Equal(got, want) {
		ts.Fatalf("%s has the keys %q, not %q", args[0], got, want)
	}
}

func cmdAPIServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: apiserver FOLDER KUBECONFIG")
	}
	folder, kubeconfig := ts.MkAbs(args[0]), ts.MkAbs(args[1])
	handler, err := apiserver.New(folder)
	ts.Check(err)
	server := httptest.NewServer(handler)
	ts.Defer(server.Close)
	ts.Defer(server.CloseClientConnections)
	ts.Check(os.WriteFile(kubeconfig, []byte(apiserver.Kubeconfig(server)), 0o600))
}

// TestHelpTexts checks that each help text lists exit codes once at most, and never by another name.
func TestHelpTexts(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if n := strings.Count(cmd.Long, "Exit codes:"); n > 1 || strings.Contains(strings.ToLower(cmd.Long), "exit status") {
			t.Errorf("%s --help lists exit codes %d times, or calls them exit status:\n%s", cmd.CommandPath(), n, cmd.Long)
		}
		for _, child := range cmd.Commands() {
			check(child)
		}
	}
	check(newRootCommand())
}
