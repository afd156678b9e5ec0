#include "machined/brain/brain.h"

#include <linux/reboot.h>
#include <unistd.h>

#include <random>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/base/process-memory.h"
#include "common/base/version.h"
#include "common/config/config.h"
#include "common/net/resolver.h"
#include "common/wire/rpc-server.h"
#include "machined/api/audit-line.h"
#include "machined/api/files-server.h"
#include "machined/api/kmsg.h"
#include "machined/api/machine-server.h"
#include "machined/api/node-server.h"
#include "machined/boot/boot-progress.h"
#include "machined/boot/config-effects.h"
#include "machined/boot/machine-stage.h"
#include "machined/boot/machine-tasks.h"
#include "machined/boot/sequences.h"
#include "machined/brain/network-preview.h"
#include "machined/brain/surroundings.h"
#include "machined/brain/trustd-service.h"
#include "machined/config/config-keeper.h"
#include "machined/config/configuration-server.h"
#include "machined/config/maintenance-notice.h"
#include "machined/config/node-sources.h"
#include "machined/controllers/api-certificates.h"
#include "machined/controllers/hostname-controller.h"
#include "machined/controllers/join-controller.h"
#include "machined/controllers/machine-status-controller.h"
#include "machined/controllers/machine-type-controller.h"
#include "machined/controllers/network-controller.h"
#include "machined/controllers/network-events.h"
#include "machined/controllers/root-secrets-controller.h"
#include "machined/controllers/service-controller.h"
#include "machined/controllers/time-status-controller.h"
#include "machined/resources/controller-runtime.h"
#include "machined/resources/store-server.h"
#include "machined/services/service-lifecycle.h"
#include "machined/services/service-table.h"
#include "machined/services/services-server.h"
#include "machined/services/supervisor.h"
#include "machined/storage/disks.h"
#include "machined/storage/state-volume.h"
#include "machined/telemetry/node-console.h"
#include "machined/telemetry/telemetry-server.h"
#include "machined/time/kernel-clock.h"
#include "machined/time/time-service.h"
#include "rpc/types.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kSelf = "machined"_kj;
constexpr kj::StringPtr kToldRepairs = "events/network"_kj, kToldMagic = "repairs1"_kj;
// Of one user: apid has a connection for each of its clients, and a few of its own.
constexpr unsigned kMostClients = 1536;
constexpr auto kSettled = 5 * kj::SECONDS;  // after that, nothing of the start is needed any more

// A whole rack may come up at once: who is not served yet waits in the kernel's queue.
kj::AutoCloseFd listenTrustd() {
  return listenTcp(anyAddress(), kTrustdPort, 4096);
}

}  // namespace

struct Brain::Impl final : private SequenceListener, private kj::TaskSet::ErrorHandler {
  kj::AsyncIoContext& io;
  Process1& process1;
  kj::Timer& timer;
  const kj::Clock& clock = kj::systemPreciseCalendarClock();
  std::minstd_rand generator{std::random_device{}()};

  KernelArguments arguments = KernelArguments::ofThisKernel();
  kj::String platform = platformOf(arguments);
  Mode mode = modeOfPlatform(platform);
  Progress progress;

  UvLoop uv;
  Events events;
  Logs logs;
  Console console;
  Registry registry;
  Store store;
  MachineConfigReader configReader;
  MachineStatus status;
  ControllerRuntime controllers;
  Sequencer sequencer;
  Rules nodeRules{capnp::Schema::from<rpc::Node>()};
  KernelClock kernelClock;
  UdpTimeNetwork timeNetwork;
  TimeService time;  // in front of the supervisor, which runs it
  Supervisor supervisor;
  RealVolumes volumes;
  StateVolume state;
  NodeConfigSources sources;
  StateDisk stateDisk;
  ConfigKeeper config;
  MaintenanceNotice notice;
  ConfigEffects effects;
  RealTasks machineTasks;
  bool wired = false;      // controllers and services are there
  bool debugging = false;  // the config asks for all logs on the console
  kj::Own<void> configChanged;
  kj::AutoCloseFd networkdListener, apidListener;
  TrustdService trustd;
  kj::TaskSet tasks;

