@0xb36a67ff3f783201;
# The machine itself: facts about it, its life cycle, its services and its events.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".maintenance;
using import "annotations.capnp".joining;
using import "annotations.capnp".audit;
using Etcd = import "etcd.capnp".Etcd;

interface Machine {
  version @0 () -> Version $allow("os:reader") $maintenance $joining;
  # Returns the release that runs, its platform, and the id of the boot.

  status @1 () -> Status $allow("os:reader") $maintenance $joining;
  # Returns the stage of the machine, the running sequence, and the problems that stop it.

  memory @2 () -> (fields :List(MemoryField)) $allow("os:reader");
  # Returns every line of /proc/meminfo in its order.

  mounts @3 () -> (mounts :List(Mount)) $allow("os:reader");
  # Returns the mounts of the node with the sizes of their file systems.
  # Errors: DeadlineExceeded when a file system does not answer within 10 s. ResourceExhausted
  # beyond the reads that one client, or the node, may have open.

  processes @4 () -> (processes :List(Process)) $allow("os:reader");
  # Returns the processes of the node.
  # Errors: those of mounts(): DeadlineExceeded, ResourceExhausted.

  stats @5 () -> (stats :List(Stat)) $allow("os:reader");
  # Returns the figures of each running service, from its cgroup.
  # Errors: those of mounts(): DeadlineExceeded, ResourceExhausted.

  reboot @6 () -> (bootId :Text) $allow("os:operator") $audit;
  # Reboots the node, and aborts a running sequence. Answers before the reboot with the id of the
  # boot that ends: a caller waits until version() returns another id.
  # Cancel: has no effect; the node reboots without the caller.
  # Repeat: starts a running shutdown again. A call that arrives after the reboot reboots the node
  # once more.

  shutdown @7 () -> (bootId :Text) $allow("os:operator") $audit;
  # Powers the node off, and aborts a running sequence. Answers before, like reboot().
  # Cancel: has no effect; the node shuts down without the caller.

  time @8 (server :Text) -> (answer :Time) $allow("os:reader");
  # Sends one query to an NTP server: to `server`, or else to the server that the clock follows, or
  # else to the first server of the config. Does not set the clock.
  # Errors: Unavailable with the reason when the server's name cannot be resolved, or it does not
  # answer. InvalidArgument when `server` is longer than a DNS name. FailedPrecondition without
  # `server` on a node that has no time servers. ResourceExhausted beyond the queries that one
  # client, or the node, may have open.

  clientCertificate @9 (request :Data, roles :List(Text), lifetimeS :UInt64) -> (ca :Data, certificate :Data)
      $allow("os:admin") $audit;
  # Issues a certificate for a client of the machine API, with these roles in O and the request's
  # common name (PKCS#10, PEM): the key stays with the caller.
  # Errors: FailedPrecondition on a node without the CA's key, or when the CA expires within a
  # minute. InvalidArgument for a request that is not valid, for no roles or an unknown role, and
  # for a lifetime below a minute or above 10 years. ResourceExhausted for more than 16 roles, or
  # beyond the reads that may be open. DeadlineExceeded when signing takes more than 10 s.
  # Repeat: safe; each call issues another certificate.

  previewReset @10 (labels :List(Text), graceful :Bool)
      -> (disk :Text, targets :List(ResetTarget), etcd :List(Etcd.Member), etcdProblem :Text) $allow("os:reader");
  # Returns the partitions that reset() with these labels would erase, in its order; changes
  # nothing. Without labels: the whole system disk, with its partition table. `etcd`: the members of
  # the node's cluster, its own among them; empty: the node is in no cluster, or `etcdProblem` says
  # why they are not known.
  # Errors: InvalidArgument for an unknown label, or more than 16 labels. NotFound for a missing
  # partition. FailedPrecondition on a node that is not installed on a disk, and, if `graceful`,
  # where reset() would refuse to leave etcd. DeadlineExceeded when the disks and etcd do not answer
  # within 25 s. ResourceExhausted as for mounts().

