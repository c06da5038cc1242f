package devplane

import (
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const tail = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21"
	for name, in := range map[string]string{
		"plain":                  "12 (sleep)" + tail,
		"parentheses and spaces": "12 (a) R 9 (b c))" + tail,
	} {
		want := processStat{start: "4242", state: "S", cpu: 230 * time.Millisecond}
		if got, ok := parseStat([]byte(in)); !ok || got != want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, ok, want)
		}
	}
	for _, in := range []string{"", "12 sleep S", "12 (sleep) S 1 2", "12 (sleep)" + strings.Replace(tail, " 11 ", " x ", 1)} {
		if _, ok := parseStat([]byte(in)); ok {
			t.Errorf("parseStat(%q) succeeded", in)
		}
	}
}

func TestParseProcessStatus(t *testing.T) {
	t.Parallel()
	got, ok := parseProcessStatus("Name:\ta: b\nPid:\t812\nPPid:\t7\nNSpid:\t812\t40\t3\nVmHWM:\t  3072 kB\nVmRSS:\t  2048 kB\n")
	if want := (processStatus{pid: 812, parent: 7, innermost: 3, residentBytes: 2 << 20, peakBytes: 3 << 20}); !ok || got != want {
		t.Errorf("status is %+v, %v, want %+v", got, ok, want)
	}
	if _, ok := parseProcessStatus("Name:\tkthread\n"); ok {
		t.Error("a status without ids was accepted")
	}
}
