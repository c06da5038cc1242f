package hookclient

import runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

// connect returns the connection to the extension of an ExtensionConfig: the one that there is, unless it was made from another
// ClientConfig. Registrations that hold an older one go on with it until they are replaced.
func (c *Client) connect(config *runtimev1.ExtensionConfig) (*connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	previous := c.connections[config.Name]
	if previous != nil && previous.madeFrom(config.Spec.ClientConfig) {
		return previous, nil
	}
	conn, err := newConnection(config.Name, config.Spec.ClientConfig, c.watcher, c.local[config.Name])
	if err != nil {
		return nil, err
	}
	if previous != nil {
		previous.closeIdle()
	}
	c.connections[config.Name] = conn
	return conn, nil
}

// disconnect forgets the connection to the extension of an ExtensionConfig.
func (c *Client) disconnect(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.connections[name]; conn != nil {
		conn.closeIdle()
		delete(c.connections, name)
	}
}
