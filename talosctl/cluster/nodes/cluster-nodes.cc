#include "talosctl/cluster/nodes/cluster-nodes.h"

#include <capnp/message.h>
#include <errno.h>
#include <kj/debug.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/base/log.h"
#include "common/base/program-window.h"
#include "common/base/version.h"
#include "talosctl/cluster/containers/container-node.h"
#include "talosctl/cluster/containers/image-mount.h"
#include "talosctl/cluster/containers/node-slots.h"
#include "talosctl/cluster/disks/node-disks.h"
#include "talosctl/cluster/machines/program-window-file.h"
#include "talosctl/cluster/machines/qemu-arguments.h"
#include "talosctl/cluster/machines/qemu-program.h"
#include "talosctl/cluster/machines/virtual-machine.h"
#include "talosctl/cluster/network/cluster-addresses.h"
#include "talosctl/cluster/nodes/cluster-plan.h"
#include "talosctl/cluster/processes/program-tree.h"

namespace talos::cluster {
namespace {

// Makes later mounts visible only to this process. Mounts that the host unmounts are unmounted here
// too, so that a cluster never keeps a disk of the host busy.
void leaveMounts() {
  KJ_SYSCALL(unshare(CLONE_NEWNS));
  KJ_SYSCALL(mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr));
}

// Returns the version in the image's os-release. Mounts the image at `folder` meanwhile.
kj::String versionOfImage(kj::StringPtr image, kj::StringPtr folder) {
  constexpr kj::StringPtr kKey = "VERSION_ID="_kj;
  makeDirectories(folder, 0700);
  container::mountImage(image, folder);
  KJ_DEFER(container::unmountImage(folder));
  auto text = tryReadFile(kj::str(folder, "/usr/lib/os-release"), 4096);
  KJ_IF_MAYBE (lines, text) {
    for (auto line : Lines(*lines)) {
      if (line.size() < kKey.size() || line.slice(0, kKey.size()) != kKey.asArray()) continue;
      return kj::heapString(line.slice(kKey.size(), line.size()));
    }
  }
  return kj::str(buildVersion().tag);
}

// Cuts the power of a node that cannot be resumed or stopped.
kj::Promise<void> stopOrCut(NodePower& node) {
  using State = NodePower::State;
  if (node.state() == State::kOff || node.state() == State::kFailed) co_return;
  try {
    if (node.state() == State::kPaused) co_await node.act(rpc::PowerAction::RESUME);
    co_await node.act(rpc::PowerAction::STOP);
  } catch (const kj::Exception& e) {
    log::warn("node did not stop; its power is cut",
              {{"node", node.name()}, {"error", messageOf(e)}});
    node.cut();
  }
}

}  // namespace

void makeStorage(rpc::LocalCluster::Reader cluster, kj::StringPtr stateFolder) {
  capnp::MallocMessageBuilder message;
  message.setRoot(cluster);
  auto prepared = message.getRoot<rpc::LocalCluster>();
  prepareRun(prepared, buildFolder(), trustedOwners());
  for (auto node : prepared.asReader().getNodes()) {
    if (isContainer(node)) {
      makeContainerFolders(node, stateFolder);
    } else {
      makeDisks(prepared, node, stateFolder);
    }
  }
}

ClusterNodes::ClusterNodes(kj::AsyncIoContext& io, rpc::LocalCluster::Reader cluster,
                           kj::StringPtr stateFolder)
    : io(io), cluster(cluster), stateFolder(stateFolder) {
  KJ_SYSCALL(unshare(CLONE_NEWNET));
  network = kj::heap<Network>(gatewaysOf(cluster), cluster.getMtu());
  if (hasContainers(cluster)) prepareContainers();
  unsigned index = 0;
  for (auto node : cluster.getNodes()) {
    powers.add(kj::heap<NodePower>(io.provider->getTimer(), kj::str(node.getName()),
                                   makerOf(node, index++)));
  }
}

ClusterNodes::~ClusterNodes() noexcept(false) {
  powers.clear();  // ends the nodes
  KJ_IF_MAYBE (it, cgroups) it->remove();
}

void ClusterNodes::prepareContainers() {
  leaveMounts();
  auto& made =
      cgroups.emplace(container::readCgroups(), cgroupName(cluster.getName(), stateFolder));
  made.create();
  makeSlotsFromImage();
}

