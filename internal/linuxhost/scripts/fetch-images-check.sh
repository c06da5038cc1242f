# The archive of images for kubeadm waits, or its images are on the host.
source lib-check.sh
source lib-arrived.sh
source lib-images.sh
source lib-known.sh
images_settled || images_ready && exit 0
is_known "$FILE" "$DIGEST" && waits
arrived
