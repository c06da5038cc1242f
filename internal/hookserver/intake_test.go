package hookserver_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/internal/hookserver"
)

// reader is a server whose handler reads a body, and keeps it for a while.
type reader struct {
	caller http.Client

	mu sync.Mutex
	// now and most count the bytes of bodies in the handler, and canceled the requests that ended
	// before the handler did.
	now, most, canceled int
	// handled is called by the handler once it has read a body, if it is set.
	handled func(context.Context)
}

// count adds to what is in the handler.
func (r *reader) count(size, canceled int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now, r.canceled = r.now+size, r.canceled+canceled
	r.most = max(r.most, r.now)
}

// serveReader starts a reader whose handler takes a time for each request. It must be called in a
// synctest bubble: a request that takes no time there can take seconds on a busy machine.
func serveReader(t *testing.T, takes time.Duration) *reader {
	t.Helper()
	r := &reader{}
	handler := hookserver.NewIntake()(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Errorf("the handler reads %v", err)
		}
		r.count(len(body), 0)
		defer r.count(-len(body), 0)
		if r.handled != nil {
			r.handled(request.Context())
		}
		select {
		case <-time.After(takes):
		case <-request.Context().Done():
			r.count(0, 1)
		}
	}))
	ca := newAuthority(t)
	r.caller.Transport = serveInMemory(t, ca.Server(t), &tls.Config{RootCAs: ca.Pool()}, handler)
	return r
}

// send sends a body, of an unknown length where size is negative, and returns the status code.
func (r *reader) send(ctx context.Context, body io.Reader, size int64) (code int, retryAfter string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://127.0.0.1", body)
	if err != nil {
		return 0, "", err
	}
	request.ContentLength = size
	answer, err := r.caller.Do(request)
	if err != nil {
		return 0, "", err
	}
	return answer.StatusCode, answer.Header.Get("Retry-After"), answer.Body.Close()
}

// repeated is a text without end.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.text[r.at]
		r.at = (r.at + 1) % len(r.text)
	}
	return len(p), nil
}

// bodyOf returns a JSON object of so many bytes: the start, as much of the repeated text as there is
// room for, the end, and spaces.
func bodyOf(start, text, end string, size int64) io.Reader {
	count := (size - int64(len(start)+len(end))) / int64(len(text))
	filled := count * int64(len(text))
	return io.MultiReader(strings.NewReader(start), io.LimitReader(&repeated{text: text}, filled), strings.NewReader(end),
		io.LimitReader(&repeated{text: " "}, size-filled-int64(len(start)+len(end))))
}

// ofString, ofList and ofFields are bodies of a long string, of elements and of fields.
func ofString(text string, size int64) io.Reader   { return bodyOf(`{"a":"`, text, `"}`, size) }
func ofList(element string, size int64) io.Reader  { return bodyOf(`{"a":[`, element+",", `0]}`, size) }
func ofFields(field string, size int64) io.Reader  { return bodyOf(`{`, field+",", `"z":0}`, size) }
func unfinished(text string, size int64) io.Reader { return bodyOf(``, text, ``, size) }

func TestBodies(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for name, tt := range map[string]struct {
		body func(text string, size int64) io.Reader
		text string
		size int64
		want int
	}{
		"none":                             {unfinished, "x", 0, http.StatusOK},
		"small":                            {ofString, "x", 4 << 10, http.StatusOK},
		"as long as a part":                {ofString, "x", 16 << 10, http.StatusOK},
		"the largest of Cluster API":       {ofString, "x", 9 * mib, http.StatusOK},
		"larger":                           {ofString, "x", 9*mib + 1, http.StatusRequestEntityTooLarge},
		"much larger":                      {ofString, "x", 1 << 30, http.StatusRequestEntityTooLarge},
		"a Cluster with 80,000 values":     {ofFields, `"abcdefghij": 1`, 16 * 80_000, http.StatusOK},
		"values that become large structs": {ofList, "{}", 2 * mib, http.StatusRequestEntityTooLarge},
		"objects in objects":               {unfinished, `{"a":`, 600 << 10, http.StatusRequestEntityTooLarge},
		"objects in lists":                 {ofList, strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100), 1 * mib, http.StatusRequestEntityTooLarge},
		"the same in a string":             {ofString, `{},,\",,{},,,,,,,,,,,,,,,,,,,,,,,,,,`, 2 * mib, http.StatusOK},
	} {
		for how, size := range map[string]int64{"": tt.size, ", unknown length": -1} {
			synctest.Test(t, func(t *testing.T) {
				code, _, err := serveReader(t, 0).send(t.Context(), tt.body(tt.text, tt.size), size)
				if err != nil || code != tt.want {
					t.Errorf("%s%s: %d, %v, want %d", name, how, code, err, tt.want)
				}
			})
		}
	}
}