  reset @11 (graceful :Bool, reboot :Bool, labels :List(Text)) -> (bootId :Text) $allow("os:admin") $audit;
  # Erases what previewReset() returns, and then reboots or powers off. Answers, like reboot(), when
  # no crash and no power cut can cancel the reset any more. `graceful`: before that point the node
  # leaves its etcd cluster, and pods get the time to end.
  # Errors: those of previewReset() for its labels: InvalidArgument, NotFound. FailedPrecondition,
  # and nothing has been changed, when leaving would cost the cluster its quorum, another voter is
  # unhealthy, or another reset was accepted. Unavailable or DeadlineExceeded, and nothing has been
  # erased, when the node could not leave.
  # Cancel: has no effect; the reset is accepted, or fails, without the caller.
  # Repeat: after an error, a second reset continues where the first one stopped. After the answer,
  # FailedPrecondition.

  kubeconfig @12 () -> (kubeconfig :Data) $allow("os:admin") $audit;
  # Returns an admin kubeconfig with its own new key pair (PEM in YAML), for the endpoint of the
  # cluster. It is valid as long as cluster.adminKubeconfig.certLifetime says.
  # Errors: FailedPrecondition on a node that has no CA of Kubernetes.
  # Repeat: safe; each call issues another certificate.

  netstat @13 (process :Int32) -> (sockets :List(Socket), leftOut :UInt64) $allow("os:reader");
  # Returns the TCP, UDP and raw IP sockets of the node, or of the network namespace of this
  # process, in the kernel's order, as many as an answer holds.
  # Errors: NotFound for a process that does not exist. DeadlineExceeded, ResourceExhausted as for
  # mounts().

  cgroups @14 () -> (groups :List(Cgroup), leftOut :UInt64) $allow("os:reader");
  # Returns the control groups of the node, each before those below it and siblings by name; the
  # first one is the root.
  # Errors: those of mounts(): DeadlineExceeded, ResourceExhausted.

  dependencies @15 () -> (controllers :List(ControllerLinks)) $allow("os:reader");
  # Returns the resources that each controller and each daemon declares to read and write, sorted by
  # name.

  counters @16 (of :Counter) -> (files :List(CounterFile)) $allow("os:reader");
  # Returns counters of the kernel in its own format: the files that Counter names, and no others.
  # Errors: InvalidArgument for a number that Counter lacks. DeadlineExceeded, ResourceExhausted as
  # for mounts().

  samples @17 (lastMs :UInt64) -> (samples :List(Sample), intervalMs :UInt32) $allow("os:reader");
  # Returns the samples of the last five minutes, or only of the last `lastMs` milliseconds; oldest first. They are kept
  # in memory, so a crash of machined's brain loses them.
}

struct Sample {
  # One second of the node: rates of that second, and the state at its end.
  uptimeMs @0 :UInt64;             # at its end
  cpuBusy @1 :UInt16;              # of all processors together, in 1/10 %
  cpuSystem @2 :UInt16; cpuIowait @3 :UInt16; cpuSteal @4 :UInt16;
  load1 @5 :Float32;
  memoryTotal @6 :UInt64; memoryAvailable @7 :UInt64;      # bytes
  diskRead @8 :UInt64; diskWritten @9 :UInt64;             # bytes; of whole disks
  networkReceived @10 :UInt64; networkSent @11 :UInt64;    # bytes; of links that are devices, not of those above them
  processes @12 :UInt32;           # that the machine has
  pressureCpu @13 :Float32; pressureMemory @14 :Float32; pressureIo @15 :Float32;    # "some" of the last 10 s, in %
}