  Impl(kj::AsyncIoContext& io, Process1& process1)
      : io(io),
        process1(process1),
        timer(io.provider->getTimer()),
        progress(takeProgress(process1)),
        uv(io.unixEventPort, timer),
        events(clock),
        logs(process1, io.unixEventPort),
        console(logs, clock),
        store(registry, clock),
        status([this]() { controllers.poke("runtime.MachineStatusController"); }),
        controllers(store, logs, timer, clock, [this]() { return chance(); }),
        sequencer(*this, timer, kj::systemPreciseMonotonicClock()),
        kernelClock(uv, [this](kj::StringPtr line) { sayOfTime(line); }),
        timeNetwork(io.unixEventPort),
        time(supervisor,
             TimeFollower::World{timer, kernelClock, timeNetwork, [this]() { return chance(); },
                                 randomNonce, [this](kj::StringPtr line) { sayOfTime(line); },
                                 [this]() {
                                   controllers.poke("v1alpha1.TimeStatusController");
                                   // It tells a time of day.
                                   controllers.poke("runtime.MachineStatusController");
                                 },
                                 // Certificates that are not valid any more, or not yet.
                                 [this]() { controllers.poke("secrets.ApiController"); }}),
        supervisor(
            Supervisor::World{process1, timer, clock, [this]() { return chance(); },
                              [this](kj::StringPtr id) { return logs.writer(id); },
                              [this](rpc::ServiceStateEvent::Reader event) { announce(event); },
                              environmentOfServices()}),
        volumes(uv, io.unixEventPort, timer, [this](kj::StringPtr line) { console.say(line); }),
        state(uv, timer, volumes,
              [this](kj::StringPtr line) {
                console.say(line, line.startsWith("warning: ") ? Tone::kAlarm : Tone::kInfo);
              }),
        sources(NodeConfigSources::World{
            arguments, platform, userData(), smbiosUuid, volumes, uv, io.provider->getNetwork(),
            timer, clock, [this]() { return chance(); },
            // What the boot waits for is for a quiet console too.
            [this](kj::StringPtr line) {
              console.say(line, line.startsWith("retrying ") ? Tone::kAlarm : Tone::kInfo);
            },
            [](kj::StringPtr host) { return resolve(host); }}),
        stateDisk(uv),
        config(ConfigKeeper::World{
            configMode(mode), process1, store, configReader, sources, stateDisk, uv, timer,
            [this](kj::StringPtr line, Tone tone) { console.say(line, tone); },
            [this]() { return sequenceOrNext(); },
            [this]() { return status.stage() == MachineStatus::Stage::FAILED; },
            [this]() { return intendReboot(); }, [this]() { soon([this]() { reboot(); }); },
            [this]() { maintenanceChanged(); },
            [this](kj::StringPtr what) { trialChanged(what); }}),
        notice(store, [this](kj::StringPtr text) { console.say(text, Tone::kAlarm); }),
        effects(ConfigEffects::World{store, configReader, supervisor, console, uv, timer}),
        machineTasks(RealTasks::World{arguments, mode, console, status, store, controllers,
                                      supervisor, state, effects, process1, events, uv, timer,
                                      config, kernelClock}),
        trustd(TrustdService::World{store, supervisor, *io.lowLevelProvider,
                                    [this]() { return listener("trustd", listenTrustd); }}),
        tasks(*this) {}

  double chance() { return std::uniform_real_distribution<double>(0, 1)(generator); }

  void taskFailed(kj::Exception&& e) override {
    console.say(kj::str("a part of machined failed: ", messageOf(e)));
  }

  // --- what is heard of sequences and services ---

  void sequence(kj::StringPtr name, rpc::Action action, kj::StringPtr error, bool locked) override {
    events.sequence(name, action, error, locked);
  }
  void phase(kj::StringPtr name, rpc::Action action) override { events.phase(name, action); }
  void task(kj::StringPtr name, rpc::Action action) override { events.task(name, action); }
  void line(kj::StringPtr text) override { console.say(text); }

