package linuxhost

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/pkg/version"
)

// TestEndOfAJobIsSynced: a job that has an exit code after a power cut has a time of its end, too.
func TestEndOfAJobIsSynced(t *testing.T) {
	t.Parallel()
	h := newFolderHost(t, map[string]string{
		StateFolder + "/job/id": "x\n", StateFolder + "/job/run": "exit 3\n",
	}, map[string]string{
		"sync": `for file; do echo "${file##*/} $(<"$file")"; done >>"${0%/*}/log"` + "\n",
	})
	wrap := render("wrap", value{"STATE", StateFolder}, value{"LIMIT", "10"})
	if printed, exit := h.run(t, wrap); exit != 0 {
		t.Fatal(exit, printed)
	}
	log, err := os.ReadFile(h.root + "/bin/log")
	if !regexp.MustCompile(`^ended [0-9]+\nexit.new 3\n$`).Match(log) {
		t.Errorf("%v; synced: %q", err, log)
	}
}

// TestFactsOfAJobThatEnds: what a job leaves is known with its end, also if it ends while the facts are
// read. Otherwise a service that does not stay up would be a failure of the restart, and nothing
// would be put back.
func TestFactsOfAJobThatEnds(t *testing.T) {
	t.Parallel()
	h := newFolderHost(t, nil, map[string]string{
		// The job ends when it is asked whether it runs.
		"flock": `cd "${0%/*}/..` + StateFolder + `" || exit
echo 1 >job/exit
echo 'windlass-reason ServiceNotStarted: it ends' >job/out
mkdir -p keep/node && touch keep/not-started && echo 'k3s version v1.35.4+k3s1' >keep/node/version && touch keep/node/digest
`,
		"k3s":       "echo k3s version v1.36.3+k3s1\n",
		"systemctl": "",
	})
	h.goal.Distribution, h.goal.Version = K3s, version.MustParse("v1.36.3+k3s1")
	h.write(t, StateFolder+"/job/id", h.goal.Operation()+" restart first "+h.goal.Manifest()+"\n", 0o600)
	h.write(t, StateFolder+"/op/"+h.goal.Operation()+"/mark", "", 0o600)
	facts := h.facts(t)
	if facts.Job.State != JobEnded || !facts.NotStarted || facts.Kept.IsZero() {
		t.Errorf("the job is %q, not-started is %t, and %s is kept", facts.Job.State, facts.NotStarted, facts.Kept)
	}
	if f := FailureOf(facts.Job); f.Reason != ServiceNotStarted {
		t.Errorf("the job failed with %s", f)
	}
}

// TestStartAfterAnUnknownEnd: a job begins although the end of another upgrade's job has no time.
func TestStartAfterAnUnknownEnd(t *testing.T) {
	t.Parallel()
	h := newFolderHost(t, map[string]string{
		StateFolder + "/job/id":   "v1.35.4-0 restart 1 x\n",
		StateFolder + "/job/exit": "0\n", StateFolder + "/job/ended": "",
	}, map[string]string{"systemd-run": `echo 1 >"$(dirname "${!#}")/pid"` + "\n"})
	start := StartScript(h.goal, Restart, "2", "", Run{Script: "true\n", Limit: commandLimit})
	if printed, exit := h.run(t, start); exit != 0 || printed != "" {
		t.Errorf("it exits with %d and %q", exit, printed)
	}
	want := h.goal.Operation() + " restart 2 " + h.goal.Manifest() + "\n"
	if id, err := os.ReadFile(h.root + StateFolder + "/job/id"); string(id) != want {
		t.Errorf("%v; the job is %q, want %q", err, id, want)
	}
}

