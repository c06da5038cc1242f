package hookserver

import (
	"crypto/tls"
	"net/http"
)

// Require changes the TLS configuration of a server as NewTLSServer does.
func (c *ClientCA) Require(config *tls.Config) { c.require(config) }

// Wrap wraps a handler as servers of NewTLSServer with a client CA do.
func (c *ClientCA) Wrap(next http.Handler) http.Handler { return c.wrap(next) }
