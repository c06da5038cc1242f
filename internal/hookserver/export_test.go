package hookserver

import (
	"crypto/tls"
	"net/http"
)

// Intake wraps a handler as servers of NewTLSServer do.
func Intake(next http.Handler) http.Handler { return newIntake().wrap(next) }

// Require changes the TLS configuration of a server as NewTLSServer does.
func (c *ClientCA) Require(config *tls.Config) { c.require(config) }

// Wrap wraps a handler as servers of NewTLSServer with a client CA do.
func (c *ClientCA) Wrap(next http.Handler) http.Handler { return c.wrap(next) }
