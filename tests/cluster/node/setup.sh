# Run by the first process of the new namespaces, before anything else in them.
# $1 is the scratch directory, $2 the node's address, $3 the name of the cgroup.
set -euo pipefail
hostname node1
ip link set lo up
ip addr add "$2/32" dev lo
# ClusterIPs: any route will do, since NAT comes after it.
ip route add 10.0.0.0/16 dev lo src "$2"
echo 1 > /proc/sys/net/ipv4/ip_forward

# The kubelet wants kernel settings that no namespace separates: it reads them from files here,
# and does not write them (`protectKernelDefaults`).
mkdir -p "$1/sys" "$1/var/upper" "$1/var/work"
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    file="$1/sys/$(echo "${setting%%=*}" | tr / .)"
    echo "${setting##*=}" > "$file"
    mount --bind "$file" "/proc/sys/${setting%%=*}"
done

# Fixed paths of the kubelet and of the network plugins: /var/log/containers,
# /var/lib/kubelet/device-plugins, /var/lib/cni.
mount -t overlay overlay -o "lowerdir=/var,upperdir=$1/var/upper,workdir=$1/var/work" /var
mount -t tmpfs tmpfs /run

# The kubelet makes its cgroups below this one, which it wants to find in every hierarchy.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mkdir "/sys/fs/cgroup/$3"
else
    for hierarchy in /sys/fs/cgroup/*/; do
        [ "$hierarchy" = /sys/fs/cgroup/unified/ ] || mkdir "$hierarchy$3"
    done
fi
