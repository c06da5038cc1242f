# The kubelet's kubeconfig names files, or holds their content in base64.
source lib-identity.sh
conf=/etc/kubernetes/kubelet.conf

# field KEY sets found to a value in the kubeconfig.
field() { value_of "$1:" "$conf"; found=${found//[\"\']/}; }

# either KIND sets found to the certificates of a kind.
either() {
  field "$1-data"
  if [ -n "$found" ]; then
    found=$(certificates <(base64 -d <<<"$found" 2>/dev/null))
    return
  fi
  field "$1"
  [ -z "$found" ] || found=$(certificates "$found")
}

# read_conf sets own and authorities. It fails unless both have a whole certificate.
read_conf() {
  local end=$'\n-----END CERTIFICATE-----'
  either client-certificate
  own=$found
  either certificate-authority
  authorities=$found
  [[ "$own" == *"$end"* && "$authorities" == *"$end"* ]]
}

# A power cut may have damaged the kubeconfig while kubeadm wrote it. Read the copy then; the next
# step puts it back.
if ! read_conf && [ -f "$KEEP/before-kubeadm$conf" ]; then
  conf=$KEEP/before-kubeadm$conf
  read_conf
fi
fact node-certificate "$own"
fact authorities "$authorities"
fact end yes
