#include "machined/config/controllers/etc-files-controller.h"

#include <kj/debug.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr size_t kMostFiles = 256;
constexpr const char* kUnfinished = ".unfinished-";  // prefix of writeFileAtomically()
constexpr uint32_t kChanges = IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE | IN_ONLYDIR;

kj::AutoCloseFd newInotify() {
  int fd;
  KJ_SYSCALL(fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  return kj::AutoCloseFd(fd);
}

// Returns nullptr if the path is no file, or a link to none. Files of the same clock tick differ in
// their inode.
kj::Maybe<kj::String> versionOf(kj::StringPtr path) {
  struct stat found;
  if (stat(path.cStr(), &found) != 0 || !S_ISREG(found.st_mode)) return nullptr;
  auto time = uint64_t(found.st_mtim.tv_sec) * 1'000'000'000 + found.st_mtim.tv_nsec;
  return kj::str(time, "-", found.st_ino);
}

}  // namespace

EtcFilesController::EtcFilesController(kj::UnixEventPort& port, kj::StringPtr folder,
                                       kj::StringPtr linked)
    : folder(kj::str(folder)),
      linked(kj::str(linked)),
      changes(newInotify()),
      observer(port, changes, kj::UnixEventPort::FdObserver::OBSERVE_READ) {}

kj::Array<Controller::Input> EtcFilesController::inputs() const {
  return kj::arr(input<rpc::HostnameSpecSpec>(), input<rpc::MachineConfigSpec>(kMachineConfigId));
}
kj::Array<kj::StringPtr> EtcFilesController::outputs() const {
  return typeNames<rpc::EtcFileStatusSpec>();
}

void EtcFilesController::watchFolders() {
  for (auto& path : {folder.asPtr(), linked.asPtr()}) {
    KJ_SYSCALL_HANDLE_ERRORS(
        inotify_add_watch(changes, path.cStr(), kChanges)) {  // may be the same folder
      case ENOENT:
        break;
      default:
        KJ_FAIL_SYSCALL("inotify_add_watch", error, path);
    }
  }
}

void EtcFilesController::wakeBy(kj::Function<void()> wake) {
  watching = watch(kj::mv(wake)).eagerlyEvaluate([](kj::Exception&& e) {
    log::error("cannot watch the files of /etc; their records are not updated",
               {{"error", messageOf(e)}});
  });
}

kj::Promise<void> EtcFilesController::watch(kj::Function<void()> wake) {
  for (;;) {
    auto readable = observer.whenBecomesReadable();  // before reading: it is edge-triggered
    char events[4096];
    bool any = false;
    while (read(changes, events, sizeof events) > 0) any = true;
    if (any) wake();
    co_await readable;
  }
}

kj::Promise<void> EtcFilesController::reconcile(Store& store) {
  watchFolders();  // before the files are read, so that no change is missed
  Outputs<rpc::EtcFileStatusSpec> outputs(name());
  for (auto& file : namesIn(folder, kMostFiles)) {
    if (strstr(file.cStr(), kUnfinished) != nullptr) continue;
    KJ_IF_MAYBE (version, versionOf(kj::str(folder, "/", file))) {
      outputs.add(file).setSpecVersion(*version);
    }
  }
  outputs.apply(store);
  return kj::READY_NOW;
}

kj::Own<Controller> etcFilesController(ControllerDependencies& deps) {
  return kj::heap<EtcFilesController>(deps.port, "/system/etc", kNetworkdState);
}

}  // namespace talos::machined
