// files.EtcFilesController: publishes a record for each file of /etc that this machine has written,
// with a version that changes with the file. It runs whenever a folder with these files changes,
// and whenever the host name or the config does, because the boot makes the folders before it has a
// config.
#pragma once

#include <kj/async-unix.h>

#include "machined/resources/controller-runtime.h"

namespace talos::machined {

class EtcFilesController final : public Controller {
 public:
  // `folder` has the files, some of them as links into `linked`.
  EtcFilesController(kj::UnixEventPort& port, kj::StringPtr folder, kj::StringPtr linked);

  kj::StringPtr name() const override { return "files.EtcFilesController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;
  void wakeBy(kj::Function<void()> wake) override;

 private:
  kj::String folder, linked;
  kj::AutoCloseFd changes;  // inotify
  kj::UnixEventPort::FdObserver observer;
  kj::Promise<void> watching = nullptr;

  kj::Promise<void> watch(kj::Function<void()> wake);
  // Watches the folders; a folder that does not exist yet is watched from the next run on.
  void watchFolders();
};

}  // namespace talos::machined
