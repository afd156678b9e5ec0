// The part of machined that thinks: an ordinary child of process 1 that may die at any line.
//
// It owns the store, the logs, the events, the controllers, the services and the sequences of this
// machine, and serves them on /run/talos/machined.sock. Whatever has to outlive it is in process
// 1's keeping: listening sockets ("listen/<service>"), log rings, the store's journal, the
// histories of services, a config that is being applied or tried, and how far the machine has come
// ("progress"). A new brain takes all that up, in the order that run() lists, adopts the services
// that run, and goes on with the sequence that its predecessor was in (machine-life.h).
//
// Here the parts are made, each after those that it needs, and connected: what they do is theirs.
#pragma once

#include <kj/async-io.h>

#include <random>

#include "common/base/kernel-arguments.h"
#include "machined/boot/announcements.h"
#include "machined/boot/machine-life.h"
#include "machined/boot/maintenance-mode.h"
#include "machined/brain/daemon-loader.h"
#include "machined/brain/held-sockets.h"
#include "machined/brain/node-environment.h"
#include "machined/brain/node-serving.h"
#include "machined/brain/upgrades.h"
#include "machined/config/volume-keys.h"
#include "machined/config/controllers/controller-parts.h"
#include "machined/config/controllers/machine-status-controller.h"
#include "machined/config/debug-console.h"
#include "machined/config/maintenance-notice.h"
#include "machined/config/node-sources.h"
#include "machined/confined/parser-client/parser-process-client.h"
#include "machined/disk/volumes/file-system-health.h"
#include "machined/disk/volumes/installer-client.h"
#include "machined/disk/volumes/node-reset.h"
#include "machined/disk/volumes/user-disks.h"
#include "machined/kubernetes/etcd/etcd-config.h"
#include "machined/kubernetes/etcd/etcd-departure.h"
#include "machined/kubernetes/etcd/etcd-run.h"
#include "machined/kubernetes/kept-versions.h"
#include "machined/kubernetes/kubelet/node-drain.h"
#include "machined/logs/history/boot-log-recorder.h"
#include "machined/process1/value-in-memory-file.h"
#include "machined/system/sysctls.h"
#include "machined/system/system-mounts.h"
#include "machined/system/time/kernel-clock.h"
#include "machined/upgrade/upgrade-to-config-image.h"
#include "rpc/held.capnp.h"

namespace talos::machined {

class Wiring final : private kj::TaskSet::ErrorHandler {
 public:
  // `process1` has been told the inventory already.
  Wiring(kj::AsyncIoContext& io, Process1& process1) : io(io), process1(process1) {}
  KJ_DISALLOW_COPY_AND_MOVE(Wiring);

  // Does not end but by an exception: then the process should, and process 1 starts another.
  kj::Promise<void> run();

 private:
  friend class NodeUpgrades;
  kj::AsyncIoContext& io;
  Process1& process1;

  // What the machine is.
  kj::Timer& timer = io.provider->getTimer();
  const kj::Clock& clock = kj::systemPreciseCalendarClock();
  std::minstd_rand generator{std::random_device{}()};
  KernelArguments arguments = kernelArguments();
  kj::String platform = platformOf(arguments);
  Mode mode = modeOfPlatform(platform);
  bool container = mode == Mode::kContainer;
  UvLoop uv{io.unixEventPort, timer};
  ConfinedForeign foreign{io};

  // What it tells.
  Events events{clock, process1};
  Logs logs{process1, io.unixEventPort};
  Console console{logs, clock, container ? ConsoleKind::kOutput : ConsoleKind::kKernelLog};
  Announcements announcements{events, console, logs};

  // What it knows.
  Registry registry;
  Store store{registry, clock};
  MachineConfigReader configReader;
  ControllerRuntime controllers{store, logs, timer, clock, KJ_BIND_METHOD(*this, chance)};
  MachineStatus status{KJ_BIND_METHOD(*this, statusChanged)};
  Held<rpc::HeldCount> toldRepairs{process1, "events/network"};

