@0x954f13e8248cea21;
# Resources of etcd: its part of the config, how it is run, its state and its members.
# Field order is the order in which `get` prints keys and columns.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";
using Config = import "config.capnp";

struct EtcdConfigSpec $A.resource((type = "EtcdConfigs.etcd.talos.dev", namespace = "etcd")) {
  # The part of a control-plane node's config that is about etcd, with addresses resolved. The id is etcd.
  name @0 :Text $A.column("Name");              # of the member: the host name
  image @1 :Text;                               # empty: etcd of the system
  extraArgs @2 :List(Config.StringPair) $A.map;
  addresses @3 :List(Text) $A.column("Addresses");  # of the node, without shared addresses; the first is advertised
  listenAddresses @4 :List(Text);               # empty: every address
  peers @5 :List(Text);                         # names or addresses of the other control-plane nodes
  bootstraps @6 :Bool;                          # machine.type: init
  shared @7 :List(Text);                        # addresses that move between the control-plane nodes
  authorities @8 :Text;                         # PEM: CAs of the members, whose snapshots this node restores
  waitsFor @9 :Text;                            # what this node lacks for its present config; empty: nothing. The rest
                                                # is of the config before
}
struct EtcdSpecSpec $A.resource((type = "EtcdSpecs.etcd.talos.dev", namespace = "etcd")) {
  # The arguments of etcd on this node, which etcd-supervisor writes and machined carries out. The id is etcd.
  waitsFor @0 :Text $A.column("Waits for");     # why etcd must not run; empty: it must run
  image @1 :Text;                               # empty: etcd of the system
  arguments @2 :List(Config.StringPair) $A.map;          # without dashes, sorted
  recoverFrom @3 :Text;                         # a snapshot to restore before the start; removed then
  skipHashCheck @4 :Bool;                       # of the snapshot
  configVersion @5 :UInt64;                     # of the EtcdConfigs/etcd from which the arguments were made
  formerAddresses @6 :List(Text);               # at which other members may still call this one: its certificates name them
  proxy @7 :Text;                               # HTTPS_PROXY of etcd, with which it reaches members that have other
                                                # addresses than etcd knows; empty: none
}
struct EtcdStatusSpec $A.resource((type = "EtcdStatuses.etcd.talos.dev", namespace = "etcd")) {
  # The id is etcd.
  phase @0 :Text $A.column("Phase");            # waiting, bootstrapping, joining, learner, member, leaving or left
  member @1 :Text $A.column("Member");          # its id, in hexadecimal
  leader @2 :Text $A.column("Leader");          # name of the leader
  voters @3 :UInt32 $A.column("Voters");        # of the whole cluster
  tolerates @4 :UInt32 $A.column("Tolerates");  # how many more of them may fail
  message @5 :Text $A.column("Message");        # the current step, or what it waits for, and why
  alarms @6 :List(Text);                        # master-1: NOSPACE
  changed @7 :Text;                             # RFC 3339: start of the phase
}
struct EtcdMemberSpec $A.resource((type = "EtcdMembers.etcd.talos.dev", namespace = "etcd")) {
  # The id is the member's, in hexadecimal.
  name @0 :Text $A.column("Name");              # empty: it has not started yet
  peerUrls @1 :List(Text) $A.column("Peer URLs");
  clientUrls @2 :List(Text) $A.column("Client URLs");
  learner @3 :Bool $A.column("Learner");
}
struct EtcdBackupConfigSpec
    $A.resource((type = "EtcdBackupConfigs.etcd.talos.dev", namespace = "etcd", sensitive = true)) {
  # cluster.etcd.backup, with defaults filled in. The id is etcd.
  endpoint @0 :Text $A.column("Endpoint");
  bucket @1 :Text $A.column("Bucket");
  prefix @2 :Text $A.column("Prefix");
  region @3 :Text;
  accessKey @4 :Text;
  secretKey @5 :Text $A.secret;
  authorities @6 :Text;                         # PEM; empty: the public CAs
  everySeconds @7 :UInt32;
  keep @8 :UInt32;
  recipient @9 :Text;                           # PEM
}
struct EtcdBackupStatusSpec $A.resource((type = "EtcdBackupStatuses.etcd.talos.dev", namespace = "etcd")) {
  # Written by etcd-supervisor, if the config has cluster.etcd.backup. The id is etcd.
  phase @0 :Text $A.column("Phase");            # waiting, uploading; standby: another member leads, and takes snapshots
  newest @1 :Text $A.column("Newest");          # name of the newest snapshot in the store
  taken @2 :Text $A.column("Taken");            # RFC 3339: time of that snapshot
  bytes @3 :UInt64 $A.column("Bytes");          # of the newest snapshot that this node uploaded since it started
  kept @4 :UInt32 $A.column("Kept");            # snapshots in the store
  next @5 :Text $A.column("Next");              # RFC 3339: when the next snapshot is due
  message @6 :Text $A.column("Message");        # why there is no snapshot, or which member takes them
}
