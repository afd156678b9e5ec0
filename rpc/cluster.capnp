@0x973b934f3f225713;
# What `talosctl cluster create` remembers of a local cluster: <state>/<name>/state.yaml (0600).

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");

struct LocalCluster {
  provisioner @0 :Text;            # qemu
  name @1 :Text;
  networkName @2 :Text;            # of the bridge inside the cluster's own network namespace
  cidr @3 :Text;
  gateway @4 :Text;                # the supervisor's address on the bridge
  mtu @5 :UInt32;
  accelerator @6 :Text;            # kvm or tcg
  kernel @7 :Text;                 # paths
  initramfs @8 :Text;
  qemuRoot @9 :Text;               # tree that holds QEMU and its libraries; empty: the host's own QEMU
  nodes @10 :List(LocalNode);
  withoutConfig @11 :Bool;         # the nodes boot into maintenance mode
  isoPath @12 :Text;               # a volume that every node has read-only; empty: none
  extraKernelArguments @13 :List(Text);  # one word each; a key replaces that of the usual ones
  isoInDrive @14 :Bool;            # it is an ISO 9660 volume: in a CD-ROM drive, else a disk
  clock @15 :Text;                 # what the nodes' clocks show at the start; empty: the time
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
  stateDisk @8 :UInt64;            # bytes; 0 in clusters that were made before there was one
}
