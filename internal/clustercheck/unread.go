package clustercheck

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// User names in whose name an API server was asked.
type User string

// The users.
const (
	// ClusterUser asks a workload cluster, with the kubeconfig that Cluster API has made.
	ClusterUser User = "the user of the Cluster's kubeconfig"
	// ManagementUser asks the management cluster.
	ManagementUser User = "your user of the management cluster"
)

// FixGone is the way out if an object does not exist.
const FixGone = "create the object, or correct the name in what refers to it"

// The ways out of other classes of errors.
const (
	fixUnauthorized = "renew the credentials of the kubeconfig: the API server does not accept them"
	fixNoKind       = "see that this API server is the right one, and whether a " +
		"CustomResourceDefinition or an APIService is to serve this kind: `kubectl api-resources`"
	fixAway = "wait until the API server answers (`kubectl get --raw /readyz?verbose`), and repeat " +
		"the command"
	fixTLS = "see that the kubeconfig has the CA and the server's name of this API server, and that " +
		"no other program answers at its address"
	fixNotReached = "check the way from here to the API server, and the address in the Secret of " +
		"the kubeconfig; the clusters of windlass-lab are reached only from inside its network namespace"
	fixManagementNotReached = "check the way from here to the management cluster, and the server in " +
		"your kubeconfig"
	fixOther = "correct what the message names, and repeat the command"
)

// FixUnread returns what a person can do about err, the error of a read in the name of user.
// It looks at the class of err alone, never at its text, except for alerts of TLS, which have no
// type. An error that hides its kind from errors.Is may have a method Cause() error.
func FixUnread(user User, err error) string {
	if hidden, ok := errors.AsType[interface {
		error
		Cause() error
	}](err); ok && hidden.Cause() != nil {
		err = hidden.Cause()
	}
	if meta.IsNoMatchError(err) {
		return fixNoKind
	}
	if answer, ok := errors.AsType[interface {
		error
		Status() metav1.Status
	}](err); ok {
		return fixAnswered(user, answer.Status())
	}
	return fixUnanswered(user, err)
}

// fixAnswered is FixUnread for the answer of an API server. One that starts, or that has too much to
// do, cannot answer for now.
func fixAnswered(user User, answer metav1.Status) string {
	switch answer.Reason { //nolint:exhaustive // Other reasons are about the request.
	case metav1.StatusReasonForbidden:
		return "let " + string(user) + " read this: the API server forbids it"
	case metav1.StatusReasonUnauthorized:
		return fixUnauthorized
	case metav1.StatusReasonNotFound:
		if isUnserved(answer) {
			return fixNoKind
		}
		return FixGone
	case metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable,
		metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout,
		metav1.StatusReasonTooManyRequests:
		return fixAway
	default:
		return fixOther
	}
}

// FixConnect adds to err, the error of making a client of a workload cluster from the Secret of its
// kubeconfig, what a person can do, unless it tells that.
func FixConnect(err error) error {
	if strings.Contains(err.Error(), ". Fix: ") {
		return err
	}
	fix := FixUnread(ManagementUser, err)
	if fix == FixGone {
		fix = "wait until the control plane is initialized: its provider then creates this Secret"
	}
	return fmt.Errorf("%w. Fix: %s", err, fix)
}

// fixUnanswered is FixUnread for an error that is no answer of an API server.
func fixUnanswered(user User, err error) string {
	switch {
	case isTLS(err):
		return fixTLS
	case !isConnection(err):
		return fixOther
	case user == ManagementUser:
		return fixManagementNotReached
	}
	return fixNotReached
}

// isUnserved reports whether no handler of the API server knows the path. client-go makes the
// status of such an answer itself, since "404 page not found" is no object.
func isUnserved(s metav1.Status) bool {
	return s.Details != nil &&
		slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool {
			return c.Type == metav1.CauseTypeUnexpectedServerResponse
		})
}

func isTLS(err error) bool {
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	// crypto/tls has no type for alerts of the other side.
	return authority || invalid || host || strings.Contains(err.Error(), "tls: ")
}

// isConnection reports whether a connection failed, or did not answer in time. The errors of
// package net, and those of net/url that wrap them, have a method Timeout.
func isConnection(err error) bool {
	_, network := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return network || errors.Is(err, context.DeadlineExceeded)
}
