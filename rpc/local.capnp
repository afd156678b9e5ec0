@0xf7ed086cdfd44089;
# What the daemons of one machine say to each other over /run/talos/<daemon>.sock.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using Node = import "node.capnp".Node;
using Store = import "resources.capnp".Store;
using Resource = import "resources.capnp".Resource;
using Network = import "network.capnp".Network;

interface Machined {
  # Bootstrap of /run/talos/machined.sock. Who is calling is told by SO_PEERCRED.
  node @0 () -> (node :Node);      # uid 0 and apid only; all rights: apid attenuates it for its clients
  store @1 () -> (store :Store);
  maintenanceNode @2 () -> (node :Node);
  # The same callers as node(). For clients that apid could not authenticate: serves what is marked
  # $maintenance, and that only while the machine has no config; machined itself looks at each call, so
  # nothing that apid has not heard yet opens a machine that has one.
  audit @3 (record :AuditRecord) -> ();
  # apid only: a line of the log `audit`.
}
struct AuditRecord {
  client @0 :Text;                 # the name in the client's certificate
  address @1 :Text;                # where the client is
  via @2 :Text;                    # the machine that forwarded the call, if it was
  roles @3 :List(Text);
  call @4 :Text;                   # Services.restart(id: "kubelet"); secrets are ***
  outcome @5 :Text;                # ok, or kind and message of the error
  durationUs @6 :UInt64;
}
interface Networkd {
  # Bootstrap of /run/talos/networkd.sock.
  network @0 () -> (network :Network);
  ready @1 () -> ();               # health check: answers once the first configuration pass is done
  plan @2 (specs :List(Resource)) -> (steps :List(Text), problems :List(Text));
  # What would be done if these were all the specs (links, addresses, routes), as LinkPlans tells it. Changes
  # nothing.
}