  void announce(rpc::ServiceStateEvent::Reader event) {
    events.publish([event](rpc::Event::Builder out) { out.setService(event); });
    auto id = event.getService();
    console.say(kj::str("service[", id, "](", nameOf(event.getState()), "): ", event.getMessage()));
  }

  void trialChanged(kj::StringPtr what) {
    auto left = config.revertsIn();
    auto text = kj::str(what);
    KJ_IF_MAYBE (l, left) {
      text = kj::str(what, ": that of before comes back in ", *l / kj::SECONDS, " s, ",
                     "unless another one is applied");
    }
    console.say(kj::str("machine config: ", text), Tone::kAlarm);
    events.publish([&](rpc::Event::Builder out) {
      auto event = out.initConfig();
      event.setMessage(text);
      event.setRevertsInMs(left.orDefault(0 * kj::SECONDS) / kj::MILLISECONDS);
    });
    // What a predecessor left is taken up before there are controllers; they look when they begin.
    if (wired) controllers.poke("runtime.MachineStatusController");
  }

  void tellRepair(kj::StringPtr link, kj::StringPtr what) {
    events.publish([&](rpc::Event::Builder out) {
      auto event = out.initNetwork();
      event.setLink(link);
      event.setMessage(kj::str("was changed by somebody else and is made good: ", what));
    });
  }

  void sayOfTime(kj::StringPtr line) {
    logs.append(kTimed, kj::str(log::format(log::Level::kInfo, line, {}), "\n").asArray());
    console.say(kj::str(kTimed, ": ", line));
  }

  // --- the world ---

  // A listening socket is made once in the life of the machine.
  kj::Promise<kj::AutoCloseFd> listener(kj::StringPtr name, kj::Function<kj::AutoCloseFd()> make) {
    auto heldName = kj::str("listen/", name);
    KJ_IF_MAYBE (held, process1.takeHeld(heldName)) co_return kj::mv(*held);
    auto made = make();
    co_await process1.hold(heldName, made.get());
    co_return kj::mv(made);
  }

  kj::Promise<void> openDoors() {
    makeDirectories(kRunFolder, 0755);
    auto own = co_await listener(kSelf, []() { return listenUnix(kMachinedSocket, 0666); });
    networkdListener =
        co_await listener("networkd", []() { return listenUnix(kNetworkdSocket, 0600); });
    apidListener = co_await listener("apid", [] { return listenTcp(anyAddress(), kApidPort); });
    tasks.add(serve(kj::mv(own)));
  }

  rpc::Networkd::Client networkd() {
    return reconnecting(*io.lowLevelProvider, timer, kj::str(kNetworkdSocket))
        .castAs<rpc::Networkd>();
  }

  rpc::Machine::Client machineServer() {
    auto version = buildVersion();
    MachineIdentity identity{kj::str(version.tag),   kj::str(version.sha),
                             kj::str(version.built), kj::str(version.compiler),
                             kj::str(platform),      kj::str(nameOf(mode))};
    MachineHooks hooks;
    hooks.reboot = [this]() { return accept([this]() { reboot(); }); };
    hooks.shutdown = [this]() { return accept([this]() { shutdown(); }); };
    hooks.status = [this](rpc::Status::Builder out) { fillStatus(out); };
    hooks.services = [this]() { return cgroups(); };
    hooks.time = [this](kj::String server) { return askTime(kj::mv(server)); };
    hooks.authority = [this]() { return authority(); };
    return kj::heap<MachineServer>(uv, timer, kj::mv(identity), kj::mv(hooks));
  }

