package v1alpha1

// HostConfig says how the updaters for Linux hosts (kinds Kubeadm, RKE2 and K3s) reach the machine behind a Machine, and where the
// binaries of a Kubernetes version come from.
//
// +kubebuilder:validation:XValidation:rule="has(self.ssh) != has(self.pod)",message="set exactly one of ssh and pod"
type HostConfig struct {
	// ssh reaches hosts by SSH. Exactly one of ssh and pod is set.
	// +optional
	SSH *HostSSH `json:"ssh,omitempty"`
	// pod reaches hosts by a privileged Pod on the node, for sites that forbid SSH. The Pod is made when it is needed, and deleted after.
	// +optional
	Pod *HostPod `json:"pod,omitempty"`
	// binaries says where the binaries come from, and which digests they must have.
	// +required
	Binaries HostBinaries `json:"binaries,omitzero"`
	// binariesFolder is where the binaries stand on the host. Unset means /usr/bin for kubeadm, and /usr/local/bin for RKE2 and K3s.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9][A-Za-z0-9._-]*)+$')",message="must be the absolute path of a folder, without blanks"
	BinariesFolder string `json:"binariesFolder,omitempty"`
	// repeatableCommands are those of a KubeadmConfig's preKubeadmCommands and postKubeadmCommands that may be run again on a machine that
	// runs, word for word. A change that adds another command is not covered. They count for kind Kubeadm only.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	RepeatableCommands []string `json:"repeatableCommands,omitempty"`
	// allowedPathPrefixes are the paths of folders and files that an update may write: the files of a KubeadmConfig at or below them. A change of a file at
	// another path is not covered. Unset means /etc/kubernetes. Who can edit a KubeadmConfig can write these paths as root on running hosts. No prefix allows
	// files that kubeadm, the kubelet, etcd or Windlass owns, such as those in /etc/kubernetes/manifests and /etc/kubernetes/pki. They count for kind Kubeadm only.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^(/[A-Za-z0-9_.][A-Za-z0-9_.-]*)+$') && self.split('/').all(part, !part.endsWith('.') && !part.startsWith('.windlass'))",message="must be a clean absolute path below /, without blanks, .. and a trailing / or ."
	AllowedPathPrefixes []string `json:"allowedPathPrefixes,omitempty"`
	// acceptedSettings are settings that a host may have although the released components of its new version lack them, such as kubelet/SomeGate or
	// kube-apiserver/--some-flag, and requirements that it may lack, such as cgroup-v2. A message about one has its name. Without this, such a host is
	// refused before it is drained. They count for kind Kubeadm only.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	AcceptedSettings []string `json:"acceptedSettings,omitempty"`
	// etcdSnapshot says whether a snapshot of etcd is taken on a control plane machine before anything on it is changed: Required, or Skip
	// for those who take their own. Machines without an etcd member take none.
	// +optional
	// +default="Required"
	// +kubebuilder:validation:Enum=Required;Skip
	EtcdSnapshot EtcdSnapshotPolicy `json:"etcdSnapshot,omitempty"`
	// nodeReadySeconds is how long the node may take to be Ready at the new version after its service was restarted.
	// +optional
	// +default=300
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=3600
	NodeReadySeconds int32 `json:"nodeReadySeconds,omitempty"`
}

// EtcdSnapshotPolicy says whether a snapshot of etcd is taken first.
type EtcdSnapshotPolicy string

// The snapshot policies.
const (
	EtcdSnapshotRequired EtcdSnapshotPolicy = "Required"
	EtcdSnapshotSkip     EtcdSnapshotPolicy = "Skip"
)

// HostSSH says how a host is reached by SSH. Host keys are always checked.
type HostSSH struct {
	// user is who logs in: root, or somebody who becomes root with sudo without a password.
	// +optional
	// +default="root"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z_][a-z0-9_-]*$')",message="must be the name of a user"
	User string `json:"user,omitempty"`
	// port is the port of the hosts' SSH servers.
	// +optional
	// +default=22
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// secretName is the name of a Secret in the Machine's namespace with the keys ssh-privatekey, and known_hosts unless knownHosts is
	// set. {cluster} in it stands for the name of the Machine's Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9.-]|[{]cluster[}])+$')",message="must be the name of a Secret, in which {cluster} may stand for the Cluster's name"
	SecretName string `json:"secretName,omitempty"`
	// knownHosts pins the hosts' keys, in the form of known_hosts: by address, or by the name of the Machine or of its node. A line
	// @cert-authority serves many hosts. It counts in place of the Secret's known_hosts.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	KnownHosts string `json:"knownHosts,omitempty"`
	// addressType is the type of the Machine's address that is connected to.
	// +optional
	// +default="InternalIP"
	// +kubebuilder:validation:Enum=InternalIP;ExternalIP;InternalDNS;ExternalDNS;Hostname
	AddressType HostAddressType `json:"addressType,omitempty"`
	// bastion is a host that connections go through.
	// +optional
	Bastion *HostBastion `json:"bastion,omitempty"`
}

