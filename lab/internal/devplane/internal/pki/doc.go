// Package pki makes the certificates of a development plane. The CA's key stays in memory.
package pki
