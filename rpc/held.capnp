@0x84e571175f7ba1e1;
# What the brain of machined leaves with process 1 for its successor (machined/process1/held.h). Read by
# its successor only; the histories of services are held as machine.capnp's Service.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using import "configuration.capnp".ApplyMode;

struct HeldProgress {
  # How far the machine has come ("progress").
  stage @0 :Stage;
  problems @1 :List(Text);         # failed
  enum Stage { initialize @0; boot @1; running @2; failed @3; rebooting @4; shuttingDown @5; }
}
struct HeldChange {
  # A change of the config that is being carried out ("config/pending").
  mode @0 :ApplyMode;
  document @1 :Data;
}
struct HeldTrial {
  # A config on trial ("config/trial").
  deadline @0 :Int64;              # ns of CLOCK_MONOTONIC
  before @1 :Data;
  tried @2 :Data;
}
struct HeldCount {
  number @0 :UInt64;
}
