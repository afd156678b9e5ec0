@0x973b934f3f225713;
# The state file of a local cluster that `talosctl cluster create` made: <state>/<name>/state.yaml (0600).

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");

struct LocalCluster {
  provisioner @0 :Text;            # qemu or container: what most of the nodes are
  name @1 :Text;
  networkName @2 :Text;            # of the bridge inside the cluster's own network namespace
  cidr @3 :Text;                   # IPv4, unless the cluster has IPv6 alone
  gateway @4 :Text;                # the supervisor's address on the bridge, of cidr
  mtu @5 :UInt32;
  accelerator @6 :Text;            # kvm or tcg
  kernel @7 :Text;                 # paths
  initramfs @8 :Text;
  qemuRoot @9 :Text;               # tree of --qemu-root; empty: none was named, and the usual one is found and checked at each start
  nodes @10 :List(LocalNode);
  withoutConfig @11 :Bool;         # the nodes boot into maintenance mode
  isoPath @12 :Text;               # a volume that every node has read-only; empty: none
  extraKernelArguments @13 :List(Text);  # each replaces the default argument with the same key
  isoInDrive @14 :Bool;            # it is an ISO 9660 volume: in a CD-ROM drive, else a disk
  clock @15 :Text;                 # time of the nodes' clocks at the start; empty: the current time
  image @16 :Text;                 # path of the squashfs, of nodes in containers
  withoutUplink @17 :Bool;         # the nodes reach each other and the gateway, nothing else
  configsApplied @18 :Bool;        # the nodes booted without a config, and have had theirs since
  withBootLoader @19 :Bool;        # virtual machines install themselves on their disk, and start from it then
  withUefi @20 :Bool;              # by UEFI, not by a BIOS
  encryptState @21 :Bool;          # virtual machines make their STATE themselves
  cidr6 @23 :Text;                 # IPv6, of a cluster with both families; empty: there is one
  gateway6 @24 :Text;              # the same
  diskServer @22 :Text;            # Unix socket of an NBD server that has the disks of virtual machines; empty: QEMU opens their files
}
struct LocalNode {
  name @0 :Text;
  type @1 :Text;                   # init, controlplane or join
  address @2 :Text;
  endpoint @3 :Text;               # the host's loopback address that leads to this node's port 50000
  mac @4 :Text;
  cpus @5 :UInt32;
  memory @6 :UInt64;               # bytes
  disk @7 :UInt64;                 # bytes
  stateDisk @8 :UInt64;            # bytes; 0: it has none
  provisioner @9 :Text;            # qemu or container; empty in older clusters: qemu
  milliCpus @10 :UInt32;           # of a node in a container: 1000 is one CPU
  state @11 :Text;                 # only in what `cluster show` prints: running, paused, off or failed
  error @12 :Text;                 # why it failed
  uuid @13 :Text;                  # of the machine; empty: none
  userDisks @14 :List(UInt64);     # bytes of each
  address6 @15 :Text;              # IPv6, of a cluster with both families
  pid @16 :UInt32;                 # only in what `cluster show` prints: process 1 of a container, or QEMU; 0: it is off
}

# The supervisor of a cluster serves LocalClusterControl on <state>/<name>/control.sock, to its owner only.
enum PowerAction {
  start @0;                        # as the power button does
  stop @1;                         # orderly; answered when the node is off
  kill @2;                         # cuts its power
  pause @3;                        # nothing in it runs; its clock goes on
  resume @4;
  reset @5;                        # kill, then start
}
struct LocalNodeStatus {
  name @0 :Text;
  state @1 :Text;                  # as LocalNode.state
  error @2 :Text;
  pid @3 :Int32;                   # on the host: a container's process 1, or QEMU; 0: it is off
}
interface LocalClusterControl {
  status @0 () -> (nodes :List(LocalNodeStatus));
  power @1 (node :Text, action :PowerAction);   # answered when it has happened
  stopAll @2 ();                   # orderly, or after a minute at once; answered when all are off
}
