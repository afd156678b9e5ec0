@0xf09f3392161e232f;
# Resources of the machine itself: services, boots, shutdowns, upgrades, its clock and its config.
# Field order is the order in which `get` prints keys and columns.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";

struct ServiceSpec $A.resource((type = "Services.v1alpha1.talos.dev", namespace = "runtime", aliases = ["svc"])) {
  running @0 :Bool $A.column("Running");
  healthy @1 :Bool $A.column("Healthy");
}
struct BootstrapStatusSpec $A.resource((type = "BootstrapStatuses.v1alpha1.talos.dev", namespace = "runtime",
    aliases = ["bootstrapStatus", "bs"])) {
  selfHostedControlPlane @0 :Bool $A.column("Self Hosted");
}
struct TimeStatusSpec $A.resource((type = "TimeStatuses.v1alpha1.talos.dev", namespace = "runtime")) {
  synced @0 :Bool $A.column("Synced");
  epoch @1 :Int64;                              # how often the clock was stepped
  syncDisabled @2 :Bool;
  server @3 :Text $A.column("Server");          # that the clock follows: its name in the config, and its address
  offset @4 :Text $A.column("Offset");          # of the newest measurement, as -1.25ms
  problem @5 :Text;                             # why it is not synced
}
struct MachineStatusSpec $A.resource((type = "MachineStatuses.runtime.talos.dev", namespace = "runtime")) {
  # The problems that stop a machine are also on its console and in Machine.status().
  stage @0 :Text $A.column("Stage");
  ready @1 :Bool $A.column("Ready");
  problems @2 :List(Text);
  revertsAt @3 :Text;                           # RFC 3339: when the config on trial is reverted; empty: no trial
}
struct BootRecordSpec $A.resource((type = "BootRecords.runtime.talos.dev", namespace = "runtime")) {
  # A boot whose logs and events are kept on STATE, this one included. The id is the boot id.
  number @0 :UInt64 $A.column("Number");        # counted on this STATE
  began @1 :Text $A.column("Began");            # RFC 3339, by the clock of that moment
  ended @2 :Text $A.column("Ended");            # last time that the boot wrote; empty: the running boot
  reason @3 :Text $A.column("Reason");          # why it ended, and who requested that
  version @4 :Text $A.column("Version");
}
struct CrashReportSpec $A.resource((type = "CrashReports.runtime.talos.dev", namespace = "runtime", aliases = ["crashes"])) {
  # A crash: a program of this system was ended by the signal of a fault. Kept on STATE, a few for each service. The id
  # is <service>-<number>. No memory contents: of the registers, only those that hold addresses of the code and the
  # stack.
  service @0 :Text $A.column("Service");
  signal @1 :Text $A.column("Signal");          # SIGSEGV
  time @2 :Text $A.column("Time");              # RFC 3339
  uptime @3 :UInt64;                            # of the node, in seconds
  version @4 :Text $A.column("Version");
  program @5 :Text;                             # as it was called: apid
  buildId @6 :Text;                             # of the file with the code, in hexadecimal
  pid @7 :UInt32;
  address @8 :Text;                             # that could not be accessed; empty: the signal came from a process
  sender @9 :UInt32;                            # pid of that process; 0: it was a fault
  registers @10 :List(Text);                    # pc=0x40120f
  stack @11 :List(Text);                        # innermost first: addresses in the file of buildId, 0x40120f
  problem @12 :Text;                            # why parts of the report are missing
  map @13 :List(Text);                          # lines of /proc/<pid>/maps
  log @14 :List(Text);                          # the last lines of the service's log
  waits @15 :List(Text);                        # calls and waits that were under way, each with its start
  core @16 :UInt64 $A.column("Core");           # bytes of its core, which Services.core() gives; 0: no core was kept
}
struct ShutdownRequestSpec $A.resource((type = "ShutdownRequests.runtime.talos.dev", namespace = "runtime")) {
  # The node is about to reboot or shut down: login1 signals the programs that hold a lock and waits for them. The id is
  # node.
  kind @0 :Text $A.column("Kind");              # reboot or shutdown
  number @1 :UInt64;                            # of the request: each one has its own
  limit @2 :UInt32 $A.column("Limit");          # longest wait for them, in seconds
}
struct ShutdownDelaySpec $A.resource((type = "ShutdownDelays.runtime.talos.dev", namespace = "runtime")) {
  # login1's answer to a ShutdownRequest. The id is node.
  state @0 :Text $A.column("State");            # waiting or over
  waitsFor @1 :List(Text) $A.column("Waits for");  # names of the programs that hold a lock
  message @2 :Text $A.column("Message");        # how it ended
  number @3 :UInt64;                            # of the request
}
struct InhibitorSpec $A.resource((type = "Inhibitors.runtime.talos.dev", namespace = "runtime")) {
  # A lock that delays a shutdown, as org.freedesktop.login1 has them. The id is its number.
  who @0 :Text $A.column("Who");
  what @1 :Text $A.column("What");
  why @2 :Text $A.column("Why");
  mode @3 :Text $A.column("Mode");
  uid @4 :UInt32 $A.column("UID");
  pid @5 :UInt32 $A.column("PID");
  since @6 :Text;                               # RFC 3339
}
struct OperationSpec $A.resource((type = "Operations.runtime.talos.dev", namespace = "runtime")) {
  # Work that continues after the call that started it was answered, or whose caller chose its number. The id names the
  # call: apply-config.
  what @0 :Text $A.column("What");
  state @1 :Text $A.column("State");            # running, done or failed
  step @2 :Text $A.column("Step");              # the newest step
  steps @3 :UInt32;                             # that were started
  error @4 :Text $A.column("Error");
  number @5 :UInt64;                            # of the operation: each one has its own
  mode @6 :Text;                                # how the config takes effect: no-reboot, reboot or staged
}
struct UpgradeStatusSpec $A.resource((type = "UpgradeStatuses.runtime.talos.dev", namespace = "runtime")) {
  # The newest upgrade or rollback of an installed node. The id is node.
  stage @0 :Text $A.column("Stage");            # docs/upgrades.md has all of them
  slot @1 :Text $A.column("Slot");              # the running slot
  version @2 :Text $A.column("Version");        # the running version
  image @3 :Text $A.column("Image");            # empty: a rollback
  digest @4 :Text;
  target @5 :Text;                              # the other slot, and the version in it: "B v0.9.0"
  began @6 :Text;                               # RFC 3339
  reason @7 :Text $A.column("Reason");          # of a failure; of a trial, what it waits for; of a fetch, its progress
  canStage @8 :Bool;                            # an older system ignores `stage` of Upgrades.upgrade, reboots at once
}
struct MachineConfigSpec $A.resource((type = "MachineConfigs.config.talos.dev", namespace = "config", sensitive = true))
    $A.inline {
  document @0 :Text $A.raw;                     # the source bytes, comments and all
}
struct MachineTypeSpec $A.resource((type = "MachineTypes.config.talos.dev", namespace = "config")) $A.inline {
  type @0 :MachineType $A.column("Type");
}
enum MachineType { unknown @0; init @1; controlplane @2; join @3; }
