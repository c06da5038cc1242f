package hookclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// computeFault classifies what the network said. The words hold neither times, ports of this side nor numbers of streams, which
// would be others at the next call.
func computeFault(err error, timeout time.Duration) (Fault, string) {
	// A url.Error quotes the URL.
	if wrapper, ok := errors.AsType[*url.Error](err); ok {
		err = wrapper.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return FaultTimeout, fmt.Sprintf("none within %s", timeout)
	}
	if detail, ok := computeTLSDetail(err); ok {
		return FaultTLS, detail
	}
	return FaultConnection, computeConnectionDetail(err)
}

func computeTLSDetail(err error) (string, bool) {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "its certificate has expired or is not valid yet", true
	}
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate is not accepted: " + boundMessage(untrusted.Err.Error()), true
	}
	if alert, ok := errors.AsType[tls.AlertError](err); ok {
		return "it ended the TLS handshake: " + alert.Error(), true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return "it does not speak TLS", true
	}
	// crypto/tls has no type for alerts of the other side outside of QUIC: they come as a net.OpError of this operation.
	if remote, ok := errors.AsType[*net.OpError](err); ok && remote.Op == "remote error" {
		return "it ended the connection: " + remote.Err.Error(), true
	}
	if message := err.Error(); strings.HasPrefix(message, "tls: ") || strings.HasPrefix(message, "x509: ") {
		return boundMessage(message), true
	}
	return "", false
}

const endedEarly = "the connection ended before the answer was complete"

func computeConnectionDetail(err error) string {
	if unresolved, ok := errors.AsType[*net.DNSError](err); ok {
		switch {
		case unresolved.IsNotFound:
			return "the host's name is not known"
		case unresolved.IsTimeout:
			return "the name server did not answer in time"
		}
		return "the host's name could not be resolved"
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return endedEarly
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to the host"
	case errors.Is(err, syscall.ETIMEDOUT):
		return "the connection timed out"
	}
	if failure, ok := errors.AsType[*panicError](err); ok {
		return "the handler in this process panicked: " + failure.value
	}
	// The types of HTTP/2's errors are not exported; their words hold numbers of streams.
	if message := err.Error(); strings.HasPrefix(message, "stream error: ") || strings.HasPrefix(message, "http2: ") {
		return endedEarly
	}
	return "the connection failed"
}
