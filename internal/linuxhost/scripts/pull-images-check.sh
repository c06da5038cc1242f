# The images that the step found to be needed are on the host. Prints the first one that is missing.
source lib-check.sh
source lib-images.sh
images_settled || images_ready || { missing <"$OP/images" 2>/dev/null | head -n 1; exit 1; }