enum Counter {
  load @0;                         # /proc/loadavg
  system @1;                       # /proc/stat
  processors @2;                   # /proc/cpuinfo
  network @3;                      # /proc/net/dev
  disks @4;                        # /proc/diskstats
  frequencies @5;
  # /sys/devices/system/cpu/cpu<n>/cpufreq/scaling_cur_freq, …_min_freq, …_max_freq (kHz) and scaling_governor, the
  # processors by their number, without processors whose frequency has no governor.
  kernel @6;
  # Smaller files, as far as the kernel has them: /proc/pressure/cpu, …/memory and …/io, /proc/vmstat,
  # /proc/net/sockstat, /proc/net/snmp, /proc/net/netstat, and below /proc/sys fs/file-nr,
  # net/netfilter/nf_conntrack_count and …_max.
}
struct CounterFile { path @0 :Text; text @1 :Text; }

struct Socket {
  protocol @0 :Text;               # tcp, tcp6, udp, udp6, udplite, udplite6, raw, raw6
  localAddress @1 :Text; localPort @2 :UInt16;     # of a raw socket the port is the IP protocol
  remoteAddress @3 :Text; remotePort @4 :UInt16;   # 0.0.0.0 or :: and 0 when it is not connected
  state @5 :Text;                  # ESTABLISHED, LISTEN …; empty: a socket without states
  receiveQueue @6 :UInt64; sendQueue @7 :UInt64;   # bytes; of a listening socket: connections that wait
  uid @8 :UInt32; inode @9 :UInt64;
  pid @10 :Int32; program @11 :Text;               # the first process other than process 1 that has it open; 0: none
}

struct Cgroup {
  # Counts and bytes; a limit of -1 means no limit. What the kernel does not count for a group is null, or `uncounted`
  # where a single number is missing.
  const uncounted :Int64 = -2;
  path @0 :Text;                   # below the root, "system/apid"; the root itself is empty
  processes @1 :UInt32;            # in the group itself
  memory @2 :Memory;
  cpu @3 :Cpu;
  pids @4 :Pids;
  io @5 :Io;
  pressure @6 :List(Pressure);
  cpuset @7 :Cpuset;
  struct Memory {
    current @0 :Int64; peak @1 :Int64; min @2 :Int64; low @3 :Int64; high @4 :Int64; max @5 :Int64;
    swapCurrent @6 :Int64; swapMax @7 :Int64; oomKills @8 :Int64;
  }
  struct Cpu {
    usageUs @0 :Int64; userUs @1 :Int64; systemUs @2 :Int64; throttledUs @3 :Int64; throttledPeriods @4 :Int64;
    weight @5 :Int64;
    quotaUs @6 :Int64; periodUs @7 :Int64;         # the quota holds for each period
  }
  struct Pids { current @0 :Int64; peak @1 :Int64; max @2 :Int64; }
  struct Io { readBytes @0 :Int64; writtenBytes @1 :Int64; reads @2 :Int64; writes @3 :Int64; }  # of all disks
  # Lists as the kernel writes them, "0-3,7"; an empty one of version 2 means the list of the group above.
  struct Cpuset { cpus @0 :Text; effectiveCpus @1 :Text; memoryNodes @2 :Text; effectiveMemoryNodes @3 :Text; }
  struct Pressure {
    resource @0 :Text;             # cpu, memory, io
    someAvg10 @1 :Float64; someAvg60 @2 :Float64; someAvg300 @3 :Float64; someTotalUs @4 :Int64;
    fullAvg10 @5 :Float64; fullAvg60 @6 :Float64; fullAvg300 @7 :Float64; fullTotalUs @8 :Int64;
  }
}

struct ControllerLinks {
  name @0 :Text;                   # config.MachineTypeController, networkd
  daemon @1 :Bool;
  reads @2 :List(Input);
  writes @3 :List(Text);           # full names of types
  struct Input { namespace @0 :Text; type @1 :Text; id @2 :Text; }   # an empty id: all of the type
}

struct ResetTarget {
  label @0 :Text;           # STATE
  device @1 :Text;          # /dev/vda5; in a container the folder
  size @2 :UInt64;          # bytes; 0 of a folder
}

