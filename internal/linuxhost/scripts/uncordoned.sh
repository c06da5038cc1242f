# Records that the node was made schedulable again, so that what a person does afterwards stays.
source lib-job.sh
rm -f "$KEEP/cordoned"