  // What runs on it. The time is kept by a service, which has to end before it.
  KernelClock kernelClock{uv, KJ_BIND_METHOD(announcements, time)};
  UdpTimeNetwork timeNetwork{io.unixEventPort, foreign};
  TimeService time{supervisor, timeDependencies()};
  Supervisor supervisor{supervisorDependencies()};

  Containerd containerd{*io.lowLevelProvider, timer};

  // Its disks, and what the config makes of the system.
  RealVolumes volumes{uv, io.unixEventPort, timer, foreign, alarmAt("")};
  RealInstaller installer{io, [this](kj::StringPtr line) { console.say(line, Tone::kAlarm); }};
  RealLuks luks{io, uv};
  ReadPool reads{io.unixEventPort, timer, {}, [this](kj::StringPtr line) {
                   console.say(kj::str("warning: ", line), Tone::kAlarm);
                 }};
  MetaPartition meta{timer};
  StateKeysInMeta stateKeys{meta, reads};
  MetaFormatMarks marks{reads, meta};
  StoredVolumeReports volumeReports{store};
  SystemPartitions partitions{{.luks = luks,
                               .stateKeys = stateKeys,
                               .installer = installer,
                               .marks = marks,
                               .mappings = []() { return readMappings(); },
                               .uuid = systemUuid,
                               .say = alarmAt("warning: "),
                               .reports = volumeReports,
                               .backups = KJ_BIND_METHOD(*this, headerBackups)}};
  StateVolume state{uv,
                    timer,
                    volumes,
                    partitions,
                    container ? StateOn::kLauncher : StateOn::kDisk,
                    alarmAt("warning: ")};
  EphemeralVolume ephemeral{uv, timer, volumes, installer, partitions, alarmAt("warning: ")};
  kj::Own<Reset> reset = makeReset();
  UserDisks userDisks{uv, timer, volumes, installer, alarmAt("warning: ")};
  // Each file system whose disk hangs keeps a thread of its own, and none of the API's clients.
  ReadPool looks{io.unixEventPort, timer, {.threads = 16, .mostThreads = 32}, alarmAt("")};
  FileSystemWatch fileSystems{fileSystemsOfDisks(timer, looks, KJ_BIND_METHOD(*this, mountsToWatch),
                                                 KJ_BIND_METHOD(*this, fileSystemsChanged))};
  BootRecorder recorder{recorderDependencies()};
  KernelMounts mounts;
  UserSysctls sysctls{"/proc/sys", "/system/run/sysctls",
                      container ? SysctlScope::kNetwork : SysctlScope::kAll};

  // Its config.
  NodeConfigSources sources{sourcesDependencies()};
  StateDisk stateDisk{uv, container ? Keeper::kLauncher : Keeper::kDisk, kStateConfig,
                      KJ_BIND_METHOD(state, lockedProblem)};
  VolumeKeys volumeKeys{{store, configReader, partitions,
                         [this](kj::StringPtr label) {
                           return label == kStateName ? state.mounted() : ephemeral.mounted();
                         },
                         container}};
  ConfigKeeper config{keeperDependencies()};
  MaintenanceMode maintenance{config, status, supervisor, controllers};
  MaintenanceNotice notice{store, KJ_BIND_METHOD(config, inMaintenance),
                           [this](kj::StringPtr text) { console.say(text, Tone::kAlarm); }};
  DebugConsole debugConsole{store, configReader, logs, console};

  ControllerParts controllerParts{partsOfControllers()};
  KeptVersions keptVersions{
      {[this](kj::Function<void()> work) { return uv.blocking(kj::mv(work)); },
       [this]() { return state.isMounted(); }}};
  RealImageArchives archives{archivesDependencies()};
  NodeUpgrades upgrades{*this};
  Upgrader upgrader{upgraderDependencies()};
  InstallImage installImage{installImageDependencies()};

  // Its life.
  TaskParts parts{arguments, uv,           timer,       process1,   events,      console,
                  store,     configReader, controllers, supervisor, kernelClock, mounts,
                  sysctls,   state,        recorder,    config,     containerd,  installer,
                  ephemeral, *reset,       userDisks,   upgrader,   installImage};
  Sequencer sequencer{announcements, timer, kj::systemPreciseMonotonicClock()};
  MachineLife life{lifeDependencies()};