struct Time {
  server @0 :Text;
  local @1 :Int64;          # ns since 1970, when the answer came
  remote @2 :Int64;         # time of the server's clock at that moment
}

struct Version {
  tag @0 :Text;
  sha @1 :Text;
  built @2 :Text;           # RFC 3339
  compiler @3 :Text;
  os @4 :Text;
  arch @5 :Text;
  platform @6 :Text;        # metal, container …
  mode @7 :Text;            # metal, cloud, container
  bootId @8 :Text;          # /proc/sys/kernel/random/boot_id
  hostname @9 :Text;
  uptimeMs @10 :UInt64;
}

struct Status {
  # The stage of the machine, and the problems that stop it.
  stage @0 :Stage;
  sequence @1 :Text;        # the running sequence, or empty
  phase @2 :Text;
  problems @3 :List(Text);  # why the machine cannot continue; also on its console
  revertsInMs @5 :UInt64;   # time until a config on trial is reverted. 0: no trial
  brainRestarts @4 :UInt32; # how often process 1 had to start machined's brain again since the boot
  hangingReads @6 :UInt32;  # threads blocked for more than 30 s in a read for a client (files, mounts, processes)
  configSha256 @7 :Text;    # of the bytes of the machine config in use, hexadecimal; empty: no config
  configTrial @8 :ConfigTrial;
  enum Stage {
    # Each stage may be followed by rebooting, shuttingDown or resetting, and none of these by others.
    booting @0;             # next: running, maintenance, failed
    running @1;             # next: booting if process 1 had to start a brain without its records
    failed @2;              # the boot ended with an error; no other stage follows by itself
    rebooting @3;
    shuttingDown @4;
    maintenance @5;         # waits for a config. Next: booting
    resetting @6;
  }
}

struct ConfigTrial {
  # The trial of the newest change of the config that apply() made for good. Mode try has revertsInMs.
  state @0 :State;
  leftMs @1 :UInt64;        # trying: time until the previous config comes back
  lacks @2 :Text;           # trying: what the node did before the change and does not do now; empty: nothing
  reason @3 :Text;          # reverting, reverted: why
  number @4 :UInt64;        # counts the trials since the start of machined
  reached @5 :Bool;         # trying: a client has called the node since the change was in effect
  enum State {
    none @0;                # no trial since the boot
    trying @1;              # next: confirmed, reverting
    confirmed @2;           # the config stays
    reverting @3;           # next: reverted
    reverted @4;            # the previous config is back, until the next change
  }
}

struct MemoryField { name @0 :Text; value @1 :UInt64; unit @2 :Text; }  # unit "kB" or empty
struct Mount {
  filesystem @0 :Text; size @1 :UInt64; available @2 :UInt64; mountedOn @3 :Text;  # bytes
  free @4 :UInt64;          # bytes, including those that are reserved for root
  files @5 :UInt64; filesFree @6 :UInt64;          # inodes; 0 of a file system that does not count them
  type @7 :Text;            # xfs, tmpfs …
  readOnly @8 :Bool;
}
struct Process {
  pid @0 :Int32; ppid @1 :Int32; state @2 :Text; threads @3 :UInt32; cpuTimeMs @4 :UInt64;
  virtualMemory @5 :UInt64; residentMemory @6 :UInt64;      # bytes
  command @7 :Text; executable @8 :Text; args @9 :Text;
}
struct Stat { namespace @0 :Text; id @1 :Text; memoryUsage @2 :UInt64; cpuUsageNs @3 :UInt64; }

interface Services {
  list @0 () -> (services :List(Service)) $allow("os:reader") $joining;
  # Returns all services of the node, sorted by id.

  start @1 (id :Text) -> (response :Text) $allow("os:operator") $audit;
  # Starts a service that is down. Answers when process 1 holds the request, maybe before the
  # service runs.
  # Errors: NotFound for an unknown id. FailedPrecondition for a service that must not be started,
  # whose message names those that may, and while the node shuts down.
  # Cancel: the service is started all the same.
  # Repeat: safe; a service that is not down is not changed.

