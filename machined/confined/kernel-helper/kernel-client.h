// The brain's side of a kernel helper: calls of the kernel that another process makes.
//
// Calls block as the kernel's own do, from any thread, each on a socket of its own: none waits for
// another one. A call whose process is gone, or for which there is no helper, fails with
// ECONNRESET.
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

  // The next calls go there. The helper may take them later.
  void connect(kj::AutoCloseFd socket);

  // 0 or an errno. With the priority of the calling thread, if that is a lower one.
  int insertModule(kj::StringPtr file, kj::StringPtr parameters) const;
  int setParameter(kj::StringPtr path, kj::StringPtr value) const;
  Answer ataStatus(int disk) const;

 private:
  mutable std::mutex mutex;
  kj::AutoCloseFd socket;

  Answer ask(Call call, kj::StringPtr name, kj::StringPtr value, int disk = -1) const;
};

}  // namespace talos::helper