  kj::Promise<void> serve(kj::AutoCloseFd listening) {
    NodeParts parts{machineServer(),
                    serveServices(supervisor),
                    serveEvents(events),
                    serveLogs(logs,
                              [this](rpc::Logs::KernelParams::Reader params) {
                                return serveKernelLog(io.unixEventPort, params);
                              }),
                    kj::heap<FilesServer>(uv),
                    serveResources(store, false),
                    serveResources(store, true),
                    networkd(),
                    configuration(ConfigKeeper::Caller::kAdmin),
                    serveStorage(uv)};
    auto forVisitors = parts;
    forVisitors.configuration = configuration(ConfigKeeper::Caller::kVisitor);
    auto node = serveNode(kj::mv(parts));
    auto visitors = serveMaintenance(nodeRules, serveNode(kj::mv(forVisitors)),
                                     [this]() { return config.inMaintenance(); });
    return serveUnix(
        *io.lowLevelProvider, timer, kj::mv(listening),
        [this, node = kj::mv(node), visitors = kj::mv(visitors)](const UnixPeer& peer) mutable {
          return serveMachined(peer, node, visitors, serveStore(store, peer.uid),
                               [this](rpc::AuditRecord::Reader record) {
                                 logs.append(kAuditLog, auditLine(record, clock.now()));
                               });
        },
        {.connections = kMostClients + 256, .connectionsPerPeer = kMostClients});
  }

  rpc::Configuration::Client configuration(ConfigKeeper::Caller caller) {
    return kj::heap<ConfigurationServer>(
        config, configReader, store, uv, caller, thisBootId(),
        [this](const config::MachineConfig& wanted) {
          return previewNetwork({arguments, viewOf(wanted).network, store}, networkd(), timer);
        });
  }

  void fillStatus(rpc::Status::Builder out) {
    status.fill(out);
    out.setSequence(sequencer.currentSequence());
    out.setPhase(sequencer.currentPhase());
    out.setBrainRestarts(process1.brainRestarts());
    KJ_IF_MAYBE (left, config.revertsIn()) {
      out.setRevertsInMs(kj::max(*left / kj::MILLISECONDS, 1));
    }
  }

  kj::Vector<ServiceCgroup> cgroups() {
    kj::Vector<ServiceCgroup> result;
    for (auto& id : supervisor.ids()) {
      capnp::MallocMessageBuilder scratch;
      auto service = scratch.initRoot<rpc::Service>();
      supervisor.fill(id, service);
      if (service.getPid() == 0) continue;
      auto cgroup = serviceCgroup(id);
      result.add(ServiceCgroup{kj::str(id), kj::mv(cgroup)});
    }
    return result;
  }

  // What a controller may read is up to its own view of the store.
  auto configView() {
    return [this](Store& view) { return configReader.view(view); };
  }

  kj::Function<kj::Array<kj::String>(kj::StringPtr, kj::ArrayPtr<const kj::String>)>
  environmentOfServices() {
    return [this](kj::StringPtr id, kj::ArrayPtr<const kj::String> own) {
      return effects.environment(id, own);
    };
  }

  kj::Maybe<pki::CertificateAndKey> authority() {
    KJ_IF_MAYBE (config, configReader.view(store)) {
      if (config->authority.size() == 0 || config->authorityKey.bytes().size() == 0) return nullptr;
      return pki::CertificateAndKey{kj::mv(config->authority), kj::mv(config->authorityKey)};
    }
    return nullptr;
  }

  kj::Promise<TimeAnswer> askTime(kj::String server) {
    auto a = co_await time.check(kj::mv(server));
    co_return TimeAnswer{kj::mv(a.server), a.local, a.remote};
  }

  kj::Own<Controller> timeController() {
    TimeStatusController::World world;
    world.container = mode == Mode::kContainer;
    world.beforeConfig = arguments.first("talos.config").orDefault("").startsWith("https://");
    world.readConfig = configView();
    world.keepTime = [this](kj::Array<kj::String> servers) { time.keepTime(kj::mv(servers)); };
    world.leaveAlone = [this](kj::StringPtr why) { time.leaveAlone(why); };
    world.seen = [this]() {
      auto& s = time.state();
      kj::String offset;
      KJ_IF_MAYBE (o, s.offset) offset = ntp::showOffset(*o);
      return TimeStatusController::Seen{s.steps, kj::str(s.server), kj::mv(offset),
                                        kj::str(s.problem)};
    };
    return kj::heap<TimeStatusController>(kj::mv(world));
  }

