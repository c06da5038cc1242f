# Removes what an upgrade that is done does not need: binaries that are in their places take as much
# room as these. Records that the upgrade is done, so that nobody waits for it.
source lib-job.sh
rm -rf "$STATE/binaries"
mark "done" yes
