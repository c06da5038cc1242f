package hookserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxBody is the longest body that is read. etcd stores objects of up to 1.5 MiB. Cluster API's
	// largest request, CanUpdateMachineSet, has six of them, and an AdmissionReview at most two.
	maxBody = 9 << 20
	// bodyTimeout is how long a caller may take to send the body. Cluster API and the API server
	// give up after 10 s, unless they are told otherwise.
	bodyTimeout = 10 * time.Second
	// maxIntake is how much memory the requests of one port may take, as the costs below estimate
	// it.
	maxIntake = 48 << 20
	// chunk is how much of a body is read at a time. A caller that sends nothing takes the room of
	// one.
	chunk = 16 << 10
	// byteCost is for the copies of a body, and valueCost for each JSON value: the elements of a
	// list can take 3 bytes and become structs of 400.
	byteCost, valueCost = 4, 512
	// retryAfter is after how many seconds a refused caller should come again.
	retryAfter = "1"
)

var (
	errFull     = errors.New("too many requests are being read. Fix: try again")
	errTooLarge = fmt.Errorf("the request has more than %d bytes, or too many values", maxBody)
)

// intake bounds the memory and the time that the requests of one port take. It reads the body of a
// request before the handler does, and reserves memory for it until the handler returns. It refuses
// requests for which there is no room, and callers that are too slow. It is safe for concurrent
// use.
type intake struct {
	room *semaphore.Weighted
}

func newIntake() *intake { return &intake{room: semaphore.NewWeighted(maxIntake)} }

// wrap returns a handler that passes requests on with their bodies read.
func (i *intake) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := reservation{room: i.room}
		defer a.release()
		body, err := a.read(w, r)
		if err != nil {
			refuse(w, err)
			return
		}
		whole := *r
		whole.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, &whole)
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
	room *semaphore.Weighted
	held int64
}

func (a *reservation) reserve(cost int) error {
	if a.held+int64(cost) > maxIntake {
		return errTooLarge
	}
	if !a.room.TryAcquire(int64(cost)) {
		return errFull
	}
	a.held += int64(cost)
	return nil
}

func (a *reservation) release() { a.room.Release(a.held) }

// read reads the body of a request, and reserves memory before each part of it.
func (a *reservation) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, errTooLarge
	}
	if err := a.reserve(sizeOf(r.Header)); err != nil {
		return nil, err
	}
	// The deadline ends with the body: it does not count for the handler.
	deadline := time.Now().Add(bodyTimeout)
	if err := http.NewResponseController(w).SetReadDeadline(deadline); err != nil {
		return nil, fmt.Errorf("limiting the time to read the request: %w", err)
	}
	var body bytes.Buffer
	var text scanner
	for {
		if err := a.reserve(chunk * byteCost); err != nil {
			return nil, err
		}
		n, err := io.CopyN(&body, r.Body, chunk)
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return nil, fmt.Errorf("reading the request: %w", err)
		}
		if body.Len() > maxBody {
			return nil, errTooLarge
		}
		part := body.Bytes()[body.Len()-int(n):]
		if err := a.reserve(text.countValues(part) * valueCost); err != nil {
			return nil, err
		}
		if ended {
			return body.Bytes(), nil
		}
	}
}

func sizeOf(header http.Header) (size int) {
	for name, values := range header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

// scanner reads JSON in parts.
type scanner struct {
	inString, escaped bool
}

// countValues returns how many commas outside of strings are in the next part. Every element of a
// list or object but the first one comes after one.
func (s *scanner) countValues(part []byte) (count int) {
	for _, c := range part {
		switch {
		case s.escaped:
			s.escaped = false
		case s.inString && c == '\\':
			s.escaped = true
		case c == '"':
			s.inString = !s.inString
		case c == ',' && !s.inString:
			count++
		}
	}
	return count
}
