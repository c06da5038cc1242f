// Package keyed serializes work per key, such as requests per Machine.
package keyed