  EtcdRun etcd{{.timer = timer,
                .blocking = [this](kj::Function<void()> work) { return uv.blocking(kj::mv(work)); },
                .store = store,
                .supervisor = supervisor,
                .unpack =
                    [this](auto spec, kj::StringPtr snapshot, kj::StringPtr folder) {
                      return unpackSnapshot(io, spec, snapshot, folder);
                    },
                .membership = etcdMembership()}};

  KubeletRun kubelet{
      {.timer = timer,
       .clock = clock,
       .blocking = [this](kj::Function<void()> work) { return uv.blocking(kj::mv(work)); },
       .store = store,
       .supervisor = supervisor}};

  NodeDrain nodeDrain{
      {timer, store, KJ_BIND_METHOD(*this, readKubeletPair), [this](kj::StringPtr line) {
         announcements.drain(line);
         upgrader.reportDrain(line);
       }}};

  EtcdDeparture departure{{timer,
                           [this]() {
                             return configReader.view(store)
                                 .map([](MachineConfigView&& view) { return runsEtcd(view); })
                                 .orDefault(false);
                           },
                           etcdMembership(),
                           [this](kj::StringPtr line) { console.say(line, Tone::kAlarm); }}};

  // Its doors.
  NodeServing serving{servingDependencies()};
  DaemonLoader daemons{machined::daemons(),
                       {supervisor,
                        {*io.lowLevelProvider, store, serving.networkd(), serving.etcdSupervisor(),
                         containerd, etcd, kubelet},
                        [this](const Daemon& daemon) { return openDoor(process1, daemon); }}};
  kj::TaskSet tasks{*this};

  // What the parts are connected by.
  rpc::EtcdSupervisor::Client etcdMembership() {
    return reconnecting(*io.lowLevelProvider, timer, kj::str(kEtcdSupervisorSocket))
        .castAs<rpc::EtcdSupervisor>();
  }
  TimeFollower::Dependencies timeDependencies();
  Supervisor::Dependencies supervisorDependencies();
  NodeConfigSources::Dependencies sourcesDependencies();
  ConfigKeeper::Dependencies keeperDependencies();
  MachineLife::Dependencies lifeDependencies();
  BootRecorder::Dependencies recorderDependencies();
  kj::Promise<void> keepReason(kj::StringPtr reason);
  kj::Own<Reset> makeReset();
  NodeServing::Dependencies servingDependencies();
  Upgrader::Dependencies upgraderDependencies();
  InstallImage::Dependencies installImageDependencies();
  RealImageArchives::Dependencies archivesDependencies();
  kj::Promise<void> requireOfEtcd(bool preserve);
  kj::Promise<kj::Maybe<pki::Pem>> readKubeletPair();
  kj::Function<void(kj::StringPtr)> alarmAt(kj::StringPtr prefix);
  double chance() { return std::uniform_real_distribution<double>(0, 1)(generator); }
  void statusChanged();
  kj::Vector<kj::String> mountsToWatch();
  void fileSystemsChanged(kj::ArrayPtr<const kj::StringPtr> fresh);
  kj::Maybe<kj::String> headerBackups();
  void timeChanged();
  void clockStepped();
  void trialChanged(kj::StringPtr what);
  kj::Array<kj::String> environment(kj::StringPtr service, kj::ArrayPtr<const kj::String> own);

  // The steps of run().
  kj::Promise<kj::Maybe<kj::String>> recoverRecords();
  void sayIfStartedAgain();
  kj::Promise<void> followPowerActions();
  void taskFailed(kj::Exception&& e) override;

  // controllers.cc
  void addControllers();
  ControllerParts partsOfControllers();
  void addKubernetesControllers();
  void addStateControllers();
  kj::Own<Controller> timeController();
  kj::Own<Controller> repairController();
  kj::Own<Controller> installImageController();  // upgrades.cc
  MachineStatusController::State machineState();
};

}  // namespace talos::machined