  stop @2 (id :Text) -> (response :Text) $allow("os:operator") $audit;
  # Stops a service, and answers when its process has exited.
  # Errors: NotFound for an unknown id. FailedPrecondition for a service that must not be stopped.
  # DeadlineExceeded when it has not exited within 20 s; it stays stopping.
  # Cancel: the service is stopped all the same.
  # Repeat: safe; a service that is down is not changed.

  restart @3 (id :Text) -> (response :Text) $allow("os:operator") $audit;
  # Stops a service and starts it again. Answers when process 1 holds the request, maybe before the
  # service runs; a service that carries the API is restarted only after the answer.
  # Errors: NotFound for an unknown id. FailedPrecondition for a service that must not be restarted,
  # whose message names those that may, and while the node shuts down.
  # Cancel: the service is restarted all the same.
  # Repeat: a call while the first restart is under way adds no second one.

  kill @4 (id :Text, signal :Int32) -> () $allow("os:operator") $audit;
  # Sends a signal to the service's main process, as `systemctl kill` does. `machined` is the brain;
  # process 1 is no service.
  # Errors: NotFound for an unknown id. FailedPrecondition when the service does not run, or runs
  # inside machined. InvalidArgument for an unknown signal, and for a signal that would suspend the
  # process.

  setLogLevel @5 (id :Text, level :LogLevel) -> () $allow("os:operator") $audit;
  # Sets the least severe level that the service logs, at once and without a restart, until the node
  # is rebooted; also for a service that does not run yet.
  # Errors: NotFound for an unknown id. FailedPrecondition for a service that is not a program of
  # this system. InvalidArgument for a number that LogLevel lacks.
  # Repeat: safe.

  stack @6 (id :Text) -> (stack :ProgramStack) $allow("os:operator") $audit;
  # Returns where the service's program is at this moment; the program continues.
  # Errors: NotFound for an unknown id. FailedPrecondition for a service that is not a program of
  # this system or does not run. Unavailable while another call reads the stack of this service.
  # DeadlineExceeded when the program does not answer within 2 seconds: it is stopped, or in the
  # kernel.

  keepCores @7 (id :Text, keep :Bool) -> () $allow("os:operator") $audit;
  # Sets whether a crash of the service's program leaves a core besides the report, from now on
  # until the node is rebooted; also for a service that does not run yet.
  # Errors: NotFound for an unknown id. FailedPrecondition for a service that is not a program of
  # this system.
  # Repeat: safe.

  core @8 (report :Text) -> (core :Data) $allow("os:admin") $audit;
  # Returns the core of the crash report of this name: an ELF core, compressed with zstd, with the
  # registers, the stack and the static data of the program, and without its heap.
  # Errors: NotFound when no such report exists, or no core was kept. Unavailable while STATE is not
  # mounted.

  removeCrash @9 (report :Text) -> () $allow("os:operator") $audit;
  # Removes the report and its core, also from STATE.
  # Errors: NotFound when no such report exists, also for a repeated call. Unavailable while STATE
  # is not mounted.
}
struct ProgramStack {
  program @0 :Text; buildId @1 :Text; pid @2 :UInt32;
  frames @3 :List(Text);           # as CrashReportSpec.stack
  waits @4 :List(ProgramWait);     # the longest first
}
struct ProgramWait {
  sinceMs @0 :UInt64;
  text @1 :Text;                   # what it waits for, or the message of its timeout
}
enum LogLevel { info @0; debug @1; warning @2; error @3; }
# A service logs lines of this level and of more severe levels.

