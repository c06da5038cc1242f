package record

// Len returns how many times a Clock remembers.
func (c *Clock) Len() int { return c.read.Len() }
