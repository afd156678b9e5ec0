#include "talosctl/cluster/containers/container-node.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <signal.h>
#include <sys/random.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/memory/zeroize.h"
#include "talosctl/cluster/containers/container-launch.h"
#include "talosctl/cluster/processes/child-process.h"

namespace talos::cluster {
namespace {

// The kernel's limit of one string of an environment (MAX_ARG_STRLEN), less the name of the
// variable.
constexpr size_t kLongestUserdata = (128 << 10) - 16;

// A random UUID, as the kernel's own boot ids are.
kj::String newBootId() {
  kj::byte bytes[16];
  KJ_ASSERT(getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  auto hex = kj::encodeHex(bytes);
  return kj::str(hex.slice(0, 8), "-", hex.slice(8, 12), "-", hex.slice(12, 16), "-",
                 hex.slice(16, 20), "-", hex.slice(20));
}

class ContainerNode final : public Instance {
 public:
  ContainerNode(kj::UnixEventPort& port, Network& network, container::ClusterCgroups& cgroups,
                const ContainerLaunch& launch, container::Launched launched)
      : network(network),
        cgroups(cgroups),
        name(kj::str(launch.node.getName())),
        link(kj::str(launch.link)),
        process(kj::heap<ChildProcess>(port, launched.pid, kj::mv(launched.pidfd))) {}

  ~ContainerNode() noexcept(false) {
    process = nullptr;  // and with it every process in its cgroups
    cgroups.removeNode(name);
    network.removeContainer(link);
  }

  int pid() const override { return process->pid(); }

  kj::Promise<End> onEnd() override {
    auto exit = co_await process->onExit();
    if (exit.killed && exit.status == SIGHUP) co_return End{End::Kind::kReboot, kj::str("reboot")};
    if (exit.killed && exit.status == SIGINT)
      co_return End{End::Kind::kOff, kj::str("switched off")};
    co_return End{End::Kind::kFailed, kj::str("process 1 ", exit.describe())};
  }

  kj::Promise<void> shutDown() override {
    process->signal(SIGTERM);
    return kj::READY_NOW;
  }
  // The kernel kills the whole pid namespace before process 1 has ended; a frozen one too.
  void kill() override { process->signal(SIGKILL); }
  void pause() override { cgroups.freeze(name, true); }
  void resume() override { cgroups.freeze(name, false); }

 private:
  Network& network;
  container::ClusterCgroups& cgroups;
  kj::String name, link;
  kj::Own<ChildProcess> process;
};

// PLATFORM and, for a node that has a config, USERDATA.
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

kj::Own<Instance> launchContainer(kj::UnixEventPort& port, Network& network,
                                  container::ClusterCgroups& cgroups,
                                  const ContainerLaunch& launch) {
  auto node = launch.node;
  auto folder = kj::str(launch.stateFolder, "/", node.getName());
  auto state = kj::str(folder, "/state"), ephemeral = kj::str(folder, "/var");
  auto bootId = newBootId();
  auto mounts = cgroups.mounts();
  uint64_t memory = node.getMemory();
  for (auto& controller : cgroups.unlimited()) {
    if (controller == "memory") memory = 0;
  }
  auto steps = container::planContainer({.stateFolder = state,
                                         .ephemeralFolder = ephemeral,
                                         .bootId = bootId,
                                         .cgroups = mounts,
                                         .memory = memory});
  auto environment = environmentOf(launch);
  KJ_DEFER(for (auto& variable : environment) zeroize(variable));
  auto log = kj::str(folder, ".log");
  int console;
  KJ_SYSCALL(console = open(log.cStr(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), log);
  kj::AutoCloseFd closing(console);
  auto inside =
      network.addContainer(launch.link, {.address = node.getAddress(), .mac = node.getMac()});
  auto cgroupProcs = cgroups.createNode(
      node.getName(), {.memory = node.getMemory(), .milliCpus = node.getMilliCpus()});
  auto hostname = kj::str(node.getName());
  auto launched = container::launch({.image = launch.image,
                                     .hostname = hostname,
                                     .steps = steps,
                                     .cgroupProcs = cgroupProcs,
                                     .network = inside.get(),
                                     .console = console,
                                     .environment = environment});
  return kj::heap<ContainerNode>(port, network, cgroups, launch, kj::mv(launched));
}

}  // namespace talos::cluster
