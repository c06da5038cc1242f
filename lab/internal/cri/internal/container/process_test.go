//go:build linux

package container

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestANumberThatIsUsedAgain(t *testing.T) {
	self, err := nameProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	self.Ticks++
	if _, err := self.open(); !errors.Is(err, unix.ESRCH) {
		t.Errorf("another process was opened: %v", err)
	}
	if err := errors.Join(send(self, unix.SIGKILL), end(self, 0)); err != nil {
		t.Error(err)
	}
}

func TestParseStat(t *testing.T) {
	fields := make([]string, 0, 50)
	for i := 3; i < 53; i++ {
		fields = append(fields, strconv.Itoa(i))
	}
	got, err := parseStat("1 (a) b (c) " + strings.Join(fields, " "))
	want := stat{user: 14, system: 15, ticks: 22, pages: 24}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, broken := range []string{"", "1 (a) S 1", fmt.Sprint("1 (a) ", strings.Repeat("x ", 50))} {
		if _, err := parseStat(broken); err == nil {
			t.Errorf("%q was parsed", broken)
		}
	}
}
