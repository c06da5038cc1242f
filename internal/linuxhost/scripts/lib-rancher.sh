# data is the data folder of RKE2 or K3s.
data=$(sed -n 's/^data-dir: *//p' "/etc/rancher/$DISTRIBUTION/config.yaml" 2>/dev/null |
  tr -d "\"'" | head -n 1) || true
data=${data:-/var/lib/rancher/$DISTRIBUTION}
