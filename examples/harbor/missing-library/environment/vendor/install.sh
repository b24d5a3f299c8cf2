echo "installing libtotals 2.1"
echo "libtotals-2.1.tar.gz: no such file" >&2
exit 3
