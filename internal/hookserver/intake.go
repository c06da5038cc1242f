package hookserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/windlass-dev/windlass/internal/untrusted"
)

const (
	// maxBody is the longest body that is read. etcd stores objects of up to 1.5 MiB. Cluster API's
	// largest request, CanUpdateMachineSet, has six of them, and an AdmissionReview at most two.
	maxBody = 9 << 20
	// bodyTimeout is how long a caller may take to send the body. Cluster API and the API server
	// give up after 10 s, unless they are told otherwise.
	bodyTimeout = 10 * time.Second
	// maxSmall is how much memory a small request takes at most, as the costs below estimate it. A
	// usual Machine takes less than half of it.
	maxSmall = 1 << 20
	// maxSmallIntake is how much memory the small requests of one port may take, and maxIntake how
	// much larger ones may take. Large requests thus cannot have small ones refused.
	maxSmallIntake = 32 << 20
	maxIntake      = 48 << 20
	// chunk is how much of a body is read at a time. A caller that sends nothing takes the room of
	// one.
	chunk = 16 << 10
	// maxDepth bounds how deep values nest. No API comes near it.
	maxDepth = 1024
	// byteCost is for the copies of a body, and valueCost for each JSON value: the elements of a
	// list can take 3 bytes and become structs of 400, and {"a": becomes a map.
	byteCost, valueCost = 4, 512
	// retryAfter is after how many seconds a refused caller should come again.
	retryAfter = "1"
)

var (
	errFull     = errors.New("too many requests are being read. Fix: try again")
	errTooLarge = fmt.Errorf("the request has more than %d bytes, or too many values or levels", maxBody)
	errNotJSON  = errors.New("the request is not a JSON object. Fix: send JSON, as API servers and Cluster API do")
)

// intake bounds the memory and the time that the requests of one port take. It reads the body of a
// request before the handler does, and reserves memory for it until the handler returns or calls
// ReleaseParsed. It refuses requests for which there is no room, callers that are too slow, and
// bodies that are not a JSON object. It is safe for concurrent use.
type intake struct {
	small, large *semaphore.Weighted
}

// NewIntake returns what wraps the handlers of one port, and bounds the memory and the time of all
// their requests together. A request beyond the bounds is answered 503, 413 or 408.
func NewIntake() func(http.Handler) http.Handler {
	i := &intake{small: semaphore.NewWeighted(maxSmallIntake), large: semaphore.NewWeighted(maxIntake)}
	return i.wrap
}

// reservationKey is the key of a request's *reservation in its context.
type reservationKey struct{}

// ReleaseParsed gives back the memory that parsing a request took, except for the length of its
// body. A handler calls it before it waits for something, in its own goroutine, once it has read the
// body and keeps none of the values in it but those that are about as long as the body.
func ReleaseParsed(ctx context.Context) {
	if a, ok := ctx.Value(reservationKey{}).(*reservation); ok {
		a.shrink()
	}
}

// wrap returns a handler that passes requests on with their bodies read.
func (i *intake) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &reservation{room: i.small, large: i.large}
		defer a.release()
		err := a.read(w, r)
		if err == nil && a.length > 0 && !isObject(a.body.Bytes()) {
			err = errNotJSON
		}
		if err != nil {
			refuse(w, err)
			return
		}
		ctx := context.WithValue(r.Context(), callerKey{}, r.RemoteAddr)
		whole := r.WithContext(context.WithValue(ctx, reservationKey{}, a))
		if whole.Body = io.NopCloser(&a.body); a.length == 0 {
			whole.Body = http.NoBody // Admission webhooks refuse it; other empty bodies they decode.
		}
		next.ServeHTTP(w, whole)
	})
}

// refuse answers a request whose body was not read.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusBadRequest
	switch {
	case errors.Is(err, errTooLarge):
		code = http.StatusRequestEntityTooLarge
	case errors.Is(err, errFull):
		code = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", retryAfter)
	case errors.Is(err, os.ErrDeadlineExceeded):
		code = http.StatusRequestTimeout
	case errors.Is(err, http.ErrNotSupported):
		code = http.StatusInternalServerError
	}
	http.Error(w, err.Error(), code)
}

// reservation is the memory that one request has reserved.
type reservation struct {
	// room is where held is taken from. It becomes large where the request is no small one.
	room, large *semaphore.Weighted
	held        int64
	body        bytes.Buffer
	length      int64
}

func (a *reservation) reserve(cost int) error {
	total := a.held + int64(cost)
	if total > maxIntake {
		return errTooLarge
	}
	if a.room != a.large && total > maxSmall {
		if !a.large.TryAcquire(total) {
			return errFull
		}
		a.release()
		a.room, a.held = a.large, total
		return nil
	}
	if !a.room.TryAcquire(int64(cost)) {
		return errFull
	}
	a.held = total
	return nil
}

func (a *reservation) release() { a.room.Release(a.held) }

// shrink keeps the length of the body only, for what the handler has taken from it.
func (a *reservation) shrink() {
	a.body = bytes.Buffer{}
	if a.held > a.length {
		a.room.Release(a.held - a.length)
		a.held = a.length
	}
}

// read reads the body of a request, and reserves memory before each part of it.
func (a *reservation) read(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > maxBody {
		return errTooLarge
	}
	if err := a.reserve(sizeOf(r.Header)); err != nil {
		return err
	}
	// The deadline ends with the body: it does not count for the handler.
	deadline := time.Now().Add(bodyTimeout)
	if err := http.NewResponseController(w).SetReadDeadline(deadline); err != nil {
		return fmt.Errorf("limiting the time to read the request: %w", err)
	}
	// Nested values count, too: {"a":{"a": becomes two maps and has no comma.
	scan := untrusted.NewScanner(untrusted.Limits{Bytes: maxBody, Depth: maxDepth, Nodes: maxIntake / valueCost})
	counted := 0
	for {
		if err := a.reserve(chunk * byteCost); err != nil {
			return err
		}
		n, err := io.CopyN(&a.body, r.Body, chunk)
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return fmt.Errorf("reading the request: %w", err)
		}
		if a.length += n; a.length > maxBody {
			return errTooLarge
		}
		if err := scan.Scan(a.body.Bytes()[a.length-n:]); err != nil {
			return errTooLarge
		}
		// A key at the end of a part counts until its colon.
		more := max(scan.Nodes()-counted, 0)
		if err := a.reserve(more * valueCost); err != nil {
			return err
		}
		counted += more
		if ended {
			return nil
		}
	}
}

// isObject reports whether a body is one JSON object. Memory is reserved for the values that
// a scan of JSON counts. The decoder of admission webhooks takes what begins with another byte for
// protobuf or YAML, whatever the Content-Type, and builds values that such a scan does not see.
func isObject(body []byte) bool {
	text := bytes.TrimLeft(body, " \t\r\n")
	return bytes.HasPrefix(text, []byte("{")) && json.Valid(text)
}

func sizeOf(header http.Header) (size int) {
	for name, values := range header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}
