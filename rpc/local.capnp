@0xf7ed086cdfd44089;
# Interfaces between the daemons of one machine, on /run/talos/<daemon>.sock.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using Node = import "node.capnp".Node;
using Store = import "resources.capnp".Store;
using Resource = import "resources.capnp".Resource;
using Network = import "network.capnp".Network;
using Etcd = import "etcd.capnp".Etcd;
using Kubernetes = import "kubernetes.capnp".Kubernetes;
using JoinTokens = import "join-tokens.capnp".JoinTokens;
using LogStream = import "config-monitoring.capnp".LogStream;

interface Machined {
  # Bootstrap of /run/talos/machined.sock. SO_PEERCRED identifies the caller.

  node @0 (client :Text, request :Text) -> (node :Node);
  # Returns this node with all rights: apid attenuates it for its clients. `client`: the client for which apid forwards
  # calls on this connection; the same text after the client has reconnected. Empty: none. `request`: the id of the
  # request that the calls are part of; without a valid id, they are not traced.

  store @1 () -> (store :Store);
  # Returns a store that allows what the uid of the caller may do.

  maintenanceNode @2 (request :Text) -> (node :Node);
  # For clients without a certificate: serves the methods that are marked $maintenance, and only while the machine has
  # no config. machined checks this at each call, because apid may learn of a config later. `request`: as in node().

  audit @3 (record :AuditRecord) -> ();
  # Writes a line of the log `audit`.

  logFeed @4 () -> (feed :LogFeed);
  # For logd.

  joinTokens @5 () -> (tokens :JoinTokens);
  # For trustd: the join tokens of etcd-supervisor. PermissionDenied for other users; Unavailable while etcd-supervisor
  # does not run.
}
interface LogFeed {
  # All logs of the machine, each in its order, from any position on.

  follow @0 (streams :List(LogStream), boot :Text, known :List(LogPosition), sink :LogFeedSink) -> ();
  # Sends lines until the caller drops the call. Logs that `known` lacks, and all logs if `boot` is not the running
  # boot, begin with the oldest line that is kept. ResourceExhausted when there are 16 followers already.
}
struct LogPosition { stream @0 :LogStream; id @1 :Text; next @2 :UInt64; }
interface LogFeedSink {
  begin @0 (boot :Text) -> ();
  # Called first. `boot`: the boot that the positions belong to.

  lines @1 (stream :LogStream, id :Text, bytes :Data, next :UInt64) -> stream;
  # Whole lines of one log, at most 24 KiB; `next` is the position after them. Streams `services` and `audit`: as in the
  # log. `kernel`: "<facility>,<level>,<sequence>,<microseconds since the boot>,<nanoseconds since 1970>;<message>".
  # `events`: Event messages in base64 (common/wire/event-line.h).

  missed @2 (stream :LogStream, id :Text, count :UInt64, next :UInt64) -> stream;
  # `count` bytes (of the kernel's log: records) were overwritten before they could be sent.
}
struct AuditRecord {
  client @0 :Text;                 # the name in the client's certificate
  address @1 :Text;                # address of the client
  via @2 :Text;                    # the machine that forwarded the call; empty: it was not forwarded
  roles @3 :List(Text);
  call @4 :Text;                   # Services.restart(id: "kubelet"); secrets are ***
  outcome @5 :Text;                # ok, or kind and message of the error
  durationUs @6 :UInt64;
  request @7 :Text;                # id of the request; empty: none
}
interface Networkd {
  # Bootstrap of /run/talos/networkd.sock.

  network @0 (request :Text) -> (network :Network);
  # Returns the interface for clients. `request` is that of Machined.node().

  ready @1 () -> ();
  # Answers once the first configuration pass is done, even if a part of it failed: the health check
  # of networkd.

  plan @2 (specs :List(Resource)) -> (steps :List(Text), problems :List(Text));
  # Returns the steps and problems that there would be if these were all the specs (links,
  # addresses, routes), in the form of LinkPlans. Changes nothing.
}
interface EtcdSupervisor {
  # Bootstrap of /run/talos/etcd-supervisor.sock.

  etcd @0 (request :Text, client :Text) -> (etcd :Etcd);
  # Returns the interface for clients. The parameters are those of Machined.node(). A join token is
  # recorded as created by `client`.

  ready @1 () -> ();
  # Answers once it knows its config and its data directory: the health check of etcd-supervisor.

  health @2 () -> ();
  # Answers when the local member of etcd answers correctly: the health check of etcd.
  # Errors: Unavailable with the reason when it does not.

  outlook @3 (kind :DepartureKind) -> (members :List(Etcd.Member), objection :Text);
  # Returns how the etcd cluster would be after this node has left or restarts; changes nothing.
  # `members`: those of Etcd.members(); empty: the node is in no cluster. `objection`: why the node
  # should stay, and what to do about it; empty: no objection.

  withdraw @4 (kind :DepartureKind, force :Bool) -> ();
  # Makes the node leave its cluster, for a machine that is erased: like Etcd.leave(), but refused
  # for each objection of outlook() (`force`: only for what Etcd.leave() with force refuses), and
  # done when the node is no member any more: its data may still exist. Does nothing if the node is
  # in no cluster.
  # A node that only restarts stays a member: the call waits for the node's turn to be away, a
  # minute at most. The node keeps the turn until it is gone, for 5 minutes, or until stay().
  # Errors: FailedPrecondition for an objection, and while another withdraw() runs. Unavailable when
  # no member can be reached. DeadlineExceeded when another node has the turn, or changes the
  # members, for too long.
  # Repeat: safe after an error, and after the answer.

  stay @5 () -> ();
  # Cancels a withdraw() for a restart, so that another node may restart.
  # Repeat: does nothing without a turn.

  recoveryFailed @6 (error :Text) -> ();
  # Ends a recovery: the snapshot of the spec cannot be unpacked, and nothing of it is left in the
  # data directory. Called by machined. Etcd.bootstrap() rejects with `error`. When this answers, no
  # spec has the snapshot any more.
  # Errors: FailedPrecondition when the data directory is not empty.
  # Repeat: does nothing without a recovery.

  rerun @7 () -> (turn :EtcdTurn);
  # Waits for the turn to restart etcd of this node with other arguments. Called by machined.
  # Resolves when no change of members is under way and the other members can do without this one
  # for a moment, in which no other node restarts its own.
  # Errors: FailedPrecondition when the member is needed. DeadlineExceeded when others had their
  # turn for a minute. Unavailable when no member can be reached. Conflict while another call waits
  # for the turn, or has it.
  # Cancel: ends the wait. The turn ends when `turn` is dropped and the member is healthy again, or
  # after 2 minutes.

  joinTokens @8 () -> (tokens :JoinTokens);
  # Returns the join tokens, for trustd. Called by machined. Valid as long as the connection.
}
interface EtcdTurn {}
interface Kubed {
  # Bootstrap of /run/talos/kubed.sock.

  kubernetes @0 (request :Text) -> (kubernetes :Kubernetes);
  # `request`: as in Machined.node().
}
enum DepartureKind {
  leaves @0;                       # for good: a reset
  rejoins @1;                      # its data is deleted; it joins again after the reboot: an upgrade without --preserve
  restarts @2;                     # it keeps its data and is away for a while: an upgrade with --preserve
}