// TestOnlyJSON sends what the decoder of an admission webhook does not read as the JSON that the
// intake counts the values of.
func TestOnlyJSON(t *testing.T) {
	t.Parallel()
	review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"a"}}`
	// To a scan of JSON, everything after the comment is one string.
	yaml := "# \"\napiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest:\n  uid: a\n  object:\n    a: ["
	for name, tt := range map[string]struct {
		body    string
		handled int
	}{
		"JSON":                            {review, 1},
		"JSON after white space":          {" \r\n\t" + review + "\n", 1},
		"YAML whose values are uncounted": {yaml + strings.Repeat("0,", 1<<20) + "0]\n", 0},
		"YAML":                            {strings.TrimPrefix(yaml, "# \"\n") + "]", 0},
		"YAML that begins as JSON does":   {strings.ReplaceAll(review, `"request"`, `request`), 0},
		"YAML after JSON":                 {review + "\n# \"\n---\na: [0,0]", 0},
		"JSON after a comment":            {"#\n" + review, 0},
		"JSON after a byte order mark":    {"\ufeff" + review, 0},
		"JSON after other white space":    {"\u00a0" + review, 0},
		"protobuf":                        {"k8s\x00" + review, 0},
		"a list":                          {"[" + review + "]", 0},
		"a string":                        {`"` + yaml[4:20] + `"`, 0},
		"two objects":                     {review + review, 0},
		"half of an object":               {review[:len(review)-1], 0},
		"white space":                     {" \n", 0},
		"nothing":                         {"", 0},
	} {
		handled := 0
		hook := &admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
			handled++
			return admission.Allowed("")
		})}
		code := admit(t, hook, tt.body)
		want := http.StatusBadRequest
		if tt.handled > 0 || tt.body == "" { // The webhook refuses an empty body itself, in its answer.
			want = http.StatusOK
		}
		if handled != tt.handled || code != want {
			t.Errorf("%s: handled %d times, want %d; the answer is %d, want %d", name, handled, tt.handled, code, want)
		}
	}
}

// admit sends a body to a webhook behind the intake.
func admit(t *testing.T, hook *admission.Webhook, body string) (code int) {
	t.Helper()
	server := httptest.NewServer(hookserver.NewIntake()(hook))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// TestRegister checks that handlers of a server get no longer body.
func TestRegister(t *testing.T) {
	t.Parallel()
	ca, dir := newAuthority(t), t.TempDir()
	writeFile(t, filepath.Join(dir, clientCAFile), ca.PEM)
	for name, want := range map[string]int{"": http.StatusRequestEntityTooLarge, clientCAFile: http.StatusForbidden} {
		server, err := hookserver.NewTLSServer(hookserver.Endpoint{Port: 1, CertDir: dir, ClientCAName: name})
		if err != nil {
			t.Fatal(err)
		}
		server.Register("/", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was handled") }))
		answer, request := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		request.ContentLength = 9<<20 + 1
		server.WebhookMux().ServeHTTP(answer, request)
		if answer.Code != want {
			t.Errorf("with the client CA %q: %d, want %d", name, answer.Code, want)
		}
	}
}

// Many large bodies at once are not all read. The callers are told when to come again, and then are
// served.
func TestManyBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testManyBodies)
}

func testManyBodies(t *testing.T) {
	const callers, size, most = 24, 3 << 20, 16 << 20
	r := serveReader(t, 100*time.Millisecond)
	var refused atomic.Int64
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			for {
				code, retryAfter, err := r.send(t.Context(), ofString("x", size), size)
				if err == nil && code == http.StatusOK {
					return
				}
				if err != nil || code != http.StatusServiceUnavailable || retryAfter != "1" {
					t.Errorf("%d, %q, %v", code, retryAfter, err)
					return
				}
				refused.Add(1)
				<-time.After(time.Second)
			}
		})
	}
	wait.Wait()
	if refused.Load() == 0 || r.most > most {
		t.Errorf("callers were refused %d times, and the handler had %d bytes at once", refused.Load(), r.most)
	}
}

// TestLargeBodiesThatWait has a tenant send Machines with many annotations through the API server,
// to a handler that waits. The ones of others are served.
func TestLargeBodiesThatWait(t *testing.T) {
	t.Parallel()
	for name, parsed := range map[string]bool{"parsed": true, "not parsed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testLargeBodies(t, parsed) })
		})
	}
}

func testLargeBodies(t *testing.T, parsed bool) {
	t.Helper()
	const large = 40
	honest := 100
	r := serveReader(t, 0)
	waits := make(chan struct{})
	r.handled = func(context.Context) { <-waits }
	if parsed {
		honest = 300
		r.handled = func(ctx context.Context) {
			hookserver.ReleaseParsed(ctx)
			<-waits
		}
	}
	var wait sync.WaitGroup
	var refused atomic.Int64
	send := func(field string, size int64) {
		wait.Go(func() {
			code, _, err := r.send(t.Context(), ofFields(field, size), size)
			if err != nil || code != http.StatusOK {
				refused.Add(1)
			}
		})
		synctest.Wait()
	}
	for range large {
		// 40,000 annotations have 200 kB, which the API server allows.
		send(`"00001":""`, 440_000)
	}
	if got, want := refused.Swap(0), map[bool]int64{true: 0, false: large - 2}[parsed]; got != want {
		t.Fatalf("%d large requests were refused, want %d", got, want)
	}
	for range honest {
		send(`"f:field-of-a-machine-001":{}`, 9000)
	}
	close(waits)
	wait.Wait()
	if n := refused.Load(); n != 0 {
		t.Errorf("%d honest requests were refused", n)
	}
}

// Callers that send nothing take all the room there is, and lose it after 10 s.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testSlowBodies)
}

func testSlowBodies(t *testing.T) {
	const slow = 1100
	r := serveReader(t, 0)
	var wait sync.WaitGroup
	var refused, timedOut atomic.Int64
	for range slow {
		body, sender := io.Pipe()
		t.Cleanup(func() { _ = sender.Close() })
		wait.Go(func() {
			code, _, err := r.send(t.Context(), body, 1<<20)
			switch {
			case err != nil:
				t.Errorf("a slow caller ends with %v", err)
			case code == http.StatusServiceUnavailable:
				refused.Add(1)
			case code == http.StatusRequestTimeout:
				timedOut.Add(1)
			}
		})
	}
	check := func(when string, want int) {
		t.Helper()
		synctest.Wait()
		code, _, err := r.send(t.Context(), strings.NewReader("{}"), 2)
		if err != nil || code != want {
			t.Errorf("%s the answer is %d, %v, want %d", when, code, err, want)
		}
	}
	check("without room", http.StatusServiceUnavailable)
	<-time.After(9 * time.Second)
	check("after 9 s", http.StatusServiceUnavailable)
	<-time.After(time.Second)
	check("after 10 s", http.StatusOK)
	wait.Wait()
	if timedOut.Load() == 0 || refused.Load() == 0 || timedOut.Load()+refused.Load() != slow {
		t.Errorf("of %d slow callers %d were refused, %d took too long", slow, refused.Load(), timedOut.Load())
	}
}

// A handler may take longer than a caller may take to send the body.
func TestSlowHandler(t *testing.T) {
	t.Parallel()
	for _, withHTTP2 := range []bool{true, false} {
		t.Run("HTTP/2 "+strconv.FormatBool(withHTTP2), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := serveReader(t, 11*time.Second)
				transport, ok := r.caller.Transport.(*http.Transport)
				if !ok {
					t.Fatalf("the transport is a %T", r.caller.Transport)
				}
				transport.ForceAttemptHTTP2 = withHTTP2
				code, _, err := r.send(t.Context(), strings.NewReader("{}"), 2)
				if err != nil || code != http.StatusOK || r.canceled != 0 {
					t.Errorf("%d, %v, canceled %d times", code, err, r.canceled)
				}
			})
		})
	}
}
