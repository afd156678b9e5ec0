#include "machined/services/containers/container-run.h"

#include <errno.h>
#include <kj/debug.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/base/file.h"
#include "common/base/log.h"
#include "github.com/containerd/containerd/api/services/containers/v1/containers.pb.h"
#include "github.com/containerd/containerd/api/services/snapshots/v1/snapshots.pb.h"
#include "github.com/containerd/containerd/api/services/tasks/v1/tasks.pb.h"
#include "google/protobuf/empty.pb.h"
#include "machined/services/containers/containerd-connection.h"

namespace talos::machined {
namespace {

namespace fs = std::filesystem;

// Kills the processes with the folder as working directory: only shims have it.
void killInside(const fs::path& folder) {
  std::error_code gone;
  for (auto& entry : fs::directory_iterator("/proc", gone)) {
    int pid = atoi(entry.path().filename().c_str());
    if (pid <= 1 || fs::read_symlink(entry.path() / "cwd", gone) != folder) continue;
    log::warn("ending a shim that containerd does not know",
              {{"pid", kj::str(pid)}, {"folder", folder.c_str()}});
    if (kill(pid, SIGKILL) != 0 && errno != ESRCH) KJ_FAIL_SYSCALL("kill(shim)", errno, pid);
  }
}

}  // namespace

kj::Maybe<kj::String> blockingBundle(kj::StringPtr answer, kj::StringPtr id) {
  constexpr std::string_view kBefore = "failed to start shim: mkdir ", kAfter = ": file exists";
  std::string_view text(answer.begin(), answer.size());
  auto from = text.find(kBefore);
  if (from == text.npos || !text.ends_with(kAfter)) return nullptr;
  from += kBefore.size();
  auto folder = text.substr(from, text.size() - kAfter.size() - from);
  auto own = kj::str("/io.containerd.runtime.v2.task/", kSystemNamespace, "/", id);
  if (!folder.starts_with('/') || !folder.ends_with(std::string_view(own.begin(), own.size())) ||
      folder.find("/../") != folder.npos) {
    return nullptr;
  }
  return kj::heapString(folder.data(), folder.size());
}

void removeLeftBundle(kj::StringPtr folder) {
  fs::path path(folder.cStr());
  killInside(path);
  auto root = path / "rootfs";
  if (umount2(root.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0 && errno != EINVAL &&
      errno != ENOENT) {
    KJ_FAIL_SYSCALL("umount2", errno, root.c_str());
  }
  std::error_code failed;
  fs::remove_all(path, failed);
  KJ_REQUIRE(!failed, "the folder of a shim cannot be removed", folder, failed.message());
}

namespace {

namespace run = ::containerd::services::tasks::v1;
namespace records = ::containerd::services::containers::v1;
namespace layers = ::containerd::services::snapshots::v1;
using google::protobuf::Empty;
using RunStatus = ::containerd::v1::types::Status;

constexpr kj::StringPtr kGetTask = "/containerd.services.tasks.v1.Tasks/Get"_kj,
                        kCreateTask = "/containerd.services.tasks.v1.Tasks/Create"_kj,
                        kStartTask = "/containerd.services.tasks.v1.Tasks/Start"_kj,
                        kKillTask = "/containerd.services.tasks.v1.Tasks/Kill"_kj,
                        kWaitTask = "/containerd.services.tasks.v1.Tasks/Wait"_kj,
                        kDeleteTask = "/containerd.services.tasks.v1.Tasks/Delete"_kj,
                        kMake = "/containerd.services.containers.v1.Containers/Create"_kj,
                        kForget = "/containerd.services.containers.v1.Containers/Delete"_kj,
                        kPrepare = "/containerd.services.snapshots.v1.Snapshots/Prepare"_kj,
                        kRemove = "/containerd.services.snapshots.v1.Snapshots/Remove"_kj;

constexpr const char *kSnapshotter = "overlayfs", *kRuntime = "io.containerd.runc.v2",
                     *kSpecType = "types.containerd.io/opencontainers/runtime-spec/1/Spec",
                     *kKeepLabel = "containerd.io/gc.root";

// runc starts a container in 0.1 s on a fast machine, in 2 s on an emulated one under load.
constexpr auto kTaskDeadline = 60 * kj::SECONDS;
constexpr auto kAskAgain = 250 * kj::MILLISECONDS;  // until a restarted containerd answers

std::string layerOf(kj::StringPtr id) {
  return std::string("system-") + id.cStr();
}

// Ignores NotFound, for a call whose object may be gone already.
template <typename T>
kj::Promise<void> ignoreNotFound(kj::Promise<T> promise) {
  return promise.ignoreResult().catch_([](kj::Exception&& e) {
    if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
  });
}

template <typename Request>
Request of(kj::StringPtr id) {
  Request request;
  request.set_container_id(id.cStr());
  return request;
}

struct Found {
  RunStatus status;
  int pid;
};
kj::Promise<kj::Maybe<Found>> findTask(Containerd& containerd, kj::StringPtr id) {
  return containerd.call<run::GetResponse>(kGetTask, kSystemNamespace, of<run::GetRequest>(id))
      .then(
          [](run::GetResponse answer) -> kj::Maybe<Found> {
            return Found{answer.process().status(), static_cast<int>(answer.process().pid())};
          },
          [](kj::Exception&& e) -> kj::Maybe<Found> {
            if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
            return nullptr;
          });
}

// Makes an empty upper layer for the root of an extension's container, and returns the mount.
::containerd::types::Mount overlayOf(const ContainerSpec& spec, const ExtensionBounds& bounds) {
  auto folder = kj::str(kExtensionLayers, "/", spec.id);
  removeTree(folder);
  ::containerd::types::Mount mount;
  mount.set_type("overlay");
  mount.set_source("overlay");
  mount.add_options(kj::str("lowerdir=", bounds.rootFolder).cStr());
  for (auto layer : {"upper"_kj, "work"_kj}) {
    auto path = kj::str(folder, "/", layer);
    makeDirectories(path);
    mount.add_options(kj::str(layer, "dir=", path).cStr());
  }
  return mount;
}

kj::Promise<void> make(Containerd& containerd, const ContainerSpec& spec) {
  records::CreateContainerRequest request;
  auto& container = *request.mutable_container();
  container.set_id(spec.id.cStr());
  container.set_image(spec.image.cStr());
  container.mutable_runtime()->set_name(kRuntime);
  auto text = runtimeSpec(spec);
  container.mutable_spec()->set_type_url(kSpecType);
  container.mutable_spec()->set_value(text.cStr(), text.size());
  return containerd.call<records::CreateContainerResponse>(kMake, kSystemNamespace, request)
      .ignoreResult();
}

// Creates the task with these mounts as its root, and starts it.
kj::Promise<int> begin(Containerd& containerd, const ContainerSpec& spec,
                       kj::Vector<::containerd::types::Mount> root, int output) {
  auto create = of<run::CreateTaskRequest>(spec.id);
  for (auto& mount : root) *create.add_rootfs() = mount;
  // The shim opens the pipe by this path and keeps it open, for writing and for reading.
  auto path = kj::str("/proc/", getpid(), "/fd/", output);
  create.set_stdout(path.cStr());
  create.set_stderr(path.cStr());
  co_await containerd
      .call<run::CreateTaskResponse>(kCreateTask, kSystemNamespace, create, kTaskDeadline)
      .ignoreResult()
      .catch_([&spec](kj::Exception&& e) {
        // The next try does not find the folder any more.
        KJ_IF_MAYBE (folder, blockingBundle(messageOf(e), spec.id)) removeLeftBundle(*folder);
        kj::throwFatalException(kj::mv(e));
      });
  auto started = co_await containerd.call<run::StartResponse>(
      kStartTask, kSystemNamespace, of<run::StartRequest>(spec.id), kTaskDeadline);
  co_return static_cast<int>(started.pid());
}

// Prepares a writable layer above those of the image.
kj::Promise<kj::Vector<::containerd::types::Mount>> writableLayer(Containerd& containerd,
                                                                  const ContainerSpec& spec,
                                                                  std::string parent) {
  layers::PrepareSnapshotRequest prepare;
  prepare.set_snapshotter(kSnapshotter);
  prepare.set_key(layerOf(spec.id));
  prepare.set_parent(parent);
  (*prepare.mutable_labels())[kKeepLabel] = "machined";
  auto prepared =
      co_await containerd.call<layers::PrepareSnapshotResponse>(kPrepare, kPodNamespace, prepare);
  kj::Vector<::containerd::types::Mount> mounts;
  for (auto& mount : prepared.mounts()) mounts.add(mount);
  co_return kj::mv(mounts);
}

}  // namespace

kj::Promise<kj::Maybe<int>> findContainer(Containerd& containerd, kj::String id) {
  KJ_IF_MAYBE (task, co_await findTask(containerd, id)) {
    if (task->status == RunStatus::RUNNING) co_return task->pid;
    if (task->status == RunStatus::UNKNOWN) {  // its shim has not answered containerd in time
      fail(ErrorKind::kUnavailable,
           kj::str("containerd does not report whether container \"", id, "\" runs"));
    }
  }
  co_return nullptr;
}

kj::Promise<RunningContainer> runContainer(Containerd& containerd, const ContainerSpec& spec,
                                           int output) {
  KJ_IF_MAYBE (pid, co_await findContainer(containerd, kj::str(spec.id))) {
    co_return RunningContainer{*pid, true};
  }
  KJ_IF_MAYBE (bounds, spec.extension) {
    co_await removeContainer(containerd, kj::str(spec.id));
    co_await make(containerd, spec);
    kj::Vector<::containerd::types::Mount> root;
    root.add(overlayOf(spec, *bounds));
    int pid = co_await begin(containerd, spec, kj::mv(root), output);
    co_return RunningContainer{pid, false};
  }
  KJ_IF_MAYBE (image, co_await unpackedImage(containerd, kj::str(spec.image))) {
    co_await removeContainer(containerd, kj::str(spec.id));
    co_await make(containerd, spec);
    auto root = co_await writableLayer(containerd, spec, image->snapshot.cStr());
    int pid = co_await begin(containerd, spec, kj::mv(root), output);
    co_return RunningContainer{pid, false};
  }
  fail(ErrorKind::kFailedPrecondition, kj::str("image \"", spec.image, "\" is not on this node"));
}

kj::Promise<unsigned> containerEnded(Containerd& containerd, kj::String id) {
  auto request = of<run::WaitRequest>(id);
  for (;;) {
    kj::Maybe<kj::Exception> wrong;
    auto answer =
        co_await containerd.call<run::WaitResponse>(kWaitTask, kSystemNamespace, request, nullptr)
            .catch_([&](kj::Exception&& e) {
              wrong = kj::mv(e);
              return run::WaitResponse();
            });
    KJ_IF_MAYBE (e, wrong) {
      if (kindOf(*e) != ErrorKind::kUnavailable) kj::throwFatalException(kj::mv(*e));
    } else {
      co_return answer.exit_status();
    }
    co_await containerd.timer.afterDelay(kAskAgain);
  }
}

kj::Promise<void> signalContainer(Containerd& containerd, kj::String id, int number) {
  auto request = of<run::KillRequest>(id);
  request.set_signal(number);
  return containerd.call<Empty>(kKillTask, kSystemNamespace, request).ignoreResult();
}

namespace {

kj::Promise<void> endTask(Containerd& containerd, kj::StringPtr id, RunStatus status) {
  auto kill = of<run::KillRequest>(id);
  kill.set_signal(SIGKILL);
  kill.set_all(true);
  co_await ignoreNotFound(containerd.call<Empty>(kKillTask, kSystemNamespace, kill));
  // A task that was created and never started has no exit to wait for.
  if (status == RunStatus::CREATED) co_return;
  co_await ignoreNotFound(containerd.call<run::WaitResponse>(
      kWaitTask, kSystemNamespace, of<run::WaitRequest>(id), kTaskDeadline));
}

}  // namespace

kj::Promise<void> removeContainer(Containerd& containerd, kj::String id) {
  KJ_IF_MAYBE (task, co_await findTask(containerd, id)) {
    if (task->status != RunStatus::STOPPED) co_await endTask(containerd, id, task->status);
  }
  // Also called without a task: an interrupted start leaves a shim without a task, which would make
  // the next start fail.
  co_await ignoreNotFound(containerd.call<run::DeleteResponse>(
      kDeleteTask, kSystemNamespace, of<run::DeleteTaskRequest>(id), kTaskDeadline));
  records::DeleteContainerRequest record;
  record.set_id(id.cStr());
  co_await ignoreNotFound(containerd.call<Empty>(kForget, kSystemNamespace, record));
  layers::RemoveSnapshotRequest layer;
  layer.set_snapshotter(kSnapshotter);
  layer.set_key(layerOf(id));
  co_await ignoreNotFound(containerd.call<Empty>(kRemove, kPodNamespace, layer));
  removeTree(kj::str(kExtensionLayers, "/", id));  // only an extension's container has them
}

}  // namespace talos::machined