// HostAddressType is the type of an address in a Machine's status.
type HostAddressType string

// HostBastion is a host that SSH connections go through. Its key is pinned as the hosts' are.
type HostBastion struct {
	// host is the address or the name of the bastion.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="isIP(self) || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be an IP address, or the name of a host in lower case, without a port"
	Host string `json:"host,omitempty"`
	// port is the bastion's port.
	// +optional
	// +default=22
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// user is who logs in at the bastion; unset means the hosts' user. The key is bastion-ssh-privatekey of the Secret, otherwise
	// ssh-privatekey.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z_][a-z0-9_-]*$')",message="must be the name of a user"
	User string `json:"user,omitempty"`
}

// HostPod says how the Pod looks that reaches a host.
type HostPod struct {
	// image is the image of the Pod. It must hold nsenter and sleep; everything else is the host's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
	// namespace is the namespace of the Pod in the workload cluster. It must admit privileged Pods.
	// +optional
	// +default="kube-system"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace: lower case letters, digits and hyphens"
	Namespace string `json:"namespace,omitempty"`
}

// HostBinaries says where the binaries come from, and which digests they must have. In url, hostFolder and the digests' manifest, a file is
// named VERSION/linux/ARCH/NAME, as in v1.36.3/linux/amd64/kubelet.
//
// +kubebuilder:validation:XValidation:rule="[has(self.url), has(self.hostFolder), has(self.bundle)].filter(isSet, isSet).size() == 1",message="set exactly one of url, hostFolder and bundle"
type HostBinaries struct {
	// url is where the hosts download from, with {version}, {arch} and {name} in place of what they stand for, as in
	// https://mirror.example/{version}/bin/linux/{arch}/{name}.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[A-Za-z0-9._:/{}%+~-]+$')",message="must be an http or https URL without query, fragment or user info"
	// +kubebuilder:validation:XValidation:rule="self.contains('{version}') && self.contains('{name}')",message="must contain {version} and {name}"
	URL string `json:"url,omitempty"`
	// hostFolder is a folder on each host that holds VERSION/linux/ARCH/NAME.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9][A-Za-z0-9._-]*)+$')",message="must be the absolute path of a folder, without blanks"
	HostFolder string `json:"hostFolder,omitempty"`
	// bundle is the path of a tar file, not compressed, with VERSION/linux/ARCH/NAME, in the file system of the extension: mount it there.
	// Windlass sends the files to the hosts, for sites where hosts reach nothing.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9][A-Za-z0-9._-]*)+$')",message="must be the absolute path of a file, without blanks"
	Bundle string `json:"bundle,omitempty"`
	// digests says which digests the files must have. There is no default, and no way around it: what a host runs as root is pinned.
	// +required
	Digests HostDigests `json:"digests,omitzero"`
}

// HostDigests is a manifest of digests: lines as sha256sum prints them, of a SHA-256 in hexadecimal and the name VERSION/linux/ARCH/NAME.
//
// +kubebuilder:validation:XValidation:rule="has(self.manifest) != has(self.configMapName)",message="set exactly one of manifest and configMapName"
// +kubebuilder:validation:XValidation:rule="!has(self.configMapName) || has(self.sha256) != has(self.publicKey)",message="with configMapName, set exactly one of sha256 and publicKey: who may write the ConfigMap must not decide what hosts run"
// +kubebuilder:validation:XValidation:rule="has(self.configMapName) || !has(self.sha256) && !has(self.publicKey)",message="sha256 and publicKey count only with configMapName"
// +kubebuilder:validation:XValidation:rule="has(self.publicKey) || !has(self.minSerial) && !has(self.allowUnversioned)",message="minSerial and allowUnversioned count only with publicKey"
type HostDigests struct {
	// manifest is the manifest itself.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	Manifest string `json:"manifest,omitempty"`
	// configMapName is the name of a ConfigMap in the Machine's namespace with the manifest under SHA256SUMS.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a ConfigMap"
	ConfigMapName string `json:"configMapName,omitempty"`
	// sha256 is the SHA-256 of the manifest in the ConfigMap, in hexadecimal.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{64}$')",message="must be a SHA-256: 64 hexadecimal digits in lower case"
	SHA256 string `json:"sha256,omitempty"`
	// publicKey is an Ed25519 public key in PEM. The ConfigMap then holds the manifest's signature, in base64, under SHA256SUMS.sig.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.contains('-----BEGIN PUBLIC KEY-----')",message="must be a public key in PEM, as `openssl pkey -pubout` prints it"
	PublicKey string `json:"publicKey,omitempty"`
	// minSerial is the lowest serial of a signed manifest that counts. Raise it to withdraw older ones before a newer one is seen: status.digestsSerial
	// refuses those that are older than the newest that was seen.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinSerial int64 `json:"minSerial,omitempty"`
	// allowUnversioned lets signed manifests without a serial and an expiry count, too. Such a manifest counts even after it was withdrawn.
	// +optional
	AllowUnversioned bool `json:"allowUnversioned,omitempty"`
}
