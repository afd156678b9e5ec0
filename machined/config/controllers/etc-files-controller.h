// files.EtcFilesController: a record for each file of /etc that this machine has written, with a
// version that changes with the file. It looks whenever one of the folders with these files
// changes, and whenever the host name or the config does: the boot makes the folders before it has
// a config.
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
  // Of folders that are not there yet the next run watches the changes.
  void watchFolders();
};

}  // namespace talos::machined
