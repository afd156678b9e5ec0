// A kernel helper: the process that has SYS_MODULE, or SYS_RAWIO, for the brain.
//
// It makes three calls and no others: it loads a module from a file of the running kernel's folder,
// sets one of three kernel parameters, and asks a disk for its SMART status. It opens the folder
// and the parameters before it reads a request. Each request is carried out by a process of its
// own, which ends with it: a driver that hangs delays no other one, and one that fails takes
// nothing else with it. It has no state; after a crash of the brain the processes that run finish
// their call, and the helper ends with the last descriptor of its socket.
#pragma once

#include <kj/io.h>
#include <kj/vector.h>

#include "machined/confined/kernel-helper/kernel-request.h"

namespace talos::helper {

class KernelHelper {
 public:
  // `right`: kModules or kRawIo. `modules`: the folder of the running kernel.
  KernelHelper(kj::StringPtr right, kj::StringPtr modules, kj::StringPtr procSys = "/proc/sys");

  // A packet as it came; `disk` is -1 if it has no descriptor.
  Answer answer(kj::ArrayPtr<const char> packet, int disk) const;
  // Until the other side is gone.
  void serve(int socket) const;

 private:
  struct Opened {
    kj::StringPtr path;
    kj::AutoCloseFd file;
  };
  kj::StringPtr right;
  kj::AutoCloseFd folder;
  kj::Vector<Opened> parameters;

  Answer insertModule(kj::StringPtr name, kj::StringPtr value) const;
  Answer setParameter(kj::StringPtr name, kj::StringPtr value) const;
  Answer ataStatus(int disk) const;
  void carryOut(int conversation) const;
};

// "/lib/modules/RELEASE" of the running kernel.
kj::String modulesFolder(kj::StringPtr root = "/lib/modules");

}  // namespace talos::helper
