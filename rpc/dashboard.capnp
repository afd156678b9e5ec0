@0xeb230237233508c4;
# State of a cluster at one moment: `talosctl dashboard` draws it, and prints it in YAML and JSON. It is made from the
# answers of nodes and sent to no node.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";
using M = import "machine.capnp";
using O = import "diagnosis.capnp";
using MachineResources = import "machine-resources.capnp";
using MetricsResources = import "metrics-resources.capnp";
using NetworkResources = import "network-resources.capnp";
using EtcdResources = import "etcd-resources.capnp";
using KubernetesResources = import "kubernetes-resources.capnp";
using E = import "etcd.capnp";
using Containers = import "containers.capnp";
using Survey = import "kubernetes.capnp".Survey;

struct Dashboard {
  taken @0 :Text;                  # RFC 3339, by this host's clock
  context @1 :Text;                # of the talosconfig
  endpoint @2 :Text;               # through which the client reaches the nodes; empty: no endpoint answers
  problem @3 :Text;                # why no endpoint answers
  nodes @4 :List(DashboardNode);   # control plane first, then by address
  members @5 :List(E.Etcd.Member);
  quorum @6 :Bool = true;
  membersProblem @7 :Text;
  survey @8 :Survey $A.ifGiven;    # of Kubernetes, by one control-plane node
  surveyProblem @9 :Text;
  diagnosis @10 :O.Diagnosis $A.ifGiven;
}

struct DashboardNode {
  address @0 :Text;                # as requests name it
  error @1 :Text;                  # why it does not answer; the rest is then from its last answer
  silentS @2 :UInt32;              # seconds for which it has not answered
  controlPlane @3 :Bool;
  version @4 :M.Version;
  status @5 :M.Status;
  services @6 :List(M.Service);
  samples @7 :List(M.Sample);      # of the last minute, oldest first
  mounts @8 :List(M.Mount);
  memory @9 :List(M.MemoryField);
  addresses @10 :List(Text);
  links @11 :List(Link);
  time @12 :MachineResources.TimeStatusSpec;
  network @13 :NetworkResources.NetworkStatusSpec;
  upgrade @14 :MachineResources.UpgradeStatusSpec $A.ifGiven;
  etcd @15 :EtcdResources.EtcdStatusSpec $A.ifGiven;
  etcdMember @16 :E.Etcd.MemberStatus $A.ifGiven;
  vips @17 :List(O.Observations.Vip);
  nodeStatus @18 :KubernetesResources.NodeStatusSpec $A.ifGiven;
  certificates @19 :List(Certificate);
  # The fields from here on are requested only from a node that the user looks at.
  cores @20 :List(Core);
  disks @21 :List(Disk);
  groups @22 :List(Group);
  processes @23 :List(Process);
  containers @24 :List(Containers.Container);
  events @25 :List(Event);         # oldest first
  load @26 :Text;                  # of 1, 5 and 15 minutes: "0.10 0.20 0.30"

  struct Link {
    name @0 :Text;
    up @1 :Bool;                   # it has a carrier
    kind @2 :Text;                 # bond, vlan …; empty: a device
    hardware @3 :Bool;             # it has a driver
    mtu @4 :UInt32;
    addresses @5 :List(Text);
    receivedRate @6 :UInt64;       # bytes a second
    sentRate @7 :UInt64;
    errors @8 :UInt64;             # since the link exists, of both directions
    dropped @9 :UInt64;
    ratesKnown @10 :Bool;          # false: its counters were read only once so far
  }
  struct Core {
    name @0 :Text;                 # cpu0
    busy @1 :UInt16;               # of the time, in 1/10 %
    busyKnown @2 :Bool;            # false: its times were read only once so far
  }
  struct Disk {
    name @0 :Text;
    readRate @1 :UInt64;           # bytes a second
    writtenRate @2 :UInt64;
    busy @3 :UInt16;               # of the time, in 1/10 %
    ratesKnown @4 :Bool;           # false: its counters were read only once so far; the same for `busy`
  }
  struct Group {
    path @0 :Text;                 # system/apid
    cpu @1 :UInt32;                # of one processor, in 1/10 %
    memory @2 :UInt64;             # bytes
    processes @3 :UInt32;
    cpuKnown @4 :Bool;             # false: its CPU time was read only once so far
  }
  struct Process {
    pid @0 :Int32;
    command @1 :Text;
    cpu @2 :UInt32;                # of one processor, in 1/10 %
    memory @3 :UInt64;             # bytes
    threads @4 :UInt32;
    state @5 :Text;
    cpuKnown @6 :Bool;             # false: its CPU time was read only once so far
  }
  struct Certificate { id @0 :Text; spec @1 :MetricsResources.CertificateStatusSpec; }
  struct Event { time @0 :UInt64; type @1 :Text; source @2 :Text; message @3 :Text; }   # time: ns since 1970
}