enum ServiceState {
  # machined/services/service-lifecycle.h has the finer phases of each state, and their transitions.
  initialized @0;                  # never started. Next: waiting
  preparing @1;                    # next: running, waiting, stopping, finished, failed
  waiting @2;                      # for conditions, or between two runs. Next: preparing, running,
                                   # stopping, finished
  running @3;                      # next: waiting if it ended by itself, stopping
  stopping @4;                     # next: finished
  finished @5;                     # stopped on request. Next: waiting
  failed @6;                       # could not be started. Next: waiting
  skipped @7;                      # not used
}
struct Health { unknown @0 :Bool = true; healthy @1 :Bool; lastMessage @2 :Text; lastChange @3 :UInt64; }
struct Service {
  id @0 :Text;
  state @1 :ServiceState;
  events @2 :List(ServiceEvent);   # the 64 newest, oldest first
  health @3 :Health;
  pid @4 :Int32;                   # 0 when it does not run
  checked @5 :Bool;                # it has a health check: its health is unknown until the first one
  uptime @6 :UInt64;               # of the node, now: ns by a clock that is never set
  starts @7 :UInt32;               # how often it has come to run since the node was started
  logLevel @8 :LogLevel;           # Services.setLogLevel
  keepsCores @9 :Bool;             # Services.keepCores
}
struct ServiceEvent {
  message @0 :Text;
  state @1 :ServiceState;
  time @2 :UInt64;                 # ns since 1970, as the node's clock was set then
  uptime @3 :UInt64;               # as Service.uptime, then; 0: not known
}

interface Events {
  watch @0 (tail :Tail, sink :EventSink, once :Bool) -> () $allow("os:reader");
  # Sends the events of the node, the existing ones that `tail` selects and then the new ones, until
  # the caller drops the call; `once`: until the existing events have been sent. Without a tail: new
  # events only.
  # Errors: InvalidArgument if `after` is no event id, or the tail is of an unknown kind.
  # ResourceExhausted beyond the streams that one client, or the node, may have open.

  previous @1 (boot :Text, sink :EventSink) -> () $allow("os:reader");
  # Sends the events of an earlier boot, as Logs.previous() sends its logs.
  # Errors: FailedPrecondition without a STATE. NotFound for an unknown boot. Unavailable while
  # STATE is not mounted yet, or the node shuts down. DeadlineExceeded when the disk does not
  # answer. ResourceExhausted beyond the reads that may be open.
}
struct Tail { union { none @0 :Void; last @1 :Int32; after @2 :Text; seconds @3 :UInt64; } }
# last: number of newest events (negative: all); after: events after this id; seconds: events of so many seconds.
interface EventSink {
  events @0 (events :List(Event)) -> stream;
  missed @1 (count :UInt64) -> stream;
  # This reader was too slow for the ring of 1000 events: `count` events were never sent; the next ones follow.
}
struct Event {
  id @0 :Text;                     # 20 characters, sortable
  time @1 :UInt64;                 # ns since 1970
  union {
    sequence @2 :SequenceEvent;
    phase @3 :PhaseEvent;
    task @4 :PhaseEvent;
    service @5 :ServiceStateEvent;
    restart @6 :Int64;             # reboot(2) command
    network @7 :NetworkEvent;
    config @8 :ConfigEvent;
    upgrade @9 :UpgradeEvent;
  }
}
enum Action { noop @0; start @1; stop @2; }
struct NetworkEvent { link @0 :Text; message @1 :Text; }
# Another program changed what networkd configures, and networkd repaired it.
struct ConfigEvent { message @0 :Text; revertsInMs @1 :UInt64; }
# A config is on trial (and for how long), or no longer.
struct UpgradeEvent { message @0 :Text; }
# How far an upgrade or a rollback is, and why it failed.
struct SequenceEvent { sequence @0 :Text; action @1 :Action; error @2 :Text; locked @3 :Bool; }
struct PhaseEvent { name @0 :Text; action @1 :Action; }
struct ServiceStateEvent { service @0 :Text; state @1 :ServiceState; message @2 :Text; health @3 :Health; }