// TestStartWaitsForAnotherUpgrade: an upgrade to something else that waits for its node after a
// restart is at work, as long as its node may take, although it runs no job.
func TestStartWaitsForAnotherUpgrade(t *testing.T) {
	t.Parallel()
	slow := 20 * time.Minute
	for name, test := range map[string]struct {
		step        Name
		readyWithin time.Duration
		ago         time.Duration
		want        int
	}{
		"between two steps":         {KubeadmUpgrade, 0, 30 * time.Second, StartBusy},
		"nobody continues it":       {KubeadmUpgrade, 0, 2 * time.Minute, 0},
		"it waits for its node":     {Restart, 0, 5 * time.Minute, StartBusy},
		"for longer than by itself": {Restart, slow, slow, StartBusy},
		"not any longer":            {Restart, 0, 7 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFolderHost(t, nil, map[string]string{
				"systemd-run": `echo 1 >"$(dirname "${!#}")/pid"` + "\n",
			})
			other := h.goal
			other.KubeletArgs, other.ReadyWithin = []Arg{{Name: "max-pods", Value: "50"}}, test.readyWithin
			run := Run{Script: "true\n", Limit: commandLimit}
			if printed, exit := h.run(t, StartScript(other, test.step, "1", "", run)); exit != 0 {
				t.Fatal(exit, printed)
			}
			ended := fmt.Sprintln(time.Now().Add(-test.ago).Unix())
			h.write(t, StateFolder+"/job/ended", ended, 0o600)
			h.write(t, StateFolder+"/job/exit", "0\n", 0o600)
			printed, exit := h.run(t, StartScript(h.goal, KubeadmUpgrade, "2", "", run))
			if exit != test.want {
				t.Errorf("it exits with %d and %q, want %d", exit, printed, test.want)
			}
			if message := "its step " + string(test.step) + " ended "; test.want != 0 &&
				!strings.Contains(printed, message) {
				t.Errorf("it prints %q, want %q", printed, message)
			}
		})
	}
}

// TestStartAfterAnOlderJob: the job of an earlier version of Windlass has no time for which its
// upgrade counts as at work. It is a minute.
func TestStartAfterAnOlderJob(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ago  time.Duration
		want int
	}{{30 * time.Second, StartBusy}, {2 * time.Minute, 0}} {
		h := newFolderHost(t, map[string]string{
			StateFolder + "/job/id":    "v1.35.4-0 restart 1 x\n",
			StateFolder + "/job/exit":  "0\n",
			StateFolder + "/job/ended": fmt.Sprintln(time.Now().Add(-test.ago).Unix()),
		}, map[string]string{"systemd-run": `echo 1 >"$(dirname "${!#}")/pid"` + "\n"})
		start := StartScript(h.goal, Restart, "2", "", Run{Script: "true\n", Limit: commandLimit})
		if printed, exit := h.run(t, start); exit != test.want {
			t.Errorf("%s after its end, it exits with %d and %q, want %d",
				test.ago, exit, printed, test.want)
		}
	}
}

// TestJobsAfterAnOOMKill: systemd does not end a job of which the kernel kills a process, so that its
// exit code is known. A systemd that does not know the property starts the job without it.
func TestJobsAfterAnOOMKill(t *testing.T) {
	t.Parallel()
	const starts = `echo 1 >"$(dirname "${!#}")/pid"` + "\n"
	for name, test := range map[string]struct {
		refuses string
		want    string
	}{
		"systemd 243": {want: "OOMPolicy=continue\n"},
		"systemd 242": {refuses: "[ -z \"$policy\" ] || exit 1\n", want: "OOMPolicy=continue\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFolderHost(t, nil, map[string]string{
				"systemd-run": `policy=$(grep -o 'OOMPolicy=[a-z]*' <<<"$*"); echo "$policy" >>"${0%/*}/log"` +
					"\n" + test.refuses + starts,
			})
			start := StartScript(h.goal, Restart, "1", "", Run{Script: "true\n", Limit: commandLimit})
			if printed, exit := h.run(t, start); exit != 0 || printed != "" {
				t.Errorf("it exits with %d and %q", exit, printed)
			}
			if log, err := os.ReadFile(h.root + "/bin/log"); string(log) != test.want {
				t.Errorf("%v; the properties are %q, want %q", err, log, test.want)
			}
		})
	}
}

// TestJobsPrintEnglish: FailureOf knows messages of the system in English, whatever the locale of
// the host is. The user's commands do not get that locale.
func TestJobsPrintEnglish(t *testing.T) {
	t.Parallel()
	h := newFolderHost(t, map[string]string{
		StateFolder + "/job/id": "x\n", StateFolder + "/job/run": `echo "$LC_ALL"` + "\n",
	}, nil)
	wrap := render("wrap", value{"STATE", StateFolder}, value{"LIMIT", "10"})
	if printed, exit := h.run(t, "export LC_ALL=de_DE.UTF-8\n"+wrap); exit != 0 {
		t.Fatal(exit, printed)
	}
	if out, err := os.ReadFile(h.root + StateFolder + "/job/out"); string(out) != "C\n" {
		t.Errorf("%v; the locale of a job is %q", err, out)
	}
	action, _ := commandsStep(h.goal, BeforeCommands, []string{`echo "${LC_ALL-none}"`}).Action.(Run)
	if out, exit := h.run(t, "export LC_ALL=C\n"+action.Script); exit != 0 || out != "none\n" {
		t.Errorf("a command exits with %d, and prints %q", exit, out)
	}
}
