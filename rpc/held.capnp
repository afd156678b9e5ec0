@0x84e571175f7ba1e1;
# State that the brain of machined stores in process 1, so that the brain that is started after a crash can continue
# (machined/process1/value-in-memory-file.h). Only the brain reads it.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using import "configuration.capnp".ApplyMode;
using import "machine.capnp".Service;

struct HeldProgress {
  # The stage of the machine ("progress").
  stage @0 :Stage;
  problems @1 :List(Text);         # failed
  enum Stage {
    # Each stage may be followed by rebooting, shuttingDown or resetting; these are final, or
    # followed by another of them.
    initialize @0;                 # next: boot, installing, failed
    boot @1;                       # next: running, failed; initialize if the records were lost
    running @2;                    # next: initialize if the records were lost
    failed @3;
    rebooting @4;
    shuttingDown @5;
    installing @6;                 # next: failed
    resetting @7;
  }
}
struct HeldReset {
  # A reset that was promised ("reset").
  graceful @0 :Bool;
  reboot @1 :Bool;
  labels @2 :List(Text);           # empty: all
}
struct HeldChange {
  # A change of the config that is being carried out ("config/pending").
  mode @0 :ApplyMode;
  document @1 :Data;
  noTrial @2 :Bool;                # it also ends the trial that is running
}
struct HeldTrial {
  # A config on trial ("config/trial").
  deadline @0 :Int64;              # ns of CLOCK_MONOTONIC
  before @1 :Data;
  tried @2 :Data;
}
struct HeldService {
  # A service ("service/<id>"): its state as users see it, and the requests that were accepted and not carried out yet.
  shown @0 :Service;
  start @1 :Bool;                  # as soon as it has no process
  restart @2 :Bool;
  signals @3 :UInt64;              # bit n-1: signal n, to the process `to` only
  to @4 :Int32;
  memoryKills @5 :UInt64;          # of its cgroup, that were reported
}
struct HeldCount {
  number @0 :UInt64;
}
struct HeldTexts {
  # Entries of machine.files that the boot could not carry out ("user-files").
  texts @0 :List(Text);
}
