package record

import "time"

// Len returns how many times a Clock remembers for a namespace.
func (c *Clock) Len(namespace string) int {
	read, known := c.namespaces.Get(namespace, time.Time{})
	if !known {
		return 0
	}
	return read.Len()
}

// Namespaces returns for how many namespaces a Clock remembers times.
func (c *Clock) Namespaces() int { return c.namespaces.Len() }
