package hosts

// StateFolder is where Windlass keeps, on a host, the job that runs, what was downloaded, and the log.
const StateFolder = "/var/lib/windlass"

// factsPrelude defines fact, which prints one fact, and holds the lock under which jobs are started: a job that is just being started is
// neither missing nor gone. It does not wait long for that, and lets go of the lock as soon as the job is known.
const factsPrelude script = `set -u
fact() { printf '%s %s\n' "$1" "$(printf %s "$2" | base64 | tr -d '\n')"; }
if [ -e "$state/lock" ]; then exec 9<"$state/lock"; flock -s -w 2 9; fi
free() { d=$1; while [ ! -d "$d" ]; do d=$(dirname "$d"); done; df -Pk "$d" 2>/dev/null | awk 'NR==2 {print $4}'; }
sizes() { t=0; for f in "$@"; do [ -f "$f" ] && t=$((t + $(stat -Lc %s "$f") / 1024)); done; echo $t; }
fact time "$(date +%s)"
fact arch "$(uname -m)"
# Only a folder that looks read-only is tried: then the shell's error says why.
probe="$bin/.windlass-probe-$$"
if [ -w "$bin" ] || why=$( { : >"$probe"; } 2>&1 ); then fact writable yes; rm -f "$probe"; else fact writable no; fact writable-why "${why##*: }"; fi
fact free-kb "$(free "$bin")"
fact free-state-kb "$(free "$state")"
[ -f "$keep/kubeadm-verb-$version" ] && fact verb "$(cat "$keep/kubeadm-verb-$version")"
[ -f "$op/drained" ] && fact drained yes
[ -f "$keep/cordoned" ] && fact cordoned yes
[ -f "$op/done" ] && [ ! -d "$state/binaries" ] && fact cleaned yes
if [ -f "$state/job/id" ]; then
  fact job "$(cat "$state/job/id")"
  fact job-started "$(cat "$state/job/started" 2>/dev/null)"
  # Where the output is cut, its first line is not whole, and may be the rest of a secret without its name.
  whole=1
  [ "$(cat "$state/job/out" "$state/job/out.last" 2>/dev/null | wc -c)" -le 4096 ] || whole=2
  fact job-output "$(cat "$state/job/out" "$state/job/out.last" 2>/dev/null | tail -c 4096 | tail -n +$whole)"
  if ! flock -n "$state/job.lock" true; then fact job-state running
  elif [ -s "$state/job/exit" ]; then
    fact job-state ended; fact job-exit "$(cat "$state/job/exit")"; fact job-ended "$(cat "$state/job/ended" 2>/dev/null)"
  else fact job-state vanished; fi
fi
exec 9>&-
`