// Unmounts the image when all nodes have their slots.
void ClusterNodes::makeSlotsFromImage() {
  kj::Vector<kj::String> missing;
  for (auto node : cluster.getNodes()) {
    if (!isContainer(node)) continue;
    auto folder = slotsFolderOf(node, stateFolder);
    if (access(folder.cStr(), F_OK) != 0) missing.add(kj::mv(folder));
  }
  if (missing.empty()) return;
  auto version = versionOfImage(cluster.getImage(), kj::str(stateFolder, "/image"));
  for (auto& folder : missing) makeSlots(folder, cluster.getImage(), version);
}

kj::Function<kj::Own<Instance>()> ClusterNodes::makerOf(rpc::LocalNode::Reader node,
                                                        unsigned index) {
  if (isContainer(node)) {
    return [this, node, link = kj::str("node", index)]() {
      return launchContainer(io.unixEventPort, io.provider->getTimer(), *network,
                             KJ_ASSERT_NONNULL(cgroups),
                             {.node = node,
                              .stateFolder = stateFolder,
                              .link = link,
                              .withoutConfig = cluster.getWithoutConfig(),
                              .extraArguments = cluster.getExtraKernelArguments()});
    };
  }
  // All runs use the same tap: this object owns it, QEMU inherits it.
  int tap = network->addTap(kj::str("tap", index));
  return [this, node, tap]() {
    auto qemu = findQemu(cluster.getQemuRoot());
    auto files = diskFiles(node, stateFolder);
    auto disks = KJ_MAP(file, files) {
      return MachineDisk{.file = file, .readOnly = isWriteProtected(file)};
    };
    auto from = cluster.getWithBootLoader() && isInstalled(node, stateFolder) ? StartFrom::kDisk
                                                                              : StartFrom::kHost;
    makeWindow(program_window::fileOf(stateFolder, node.getName()));
    return launchMachine(io.unixEventPort, *io.lowLevelProvider, io.provider->getTimer(),
                         {.qemu = qemu,
                          .arguments =
                              [&](int monitor) {
                                return qemuArguments(cluster, node, stateFolder, tap, monitor,
                                                     disks, from);
                              },
                          .folder = stateFolder,
                          .tap = tap,
                          .log = STDERR_FILENO});  // stderr already is supervisor.log
  };
}

void ClusterNodes::start(bool workers) {
  for (auto i : kj::indices(powers)) {
    if ((cluster.getNodes()[static_cast<unsigned>(i)].getType() == "join") != workers) continue;
    auto& power = *powers[i];
    power.act(rpc::PowerAction::START);  // the start is complete when this returns
    if (power.state() != NodePower::State::kRunning) {
      fail(ErrorKind::kFailedPrecondition, power.error());
    }
  }
}

kj::Promise<void> ClusterNodes::stopAll() {
  auto all = kj::heapArrayBuilder<kj::Promise<void>>(powers.size());
  for (auto& power : powers) all.add(stopOrCut(*power));
  co_await kj::joinPromises(all.finish());
}

NodePower& ClusterNodes::find(kj::StringPtr name) {
  kj::Vector<kj::StringPtr> names;
  for (auto& power : powers) {
    if (power->name() == name) return *power;
    names.add(power->name());
  }
  fail(ErrorKind::kNotFound,
       kj::str("unknown node \"", name, "\"; use one of ", kj::strArray(names, ", ")));
}

void prepareRun(rpc::LocalCluster::Builder cluster, kj::StringPtr build,
                kj::ArrayPtr<const uid_t> owners) {
  auto unnamed = kj::str(build, "/image/");
  auto reader = cluster.asReader();
  for (kj::StringPtr path : {reader.getImage(), reader.getKernel(), reader.getInitramfs()}) {
    if (!path.startsWith(unnamed)) continue;
    KJ_IF_MAYBE (error, pathError(path, owners)) {
      fail(ErrorKind::kPermissionDenied,
           kj::str("cannot use ", path, ", which root runs: ", *error));
    }
  }
  if (hasVirtualMachines(cluster)) cluster.setQemuRoot(findQemu(reader.getQemuRoot()).root);
}

}  // namespace talos::cluster
