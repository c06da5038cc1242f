package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/windlass-dev/windlass/internal/peer"
	"github.com/windlass-dev/windlass/internal/shares"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// The bounds of what one API server may answer, and of what all of them together may have in
// memory. A process needs at most maxLargeAnswers times the memory of the largest answer, which
// TestHostileAnswersAreBounded measures, beside answers of up to smallAnswer bytes.
const (
	// maxAnswerBytes bounds an answer. A page of 100 Pods of 50 KiB each has 5 MiB, all Namespaces
	// of a large cluster have 10 MiB.
	maxAnswerBytes = 16 << 20
	// smallAnswer is how many bytes of an answer anybody may have in memory at any time.
	smallAnswer = 1 << 20
	// maxLargeAnswers is how many answers beyond smallAnswer are read or decoded at the same time.
	maxLargeAnswers = 2
	// maxStatusBytes bounds the Status of a refused request, and maxShownBytes each text in it that
	// may be shown.
	maxStatusBytes, maxShownBytes = 64 << 10, 512
	// maxCauses bounds the causes of a Status.
	maxCauses = 16
)

// answerLimits bound the structure of an answer. Without them, one of "{},{},..." needs three hundred
// times its size once it is decoded.
var answerLimits = untrusted.Limits{
	Bytes: maxAnswerBytes, Depth: 64, Nodes: maxAnswerBytes, Objects: 100_000, Entries: 20_000,
}

// largeAnswers is shared by all clusters: they share the memory of the process. The clusters of one
// namespace read one large answer at a time, so that slow API servers of one tenant do not make
// those of another wait.
var largeAnswers = shares.New(maxLargeAnswers, 1)

// refusalLimits bound the Status of a refused request.
var refusalLimits = untrusted.Limits{Bytes: maxStatusBytes, Depth: 16, Nodes: 4096}

// ThrottledError is the error of a request that this process did not send: its own limits for a
// cluster would have kept it until after the caller's deadline. It tells nothing about the cluster.
// Ask again.
type ThrottledError struct {
	// Cluster may be empty where the caller names it.
	Cluster types.NamespacedName
	// Limit names the limit.
	Limit string
}

// Error implements error.
func (e *ThrottledError) Error() string {
	cluster := "a workload cluster"
	if e.Cluster.Name != "" {
		cluster = "Cluster " + e.Cluster.String()
	}
	return fmt.Sprintf("%s was not asked yet: Windlass %s; the question is repeated", cluster, e.Limit)
}

// garbledError is the error of an answer that no API server gives. It does not hold any of the
// answer.
type garbledError struct{ problem string }

func (e *garbledError) Error() string { return e.problem }

// limiter is the rate limiter of the requests to one cluster, with a typed error.
type limiter struct{ flowcontrol.RateLimiter }

func newLimiter() limiter {
	return limiter{flowcontrol.NewTokenBucketRateLimiter(requestsPerSecond, requestBurst)}
}

// answerTime is what a wait for our own limit must leave of the caller's time. With less, a healthy
// API server could not answer in time, and would count as unreachable.
const answerTime = requestTimeout / 2

// Wait implements flowcontrol.RateLimiter. It fails at once where the wait would leave less than
// answerTime until the caller's deadline. A request that need not wait never fails.
func (l limiter) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.TryAccept() {
		return nil
	}
	waiting := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		waiting, cancel = context.WithDeadline(ctx, deadline.Add(-answerTime))
		defer cancel()
	}
	err := l.RateLimiter.Wait(waiting)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return &ThrottledError{Limit: fmt.Sprintf("sends at most %d requests per second to a cluster, and the caller's time ends first", requestsPerSecond)}
}

// lease is the share of one call in largeAnswers. It is used by one goroutine at a time. giveBack is
// nil while the call has none.
type lease struct {
	namespace string
	giveBack  func()
}

type leaseKey struct{}

func (l *lease) take(ctx context.Context) error {
	if l.giveBack != nil {
		return nil
	}
	giveBack, err := largeAnswers.Acquire(ctx, l.namespace)
	if err != nil {
		return &ThrottledError{Limit: fmt.Sprintf(
			"reads one large answer per namespace and %d in total at the same time", maxLargeAnswers)}
	}
	l.giveBack = giveBack
	return nil
}

