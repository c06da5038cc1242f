package v1alpha1

// K8sdConfig says how the k8sd updater reaches k8sd, the daemon of Canonical Kubernetes on each node, which refreshes the node's snap. It
// authenticates with the node's token, from the key node-token-MACHINE of the Secret CLUSTER-token in the Machine's namespace.
//
// +kubebuilder:validation:XValidation:rule="!has(self.directHost) || self.reach == 'Direct'",message="directHost counts only where reach is Direct"
type K8sdConfig struct {
	// port is the port of k8sd on the nodes. With PortForward it does not count: the proxy pods know it, and listen on 2380 themselves.
	// +optional
	// +default=2380
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// reach is PortForward to reach k8sd through the workload cluster's API server and the pod labelled app=k8sd-proxy in kube-system on the
	// machine's node; Direct to connect to the Machine's address: its first InternalIP, otherwise its first ExternalIP.
	// +optional
	// +default="PortForward"
	// +kubebuilder:validation:Enum=PortForward;Direct
	Reach K8sdReach `json:"reach,omitempty"`
	// directHost is connected to in place of the Machine's address, for all machines. It is for a gateway that leads each node's token to
	// its node, and for tests.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="isIP(self) || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be an IP address, or the name of a host in lower case, without a port"
	DirectHost string `json:"directHost,omitempty"`
	// tls says whom to trust as k8sd. There is no default: k8sd's certificates are signed by nobody that a system knows.
	// +required
	TLS K8sdTLS `json:"tls,omitzero"`
	// channel makes the updater cover changes of a Machine's version: it is the channel to refresh to, with {minor} for the minor, as in
	// {minor}-classic/stable, which is 1.31-classic/stable for v1.31.4. Unset means that the updater covers nothing, and only serves
	// upgrades that an annotation asks for.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9._/-]*[{]minor[}][A-Za-z0-9._/-]*$')",message="must be a snap channel with {minor} once in place of the minor, as in {minor}-classic/stable"
	Channel string `json:"channel,omitempty"`
}

// K8sdReach is how k8sd on a node is reached.
type K8sdReach string

// The ways to reach k8sd.
const (
	K8sdPortForward K8sdReach = "PortForward"
	K8sdDirect      K8sdReach = "Direct"
)

// K8sdTLS says whom to trust as k8sd. Whoever is trusted gets the node's token.
//
// +kubebuilder:validation:XValidation:rule="[has(self.caBundle), has(self.fingerprints), has(self.secretName), has(self.insecureSkipVerify) && self.insecureSkipVerify].filter(isSet, isSet).size() == 1",message="set exactly one of caBundle, fingerprints, secretName and insecureSkipVerify: true"
// +kubebuilder:validation:XValidation:rule="!has(self.serverName) || has(self.caBundle) || has(self.secretName)",message="serverName counts only with caBundle or secretName: nothing else looks at the names in a certificate"
type K8sdTLS struct {
	// caBundle holds the certificates, in PEM, one of which must have signed k8sd's, or be it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	// +kubebuilder:validation:XValidation:rule="string(self).contains('-----BEGIN CERTIFICATE-----')",message="must hold certificates in PEM, encoded in base64 as a whole"
	CABundle []byte `json:"caBundle,omitempty"`
	// serverName is the name that k8sd's certificate must be for, where it is checked against a CA. Unset means the host that is
	// connected to with Direct, and the node's name with PortForward.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="isIP(self) || self.matches('^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*$')",message="must be an IP address or the name of a host"
	ServerName string `json:"serverName,omitempty"`
	// fingerprints are the SHA-256 fingerprints of the certificates that k8sd may have, in hexadecimal, with or without colons. Names and
	// dates in a certificate with one of them do not matter.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=95
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}$')",message="must be a SHA-256 fingerprint: 64 hexadecimal digits, with or without colons"
	Fingerprints []string `json:"fingerprints,omitempty"`
	// secretName is the name of a Secret in the Machine's namespace that holds either ca.crt, as caBundle, or fingerprint: fingerprints,
	// separated by blanks or line ends. {cluster} in it stands for the name of the Machine's Cluster, as in {cluster}-k8sd.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9.-]|[{]cluster[}])+$')",message="must be the name of a Secret, in which {cluster} may stand for the Cluster's name"
	SecretName string `json:"secretName,omitempty"`
	// insecureSkipVerify is UNSAFE: it trusts the server that answers, which then gets the node's token, and with it the node.
	// +optional
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
}