// kubeadmFacts are the facts of a host that kubeadm made. The API server is asked only for what is decided next: it may be the one that is away
// because it is upgraded.
const kubeadmFacts script = `kubernetes=/etc/kubernetes
fact service kubelet
fact installed "$("$bin/kubelet" --version 2>/dev/null)"
pid=$(systemctl show --property MainPID --value kubelet 2>/dev/null)
[ "${pid:-0}" -gt 0 ] && [ ! "/proc/$pid/exe" -ef "$bin/kubelet" ] && fact running "$("/proc/$pid/exe" --version 2>/dev/null)"
fact need-kb "$(sizes "$bin/kubeadm" "$bin/kubelet" "$bin/kubectl")"
fact kubelet-flags "$(cat /var/lib/kubelet/kubeadm-flags.env 2>/dev/null)"
server=$(sed -n 's/^ *server: *//p' $kubernetes/kubelet.conf 2>/dev/null | head -n 1)
apiserver=$kubernetes/manifests/kube-apiserver.yaml
# kubeadm moves manifests away and back: what it leaves alone tells a control plane for sure.
if [ -f $apiserver ] || [ -f $kubernetes/pki/apiserver.crt ]; then
  fact control-plane yes
  kubectl=
  for candidate in "$bin/kubectl" "$state/binaries/$version/kubectl"; do [ -x "$candidate" ] && kubectl=$candidate; done
  [ -n "$kubectl" ] && fact kubectl yes
  address=$(sed -n 's/^.*--advertise-address=//p' $apiserver 2>/dev/null | head -n 1)
  port=$(sed -n 's/^.*--secure-port=//p' $apiserver 2>/dev/null | head -n 1)
  case "$address" in *:*) address="[$address]" ;; esac
  [ -n "$address" ] && fact local-server "https://$address:${port:-6443}"
  [ -n "$kubectl" ] && [ ! -f "$keep/kubeadm-verb-$version" ] && fact cluster "$("$kubectl" --kubeconfig $kubernetes/admin.conf --request-timeout 3s --namespace kube-system get configmap kubeadm-config \
    --output 'jsonpath={.data.ClusterConfiguration}' 2>/dev/null | sed -n 's/^kubernetesVersion: *//p')"
fi
[ -f $kubernetes/manifests/etcd.yaml ] && fact member yes
[ -z "$patches" ] ||
  fact patches "$(find -H "$patches" ! -type d \( -name '*.json' -o -name '*.yaml' \) 2>/dev/null | sort)"
if [ ! -d "$op" ] && [ -n "$server" ] && command -v curl >/dev/null; then
  own=/var/lib/kubelet/pki/kubelet-client-current.pem
  login=(); [ -f $own ] && login=(--cert "$own" --key "$own")
  fact api-server "$(curl --silent --max-time 2 --cacert $kubernetes/pki/ca.crt ${login[@]+"${login[@]}"} "$server/version" | sed -n 's/^ *"gitVersion": *//p')"
fi
`

// rancherFacts are the facts of a host that runs RKE2 or K3s. An agent reaches the servers through its own balancer.
const rancherFacts script = `data=$(sed -n 's/^data-dir: *//p' "/etc/rancher/$name/config.yaml" 2>/dev/null | tr -d "\"'" | head -n 1)
data=${data:-/var/lib/rancher/$name}
fact installed "$("$bin/$name" --version 2>/dev/null | head -n 1)"
fact need-kb "$(sizes "$bin/$name")"
service=
for unit in "$server_unit" "$agent_unit"; do if systemctl is-active --quiet "$unit" || systemctl is-enabled --quiet "$unit" 2>/dev/null; then service=$unit; break; fi; done
fact service "$service"
if [ "$service" = "$server_unit" ]; then
  fact control-plane yes
  [ -d "$data/server/db/etcd" ] && fact member yes
elif [ ! -d "$op" ] && [ -n "$service" ] && command -v curl >/dev/null; then
  fact api-server "$(curl --silent --max-time 2 --cacert "$data/agent/server-ca.crt" --cert "$data/agent/client-kubelet.crt" --key "$data/agent/client-kubelet.key" \
    https://127.0.0.1:6444/version | sed -n 's/^ *"gitVersion": *//p')"
fi
`

// FactsScript prints the facts of a host, for ParseFacts. It changes nothing. Where the folder of binaries looks read-only, it tries to create a file there
// and removes it.
func FactsScript(g Goal) string {
	const end script = "fact end yes\n"
	if g.Distribution == Kubeadm {
		return g.script(factsPrelude+kubeadmFacts+end, value{"patches", g.PatchesFolder})
	}
	server, agent := services(g.Distribution)
	return g.script(factsPrelude+rancherFacts+end, value{"name", string(g.Distribution)}, value{"server_unit", server}, value{"agent_unit", agent})
}

// services are the units of a distribution's servers and agents.
func services(d Distribution) (server, agent string) {
	switch d {
	case RKE2:
		return "rke2-server", "rke2-agent"
	case K3s:
		return "k3s", "k3s-agent"
	case Kubeadm:
	}
	return "kubelet", "kubelet"
}
