# Begins the scripts that print the identity of a host. They write nothing, and print no key.
set -u
source lib-fact.sh
fact_of proof "$STATE/job/proof"
