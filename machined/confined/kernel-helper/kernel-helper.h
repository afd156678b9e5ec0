// A kernel helper: the process that has SYS_MODULE, or SYS_RAWIO, for the brain.
//
// It makes only three calls: it loads a module from a file of the running kernel's folder, sets one
// of three kernel parameters, and gets the SMART status of a disk. It opens the folder and the
// parameters before it reads a request. Each request has a separate process, which ends with it: a
// driver that hangs delays no other request, and a driver that fails ends only its own process. The
// helper has no state; after a crash of the brain the running processes finish their calls, and the
// helper ends with the last descriptor of its socket.
#pragma once

#include <kj/io.h>
#include <kj/vector.h>

#include "machined/confined/kernel-helper/kernel-request.h"

namespace talos::helper {

class KernelHelper {
 public:
  // `right`: kModules or kRawIo. `modules`: folder of the running kernel's modules.
  KernelHelper(kj::StringPtr right, kj::StringPtr modules, kj::StringPtr procSys = "/proc/sys");

  // Answers one packet; `disk` is -1 if the packet has no descriptor.
  Answer answer(kj::ArrayPtr<const char> packet, int disk) const;
  // Serves until the other side is gone.
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

// Returns "/lib/modules/RELEASE" of the running kernel.
kj::String modulesFolder(kj::StringPtr root = "/lib/modules");

}  // namespace talos::helper
