@0x84e571175f7ba1e1;
# What the brain of machined leaves with process 1 for its successor (machined/process1/value-in-memory-file.h). Read by
# its successor only.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using import "configuration.capnp".ApplyMode;
using import "machine.capnp".Service;

struct HeldProgress {
  # How far the machine has come ("progress").
  stage @0 :Stage;
  problems @1 :List(Text);         # failed
  enum Stage { initialize @0; boot @1; running @2; failed @3; rebooting @4; shuttingDown @5; installing @6; resetting @7; }
}
struct HeldReset {
  # A reset that was promised ("reset").
  graceful @0 :Bool;
  reboot @1 :Bool;
  labels @2 :List(Text);           # none: all
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
struct HeldService {
  # A service ("service/<id>"): what users see of it, and what was promised and has not happened yet.
  shown @0 :Service;
  start @1 :Bool;                  # as soon as no process of it is there
  restart @2 :Bool;
  signals @3 :UInt64;              # bit n-1: signal n, to the process `to` only
  to @4 :Int32;
  memoryKills @5 :UInt64;          # of its cgroup, that were told
}
struct HeldCount {
  number @0 :UInt64;
}