  void addControllers() {
    effects.addControllers(controllers);
    controllers.add(kj::heap<MachineTypeController>(configView()));
    controllers.add(kj::heap<NetworkController>(arguments, configView()));
    controllers.add(kj::heap<ApiController>(uv, timer, clock, configView(),
                                            [this]() { return config.inMaintenance(); }));
    controllers.add(kj::heap<RootController>(configView()));
    controllers.add(kj::heap<JoinController>(configView()));
    controllers.add(kj::heap<ServiceController>(
        events, [this](kj::StringPtr id) { return supervisor.isUp(id); }));
    controllers.add(kj::heap<HostnameController>(applyHostname));
    controllers.add(kj::heap<NetworkEventController>(
        takeHeldText(process1, kToldRepairs, kToldMagic, 0).orDefault(HeldText()).numbers[0],
        [this](uint64_t number) {
          return holdText(process1, kToldRepairs, kToldMagic, HeldText(number, 0, nullptr));
        },
        [this](kj::StringPtr link, kj::StringPtr what) { tellRepair(link, what); }));
    controllers.add(timeController());
    controllers.add(kj::heap<MachineStatusController>([this]() { return machineState(); }));
  }

  MachineStatusController::State machineState() {
    MachineStatusController::State state;
    state.stage = kj::str(nameOf(status.stage()));
    for (auto& problem : status.problems()) state.problems.add(kj::str(problem));
    state.revertsAt =
        config.revertsIn().map([this](kj::Duration left) { return clock.now() + left; });
    return state;
  }

  void readDebug() {
    debugging = false;
    KJ_IF_MAYBE (document, configReader.document(store)) {
      debugging = document->good() && !document->empty() && document->get().getDebug();
    }
  }

  void watchDebug() {
    readDebug();
    configChanged = store.onChange<rpc::MachineConfigSpec>([this]() { readDebug(); });
    logs.tee([this](kj::StringPtr id, kj::ArrayPtr<const char> lines) {
      if (debugging && id != kSelf) console.show(id, lines);
    });
  }

  // --- the life of the machine ---

  void keep(Progress::Stage stage, unsigned command = 0, kj::Vector<kj::String> problems = {}) {
    progress.stage = stage;
    progress.command = command;
    progress.problems = kj::mv(problems);
    tasks.add(holdProgress(process1, progress));
  }

  // Begins a little later: the answer has to get through apid, which ends first.
  kj::Promise<void> accept(kj::Function<void()> begin) {
    if (mode == Mode::kContainer) {
      fail(ErrorKind::kFailedPrecondition,
           "not possible in mode container: the machine is its host's");
    }
    soon(kj::mv(begin));
    return kj::READY_NOW;
  }
  void soon(kj::Function<void()> begin) {
    tasks.add(timer.afterDelay(100 * kj::MILLISECONDS).then(kj::mv(begin)));
  }
  void reboot() { goDown(LINUX_REBOOT_CMD_RESTART); }
  void shutdown() {
    bool halt = arguments.first("talos.shutdown").orDefault("") == "halt";
    goDown(halt ? LINUX_REBOOT_CMD_HALT : LINUX_REBOOT_CMD_POWER_OFF);
  }
  // Between two sequences there is a moment that belongs to the next one.
  kj::String sequenceOrNext() {
    auto current = sequencer.currentSequence();
    if (current.size() > 0) return kj::str(current);
    switch (progress.stage) {
      case Progress::Stage::kInitialize:
        return kj::str("initialize");
      case Progress::Stage::kBoot:
        return kj::str("boot");
      case Progress::Stage::kGoingDown:
        return kj::str(progress.command == LINUX_REBOOT_CMD_RESTART ? "reboot" : "shutdown");
      default:
        return kj::str();
    }
  }
  // From here on a new brain takes the machine down.
  kj::Promise<void> intendReboot() {
    progress.stage = Progress::Stage::kGoingDown;
    progress.command = LINUX_REBOOT_CMD_RESTART;
    return holdProgress(process1, progress);
  }
  // Without a config there are no certificates but the throw-away ones, and networkd and apid have
  // to run for somebody to bring one.
  void maintenanceChanged() {
    if (!wired) return;  // run() looks again
    controllers.poke("secrets.ApiController");
    if (!config.inMaintenance()) {
      status.set(MachineStatus::Stage::BOOTING);
      return;
    }
    kj::Vector<kj::String> reasons;
    for (auto& line : config.maintenanceReasons()) reasons.add(kj::str(line));
    status.set(MachineStatus::Stage::MAINTENANCE, kj::mv(reasons));
    for (auto id : {"networkd"_kj, "apid"_kj}) supervisor.start(id);
  }
  void goDown(unsigned command) {
    bool restart = command == LINUX_REBOOT_CMD_RESTART;
    keep(Progress::Stage::kGoingDown, command);
    status.set(restart ? MachineStatus::Stage::REBOOTING : MachineStatus::Stage::SHUTTING_DOWN);
    auto sequence =
        restart ? rebootSequence(machineTasks) : shutdownSequence(machineTasks, command);
    tasks.add(sequencer.run(kj::mv(sequence), Start::kTakeOver).catch_([this](kj::Exception&& e) {
      console.say(kj::str("the machine does not go down: ", messageOf(e)), Tone::kAlarm);
    }));
  }

