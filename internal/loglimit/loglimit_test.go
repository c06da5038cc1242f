package loglimit_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/loglimit"
	"github.com/windlass-dev/windlass/test/loopback"
)

// TestLimit counts lines of two kinds about several tenants. A minute later, the next line tells how
// many were left out.
func TestLimit(t *testing.T) {
	t.Parallel()
	now, lines := time.Unix(1000, 0), []string{}
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	limit := loglimit.New(func() time.Time { return now }, 4, 2)
	write := func(tenants int) {
		for i := range 100 {
			tenant := fmt.Sprintf("tenant-%d", i%tenants)
			limit.Limit(logger, tenant).WithValues("tenant", tenant).Info("refused")
		}
	}
	write(1)
	limit.Limit(logger, "tenant-0").WithName("x").Error(errors.New("away"), "failed")
	write(50)
	now = now.Add(time.Minute)
	write(1)
	// A clock that goes back begins a period.
	now = now.Add(-time.Hour)
	write(1)
	want := []string{
		`"level"=0 "msg"="refused" "tenant"="tenant-0"`, `"level"=0 "msg"="refused" "tenant"="tenant-0"`,
		`"msg"="failed" "error"="away"`,
		`"level"=0 "msg"="refused" "tenant"="tenant-1" "omittedBefore"=99`,
		`"level"=0 "msg"="refused" "tenant"="tenant-2"`,
		`"level"=0 "msg"="refused" "tenant"="tenant-0" "omittedBefore"=97`,
		`"level"=0 "msg"="refused" "tenant"="tenant-0"`,
		`"level"=0 "msg"="refused" "tenant"="tenant-0" "omittedBefore"=98`,
		`"level"=0 "msg"="refused" "tenant"="tenant-0"`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// TestKindsAreBounded writes lines of more kinds than have counts of their own.
func TestKindsAreBounded(t *testing.T) {
	t.Parallel()
	count := 0
	logger := funcr.New(func(string, string) { count++ }, funcr.Options{})
	limit := loglimit.New(time.Now, 1, 1)
	for i := range 10_000 {
		limit.Limit(logger, "").Info(fmt.Sprint("kind ", i))
	}
	if count > 101 {
		t.Errorf("%d lines", count)
	}
}

// TestStandard has many callers break connections to a server.
func TestStandard(t *testing.T) {
	t.Parallel()
	const connections, most = 50, 3
	lines := make(chan string, connections)
	logger := funcr.New(func(_, args string) { lines <- args }, funcr.Options{})
	authority := loopback.NewAuthority(t, "serving")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		TLSConfig: authority.Server(t), ReadHeaderTimeout: time.Minute,
		ErrorLog: loglimit.New(time.Now, most, most).Standard(logger, "test"),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	for range connections {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(connection, "this is no TLS\r\n\r\n")
		_, _ = io.Copy(io.Discard, connection) // The server reports the error before it closes.
		_ = connection.Close()
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	if len(lines) != most {
		t.Errorf("%d broken connections cause %d lines, want %d", connections, len(lines), most)
	}
	if line := <-lines; !strings.Contains(line, "TLS handshake error") || !strings.Contains(line, `"server"="test"`) {
		t.Errorf("the line is %s", line)
	}
}
