// The brain's side of a kernel helper, another process that makes kernel calls for the brain.
//
// Calls block as the kernel's do, may be made from any thread, and each has its own socket, so that
// none waits for another. A call fails with ECONNRESET if its process is gone, or if there is no
// helper.
#pragma once

#include <kj/io.h>
#include <kj/string.h>

#include <mutex>

#include "machined/confined/kernel-helper/kernel-request.h"

namespace talos::helper {

class KernelClient {
 public:
  KernelClient() = default;
  KJ_DISALLOW_COPY_AND_MOVE(KernelClient);

  // Sends the next calls to this socket. The helper may accept them later.
  void connect(kj::AutoCloseFd socket);

  // Returns 0 or an errno. The call runs with the priority of the calling thread, if that is lower.
  int insertModule(kj::StringPtr file, kj::StringPtr parameters) const;
  int setParameter(kj::StringPtr path, kj::StringPtr value) const;
  Answer ataStatus(int disk) const;

 private:
  mutable std::mutex mutex;
  kj::AutoCloseFd socket;

  Answer ask(Call call, kj::StringPtr name, kj::StringPtr value, int disk = -1) const;
};

}  // namespace talos::helper
