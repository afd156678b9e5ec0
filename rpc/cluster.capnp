@0x973b934f3f225713;
# The state file of a local cluster that `talosctl cluster create` made: <state>/<name>/state.yaml (0600).

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");

struct LocalCluster {
  provisioner @0 :Text;            # qemu or container: kind of most nodes
  name @1 :Text;
  networkName @2 :Text;            # of the bridge inside the cluster's own network namespace
  cidr @3 :Text;                   # IPv4, unless the cluster has IPv6 alone
  gateway @4 :Text;                # the supervisor's address on the bridge, of cidr
  mtu @5 :UInt32;
  accelerator @6 :Text;            # kvm or tcg
  kernel @7 :Text;                 # paths
  initramfs @8 :Text;
  qemuRoot @9 :Text;               # tree of --qemu-root; empty: not given; each start finds and checks the usual tree
  nodes @10 :List(LocalNode);
  withoutConfig @11 :Bool;         # the nodes boot into maintenance mode
  isoPath @12 :Text;               # a volume that every node has read-only; empty: none
  extraKernelArguments @13 :List(Text);  # each replaces the default argument with the same key
  isoInDrive @14 :Bool;            # isoPath is an ISO 9660 volume, in a CD-ROM drive; else it is a disk
  clock @15 :Text;                 # time of the nodes' clocks at the start; empty: the current time
  image @16 :Text;                 # path of the squashfs, of nodes in containers
  withoutUplink @17 :Bool;         # the nodes reach each other and the gateway, nothing else
  configsApplied @18 :Bool;        # the nodes booted without a config, and have got their configs since
  withBootLoader @19 :Bool;        # virtual machines install themselves on their disk, and then start from it
  withUefi @20 :Bool;              # by UEFI, not by a BIOS
  encryptState @21 :Bool;          # virtual machines make their STATE themselves
  cidr6 @23 :Text;                 # IPv6, of a cluster with both families; empty: one family
  gateway6 @24 :Text;              # as `gateway`, of cidr6
  diskServer @22 :Text;            # Unix socket of an NBD server for disks of virtual machines; empty: QEMU opens files
  withMetrics @25 :Bool;           # the nodes' configs have machine.metrics; port 50002 of their endpoints leads to it
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
  stateDisk @8 :UInt64;            # bytes; 0: no such disk
  provisioner @9 :Text;            # qemu or container; empty in older clusters: qemu
  milliCpus @10 :UInt32;           # of a node in a container: 1000 is one CPU
  state @11 :Text;                 # only in the output of `cluster show`: running, paused, off or failed
  error @12 :Text;                 # why it failed
  uuid @13 :Text;                  # of the machine; empty: none
  userDisks @14 :List(UInt64);     # bytes of each
  address6 @15 :Text;              # IPv6, of a cluster with both families
  pid @16 :UInt32;                 # only in the output of `cluster show`: process 1 of a container, or QEMU; 0: off
}

# The supervisor of a cluster serves LocalClusterControl on <state>/<name>/control.sock, to its owner only.
enum PowerAction {
  start @0;                        # as the power button does
  stop @1;                         # orderly; answered when the node is off
  kill @2;                         # cuts its power
  pause @3;                        # suspends the node, but not its clock
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
  power @1 (node :Text, action :PowerAction);   # answered when the action is complete
  stopAll @2 ();                   # orderly, or after a minute at once; answered when all are off
}
