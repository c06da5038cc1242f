package loglimit_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

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

// TestReviewWithLongTexts has a caller forge a review of which each text is long. Other values than
// texts are as long, and so is the text of an error that a sink does not print as text.
func TestReviewWithLongTexts(t *testing.T) {
	// Not parallel: it counts bytes.
	const most, each = 20 << 10, 4 << 20
	lines, long := []string{}, strings.Repeat("x", each)
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	webhook := &admission.Webhook{}
	loglimit.New(time.Now, 10, 10).Webhook(webhook)
	var request admission.Request
	request.UID, request.Namespace, request.Name = types.UID(long), long, long
	request.Resource = metav1.GroupVersionResource{Group: long, Version: long, Resource: long}
	request.UserInfo.Username = long
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	webhook.LogConstructor(logger, &request).Info("refused")
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > each/8 {
		t.Errorf("a line about a request takes %d bytes of memory", took)
	}
	limited := webhook.LogConstructor(logger, nil)
	type object struct{ Text, Other string }
	limited.WithValues("a", object{long, long}).Info("b", "c", &object{long, long}, "d", []string{long}, "e", []byte(long))
	limited.Error(verboseError{long}, "f", "g", verboseError{long})
	many := limited
	for range 20 {
		many = many.WithValues("a", long, "b", long)
	}
	many.WithName("n").Info(long, "c", long, "d", object{long, long})
	if len(lines) != 4 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		if len(line) > most {
			t.Errorf("a line has %d bytes: %.200s", len(line), line)
		}
	}
}

// verboseError has more to write than its text.
type verboseError struct{ Detail string }

func (verboseError) Error() string { return "short" }

func (v verboseError) MarshalLog() any { return v.Detail }

// TestSmallValues are written unchanged.
func TestSmallValues(t *testing.T) {
	t.Parallel()
	var line string
	logger := funcr.New(func(_, args string) { line = args }, funcr.Options{})
	loglimit.New(time.Now, 1, 1).Limit(logger, "").Info("a",
		"b", 1, "c", true, "d", nil, "e", 1.5, "f", "text", "g", types.NamespacedName{Namespace: "h", Name: "i"},
		"j", errors.New("k"), "l", (*net.IPNet)(nil))
	const want = `"level"=0 "msg"="a" "b"=1 "c"=true "d"=null "e"=1.5 "f"="text" "g"="h/i" "j"="k" "l"="<nil>"`
	if diff := cmp.Diff(want, line); diff != "" {
		t.Errorf("the line (-want +got):\n%s", diff)
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