  kj::Promise<void> live() {
    switch (progress.stage) {
      case Progress::Stage::kInitialize:
        co_await sequencer.run(initializeSequence(machineTasks, mode), Start::kPlain);
        keep(Progress::Stage::kBoot);
        [[fallthrough]];
      case Progress::Stage::kBoot:
        co_await sequencer.run(bootSequence(machineTasks, mode), Start::kPlain);
        keep(Progress::Stage::kRunning);
        [[fallthrough]];
      case Progress::Stage::kRunning:
        status.set(MachineStatus::Stage::RUNNING);
        co_await timer.afterDelay(kSettled);
        releaseStartMemory();
        break;
      case Progress::Stage::kFailed:
        status.set(MachineStatus::Stage::FAILED, kj::mv(progress.problems));
        break;
      case Progress::Stage::kGoingDown:
        goDown(progress.command);
        break;
    }
  }

  // Whoever took over has said so himself.
  void cannotGoOn(kj::Exception&& e) {
    if (progress.stage == Progress::Stage::kGoingDown) return;
    auto reasons = messageOf(e);
    kj::Vector<kj::String> problems;
    for (auto line : Lines(reasons)) {
      if (line.size() > 0) problems.add(kj::heapString(line));
    }
    for (auto& p : problems) console.say(kj::str("problem: ", p), Tone::kAlarm);
    console.say("the machine cannot go on, stays as it is and does not restart by itself",
                Tone::kAlarm);
    kj::Vector<kj::String> kept;
    for (auto& p : problems) kept.add(kj::str(p));
    keep(Progress::Stage::kFailed, 0, kj::mv(kept));
    status.set(MachineStatus::Stage::FAILED, kj::mv(problems));
    // With certificates from a config that could be read, the API can at least tell.
    for (auto id : {"networkd"_kj, "apid"_kj}) supervisor.start(id);
  }

  kj::Promise<void> run() {
    if (process1.brainRestarts() > 0) {
      console.openKernelLog();
      console.say(kj::str("machined was started again (", process1.brainRestarts(), ")"));
    }
    co_await store.attachJournal(process1);
    co_await config.recover();
    watchDebug();
    logs.append(kAuditLog, nullptr);  // is in the list before there is anything to tell
    co_await openDoors();
    addControllers();
    supervisor.loadSelf(kSelf);
    supervisor.load(networkdService(networkdListener.get(), networkd()));
    supervisor.load(apidService(apidListener.get(), *io.lowLevelProvider,
                                [this]() { return whyNotJoined(store); }));
    co_await trustd.follow();
    wired = true;
    if (config.inMaintenance()) maintenanceChanged();
    tasks.add(live().catch_([this](kj::Exception&& e) { cannotGoOn(kj::mv(e)); }));
    for (;;) {
      switch (co_await process1.nextWish()) {
        case Process1::Wish::kPowerOff:
          shutdown();
          break;
        case Process1::Wish::kReboot:
          reboot();
          break;
      }
    }
  }
};

Brain::Brain(kj::AsyncIoContext& io, Process1& process1) : impl(kj::heap<Impl>(io, process1)) {}
Brain::~Brain() noexcept(false) = default;
kj::Promise<void> Brain::run() {
  return impl->run();
}

}  // namespace talos::machined
