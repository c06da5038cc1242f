// Package prometheus tests the manifests for Prometheus with Prometheus' own parser and engine.
package prometheus
