@0xb7d3f0a6c4921e58;
# The duties of a node before an upgrade, stored on STATE: the system on trial has to fulfil them
# (machined/upgrade/node-duties.h). Both systems read this record.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");

struct NodeDuties {
  fulfilled @0 :List(Text);        # names of duties
  failing @1 :List(Text);          # names of duties that failed before: the new system need not fulfil them
  upgrade @2 :Int64;               # ns since 1970: as UpgradeRecord.began
}

struct ConfigTrialRecord {
  # A change of the machine config that is on trial, stored on STATE (machined/config/change-trial.h).
  stage @0 :Stage;
  before @1 :Data;                 # the newest config that was good: the way back; empty in reverted
  fulfilled @2 :List(Text);        # names of duties that were fulfilled before the change
  timeoutMs @3 :UInt64;
  needsCall @4 :Bool;              # the client calls again, so the node has to be reached
  boots @5 :UInt32;                # starts of the node with the config on trial
  reason @6 :Text;                 # reverting, reverted: why
  configs @7 :List(Data);          # SHA-256 of the configs on trial: the newest one, and the running one if the newest is
                                   # staged. The record does not concern another config
  enum Stage {
    trying @0;                     # next: the record is removed; reverting
    reverting @1;                  # `before` is being stored and put into effect. Next: reverted
    reverted @2;                   # last; the next change removes or replaces the record
  }
}