func (l *lease) release() {
	if l.giveBack != nil {
		l.giveBack()
	}
}

// answers checks what an API server answers before client-go reads it.
type answers struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := a.next.RoundTrip(request)
	if err != nil || response.StatusCode == http.StatusSwitchingProtocols {
		return response, err
	}
	// With Retry-After, client-go repeats the request by itself until the time is over, and then
	// does not report what the server answered, such as which PodDisruptionBudget forbids an
	// eviction. The caller asks again.
	response.Header.Del("Retry-After")
	// client-go logs warnings and shows them to nobody else. Their number and length are the
	// server's choice.
	response.Header.Del("Warning")
	if response.StatusCode >= http.StatusBadRequest {
		return a.cleanFailure(response), nil
	}
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		_ = response.Body.Close()
		return nil, &garbledError{problem: "the answer is not JSON; is another program at this address?"}
	}
	response.Body = &scanned{
		ReadCloser: response.Body, request: request.Context(), scan: untrusted.NewScanner(answerLimits),
	}
	return response, nil
}

// CloseIdleConnections is what http.Client looks for.
func (a answers) CloseIdleConnections() {
	if closer, ok := a.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// cleanFailure replaces the body of a failed request: a Status keeps its reason and bounded texts,
// anything else is dropped, because client-go puts a body that it does not understand into its
// error.
func (a answers) cleanFailure(response *http.Response) *http.Response {
	content, err := io.ReadAll(io.LimitReader(response.Body, maxStatusBytes))
	_ = response.Body.Close()
	var status metav1.Status
	clean := []byte{}
	if err == nil && refusalLimits.Unmarshal(content, &status) == nil && status.Kind == "Status" {
		clean, err = json.Marshal(cleanStatus(&status))
	}
	if err != nil {
		clean = nil
	}
	response.Header.Set("Content-Type", "application/json")
	response.Header.Del("Content-Length")
	response.ContentLength = int64(len(clean))
	response.Body = io.NopCloser(bytes.NewReader(clean))
	return response
}

// cleanStatus returns what may be shown of a Status.
func cleanStatus(s *metav1.Status) *metav1.Status {
	shown := func(s string) string { return text.Bound(s, maxShownBytes) }
	clean := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Message: shown(s.Message), Reason: metav1.StatusReason(shown(string(s.Reason))), Code: s.Code,
	}
	if d := s.Details; d != nil {
		clean.Details = &metav1.StatusDetails{Name: shown(d.Name), Group: shown(d.Group), Kind: shown(d.Kind), RetryAfterSeconds: d.RetryAfterSeconds}
		for _, c := range d.Causes[:min(len(d.Causes), maxCauses)] {
			clean.Details.Causes = append(clean.Details.Causes, metav1.StatusCause{
				Type: metav1.CauseType(shown(string(c.Type))), Message: shown(c.Message), Field: shown(c.Field),
			})
		}
	}
	return clean
}

// scanned is the body of an answer in JSON. It fails where decoding the answer would need too much
// memory.
type scanned struct {
	io.ReadCloser

	request context.Context //nolint:containedctx // A body belongs to one request and ends with it.
	read    int64
	scan    *untrusted.Scanner
}

// Read implements io.Reader.
func (s *scanned) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if s.read += int64(n); s.read > smallAnswer {
		if lease, ok := s.request.Value(leaseKey{}).(*lease); ok {
			if err := lease.take(s.request); err != nil {
				return 0, err
			}
		}
	}
	if limit, ok := errors.AsType[*untrusted.LimitError](s.scan.Scan(p[:n])); ok {
		return 0, &garbledError{problem: fmt.Sprintf("the answer has more than %d %s", limit.Max, limit.Kind)}
	}
	return n, err
}

// isAnswer reports whether an error is an answer of the API server.
func isAnswer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// isThrottled reports whether a request was not sent because of a limit of this process.
func isThrottled(err error) bool {
	_, ok := errors.AsType[*ThrottledError](err)
	return ok
}

// outOfTime reports whether the caller's own time is over. A deadline that passed counts even if
// its timer has not fired yet.
func outOfTime(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// limits are those of requests for objects.
func limits() peer.Limits { return peer.Limits{Timeout: requestTimeout, BodyBytes: maxAnswerBytes} }
