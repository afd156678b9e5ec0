#include "talosctl/cluster/containers/container-node.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/disk/boot-slots.h"
#include "common/image-cache/cache-layout.h"
#include "common/memory/zeroize.h"
#include "talosctl/cluster/containers/container-launch.h"
#include "talosctl/cluster/containers/image-mount.h"
#include "talosctl/cluster/containers/node-slots.h"
#include "talosctl/cluster/network/cluster-addresses.h"
#include "talosctl/cluster/processes/child-process.h"

namespace talos::cluster {
namespace {

// Limit of the kernel for one string of an environment (MAX_ARG_STRLEN), less the name of the
// variable.
constexpr size_t kLongestUserdata = (128 << 10) - 16;

// Returns a random UUID, as the kernel's own boot ids are.
kj::String newBootId() {
  kj::byte bytes[16];
  KJ_ASSERT(getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  auto hex = kj::encodeHex(bytes);
  return kj::str(hex.slice(0, 8), "-", hex.slice(8, 12), "-", hex.slice(12, 16), "-",
                 hex.slice(16, 20), "-", hex.slice(20));
}

// Must be longer than process 1 waits for its brain (machined/process1/init/main.cc).
constexpr auto kTrialGrace = 120 * kj::SECONDS;

// How often a node's request for the image of a slot is looked for.
constexpr auto kLookMount = 200 * kj::MILLISECONDS;
// A node gets no more mounts between two of its starts: root of a node may keep each of them.
constexpr unsigned kMostMounts = 100;

// Returns false if the kernel does not list children.
bool hasNoChildren(int pid) {
  auto list = tryReadFile(kj::str("/proc/", pid, "/task/", pid, "/children"), 4096);
  KJ_IF_MAYBE (text, list) return text->size() == 0;
  return false;
}

struct Places {
  kj::String folder, slots, root, log;

  Places(const ContainerLaunch& launch)
      : folder(kj::str(launch.stateFolder, "/", launch.node.getName())),
        slots(slotsFolderOf(launch.node, launch.stateFolder)),
        root(kj::str(folder, "/root")),
        log(kj::str(folder, ".log")) {}
};

kj::AutoCloseFd openConsole(const Places& places) {
  int console;
  KJ_SYSCALL(console = open(places.log.cStr(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600),
             places.log);
  return kj::AutoCloseFd(console);
}

class ContainerNode final : public Instance {
 public:
  ContainerNode(kj::UnixEventPort& port, kj::Timer& timer, Network& network,
                container::ClusterCgroups& cgroups, const ContainerLaunch& launch, Places places,
                kj::Maybe<unsigned> trialS, container::Launched launched)
      : timer(timer),
        network(network),
        cgroups(cgroups),
        name(kj::str(launch.node.getName())),
        link(kj::str(launch.link)),
        places(kj::mv(places)),
        trialS(trialS),
        process(kj::heap<ChildProcess>(port, launched.pid, kj::mv(launched.pidfd))),
        serving(serveMounts().eagerlyEvaluate(
            [this](kj::Exception&& e) { say(openConsole(this->places), messageOf(e)); })) {}

  ~ContainerNode() noexcept(false) {
    serving = nullptr;
    process = nullptr;  // ends every process in its cgroups, too
    cgroups.removeNode(name);
    network.removeContainer(link);
    container::unmountImage(places.root);
  }

  int pid() const override { return process->pid(); }

  kj::Promise<End> onEnd() override {
    auto watching = endHangingTrial().eagerlyEvaluate(nullptr);
    auto exit = co_await process->onExit();
    if (exit.killed && exit.status == SIGHUP) co_return End{End::Kind::kReboot, kj::str("reboot")};
    if (exit.killed && exit.status == SIGINT)
      co_return End{End::Kind::kOff, kj::str("switched off")};
    auto how = kj::str("process 1 ", exit.describe());
    if (trialS == nullptr) co_return End{End::Kind::kFailed, kj::mv(how)};
    auto console = openConsole(places);
    say(console, kj::str(how, ", and its system was started on trial; rebooting"));
    co_return End{End::Kind::kReboot, kj::str(how, ", of a system on trial")};
  }

  kj::Promise<void> shutDown() override {
    process->signal(SIGTERM);
    return kj::READY_NOW;
  }
  // The kernel kills the whole pid namespace, even a frozen one, before process 1 has ended.
  void kill() override { process->signal(SIGKILL); }
  void pause() override { cgroups.freeze(name, true); }
  void resume() override { cgroups.freeze(name, false); }

  static void say(int console, kj::StringPtr text) {
    auto line = kj::str("[launcher] ", text, "\n");
    auto ignored = write(console, line.begin(), line.size());  // fails if the disk is full
    (void)ignored;
  }

 private:
  kj::Timer& timer;
  Network& network;
  container::ClusterCgroups& cgroups;
  kj::String name, link;
  Places places;
  kj::Maybe<unsigned> trialS;
  kj::Own<ChildProcess> process;
  unsigned mounts = 0;  // that the node has got
  kj::Promise<void> serving;

  // Mounts images for the node's upgrades without a reboot.
  kj::Promise<void> serveMounts() {
    auto next = kj::str(places.folder, "/next");
    makeDirectories(next, 0700);
    for (;;) {
      co_await timer.afterDelay(kLookMount);
      auto problem = kj::runCatchingExceptions([&]() {
        auto served = serveMountRequest(places.slots, [&](kj::AutoCloseFd image) {
          if (mounts == kMostMounts) {
            fail(ErrorKind::kResourceExhausted, "it got 100 since its start; reboot the node");
          }
          ++mounts;
          container::mountImageFor(process->pid(), image, next, install::kMountedImage);
        });
        KJ_IF_MAYBE (line, served) say(openConsole(places), *line);
      });
      KJ_IF_MAYBE (e, problem) say(openConsole(places), messageOf(*e));
    }
  }

  kj::Promise<void> endHangingTrial() {
    KJ_IF_MAYBE (seconds, trialS) {
      co_await timer.afterDelay(*seconds * kj::SECONDS + kTrialGrace);
      if (!hasNoChildren(process->pid())) co_return;
      auto console = openConsole(places);
      say(console, "process 1 has started nothing in the time of its trial; killing it");
      process->signal(SIGKILL);
    }
  }
};

// Returns PLATFORM and, for a node that has a config, USERDATA.
kj::Vector<kj::String> environmentOf(const ContainerLaunch& launch) {
  kj::Vector<kj::String> result;
  result.add(kj::str("PLATFORM=container"));
  if (launch.withoutConfig) return result;
  auto path = kj::str(launch.stateFolder, "/", launch.node.getName(), ".yaml");
  auto text = readFile(path);
  KJ_DEFER(zeroize(text));
  auto encoded = kj::encodeBase64(text.asBytes());
  KJ_DEFER(zeroize(encoded));
  if (encoded.size() > kLongestUserdata) {
    fail(ErrorKind::kInvalidArgument,
         kj::str(path, " is too large for a node in a container: ", text.size(), " bytes; at most ",
                 kLongestUserdata / 4 * 3));
  }
  result.add(kj::str("USERDATA=", encoded));
  return result;
}

}  // namespace

void makeContainerFolders(rpc::LocalNode::Reader node, kj::StringPtr stateFolder) {
  auto base = kj::str(stateFolder, "/", node.getName());
  makeDirectories(kj::str(base, "/state"), 0700);
  makeDirectories(kj::str(base, "/var"), 0755);
}

kj::String slotsFolderOf(rpc::LocalNode::Reader node, kj::StringPtr stateFolder) {
  return kj::str(stateFolder, "/", node.getName(), "/boot");
}

namespace {

// Makes one attempt of the boot loader, with the image mounted.
SlotChoice loadSystem(const Places& places, int console) {
  makeDirectories(places.root, 0700);
  auto choice = startOfSlots(places.slots, [&](kj::AutoCloseFd image) {
    container::mountImage(image, "it", places.root);
  });
  for (auto& line : choice.said) {
    log::warn("boot loader", {{"node", places.folder}, {"message", line}});
    ContainerNode::say(console, line);
  }
  return choice;
}

}  // namespace

kj::Own<Instance> launchContainer(kj::UnixEventPort& port, kj::Timer& timer, Network& network,
                                  container::ClusterCgroups& cgroups,
                                  const ContainerLaunch& launch) {
  auto node = launch.node;
  Places places(launch);
  auto console = openConsole(places);
  auto environment = environmentOf(launch);
  KJ_DEFER(for (auto& variable : environment) zeroize(variable));
  auto addresses = addressesOf(node);
  auto inside = network.addContainer(launch.link, {.addresses = addresses, .mac = node.getMac()});
  auto cgroupProcs = cgroups.createNode(
      node.getName(), {.memory = node.getMemory(), .milliCpus = node.getMilliCpus()});
  auto state = kj::str(places.folder, "/state"), ephemeral = kj::str(places.folder, "/var");
  auto hostname = kj::str(node.getName());
  auto imageCache = kj::str(launch.stateFolder, "/", kImageCacheLink);
  if (access(kj::str(imageCache, "/", imagecache::kManifests).cStr(), R_OK) != 0)
    imageCache = kj::String();
  auto bootId = newBootId();
  auto mounts = cgroups.mounts();
  uint64_t memory = node.getMemory();
  for (auto& controller : cgroups.unlimited()) {
    if (controller == "memory") memory = 0;
  }
  // Repeats for each try: a system on trial whose process 1 cannot run counts as one that ended.
  for (;;) {
    auto choice = loadSystem(places, console);
    auto arguments = argumentsOf(choice);
    for (auto extra : launch.extraArguments) arguments = kj::str(arguments, " ", extra);
    auto steps = container::planContainer({.stateFolder = state,
                                           .ephemeralFolder = ephemeral,
                                           .slotsFolder = places.slots,
                                           .arguments = arguments,
                                           .bootId = bootId,
                                           .cgroups = mounts,
                                           .imageCache = imageCache,
                                           .memory = memory});
    kj::Maybe<container::Launched> launched;
    auto failure = kj::runCatchingExceptions([&]() {
      launched = container::launch({.image = places.root,
                                    .hostname = hostname,
                                    .steps = steps,
                                    .cgroupProcs = cgroupProcs,
                                    .network = inside.get(),
                                    .console = console,
                                    .environment = environment});
    });
    KJ_IF_MAYBE (started, launched) {
      return kj::heap<ContainerNode>(port, timer, network, cgroups, launch, kj::mv(places),
                                     choice.trialS, kj::mv(*started));
    }
    container::unmountImage(places.root);
    auto& e = KJ_ASSERT_NONNULL(failure);
    if (choice.trialS == nullptr) kj::throwFatalException(kj::mv(e));
    ContainerNode::say(console, kj::str("the system on trial is given up: ", messageOf(e)));
  }
}

}  // namespace talos::cluster
