# The kubelet's kubeconfig names files, or holds their content in base64.
source lib-identity.sh
conf=/etc/kubernetes/kubelet.conf
field() { sed -n "s/^ *$1: *//p" "$conf" 2>/dev/null | tr -d "\"'" | head -n 1; }
either() {
  local content file
  content=$(field "$1-data") file=$(field "$1")
  if [ -n "$content" ]; then
    certificates <(base64 -d <<<"$content" 2>/dev/null)
  elif [ -n "$file" ]; then
    certificates "$file"
  fi
}
is_whole() {
  local kind
  for kind in client-certificate certificate-authority; do
    grep -q -e '^-----END CERTIFICATE-----' <<<"$(either $kind)" || return 1
  done
}
# A power cut may have damaged the kubeconfig while kubeadm wrote it. Read the copy then; the next
# step puts it back.
is_whole || [ ! -f "$KEEP/before-kubeadm$conf" ] || conf=$KEEP/before-kubeadm$conf
fact node-certificate "$(either client-certificate)"
fact authorities "$(either certificate-authority)"
fact end yes
