// Package requests counts what an API server was asked, from its audit log.
package requests
